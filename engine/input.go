package engine

import "github.com/bulkhead-llm/bulkhead/engine/kernel"

// input says what the next loop multiplies.
type input struct {
	kind     inputKind
	cols     int
	quantize bool
	local    bool // every thread makes it for itself
	made     *kernel.Activations
	number   uint64 // counts inputs, so that a thread knows whether it has this one
}

type inputKind int

const (
	normed    inputKind = iota // the residual, normed for attention
	attended                   // what attention gives, joined from segments
	normed2                    // the residual, normed for the feed-forward
	hidden                     // the product of gate and up
	normedOut                  // the residual, normed for the output
)

// ready makes the input of the next loop, or sees to it that threads make it.
func (f *forward) ready(kind inputKind, quantize bool) {
	s := f.m.spec
	in := &f.input
	in.kind, in.quantize, in.cols = kind, quantize, s.Dim
	in.number++
	switch kind {
	case attended:
		in.cols = s.Heads * s.HeadSize
	case hidden:
		in.cols = s.Hidden
	}
	rows, cost := len(f.live), len(f.live)*in.cols
	if kind == attended {
		cost *= f.attention.mostSegments
	}
	in.local = f.pool.Threads() > 1 && cost <= fewValues
	if in.local {
		return
	}
	in.made = f.shared
	if kind == hidden {
		in.made = f.product // where it is already
	}
	in.made.Shape(rows, in.cols) // rows stay where they are: the number of columns does not change
	if kind != hidden || quantize {
		f.pool.Run(f.jobs.fill, rows, f.rowGrain(rows))
	}
}

// take is the input, for a thread in a loop.
func (f *forward) take(thread int) *kernel.Activations {
	if !f.input.local {
		return f.input.made
	}
	l := f.local[thread]
	if l.made != f.input.number {
		l.input.Shape(len(f.live), f.input.cols)
		f.fill(l, l.input, 0, len(f.live))
		l.made = f.input.number
	}
	return l.input
}

// fill makes rows [from,to) of the input.
func (f *forward) fill(l *local, a *kernel.Activations, from, to int) {
	s := f.m.spec
	for r := from; r < to; r++ {
		dst := a.Row(r)
		switch f.input.kind {
		case normed:
			f.set.RMSNorm(dst, f.residual[r*s.Dim:][:s.Dim], f.m.layers[f.layer].attnNorm, s.Eps)
		case normed2:
			f.set.RMSNorm(dst, f.residual[r*s.Dim:][:s.Dim], f.m.layers[f.layer].ffnNorm, s.Eps)
		case normedOut:
			f.set.RMSNorm(dst, f.residual[r*s.Dim:][:s.Dim], f.m.outputNorm, s.Eps)
		case hidden:
			if a != f.product {
				copy(dst, f.product.Row(r))
			}
		case attended:
			f.attention.join(f, l, dst, r)
		}
	}
	if f.input.quantize {
		f.set.Quantize(a, from, to)
	}
}
