package engine

import (
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

// jobs are the bodies of a forward pass's loops, made once so that a step allocates nothing.
type jobs struct {
	embed, fill, project, store, attend, combine, gate, reduce, output, compare parallel.Job
}

// body is one of forward's methods as a job.
type body struct{ do func(thread, from, to int) }

func (b *body) Do(thread, from, to int) { b.do(thread, from, to) }

func newJobs(f *forward) jobs {
	return jobs{
		embed: &body{f.embed}, fill: &body{f.fillShared}, project: &body{f.project}, store: &body{f.storeAll}, attend: &body{f.attend},
		combine: &body{f.combine}, gate: &body{f.gateUp}, reduce: &body{f.reduce}, output: &body{f.output}, compare: &body{f.compare},
	}
}

// embed looks up the tokens of rows, and how far their positions turn.
func (f *forward) embed(_, from, to int) {
	s := f.m.spec
	row, pairs := f.m.embeddingType.RowBytes(s.Dim), s.Rope.Dims/2
	for r := from; r < to; r++ {
		t := &f.pass.parts[f.live[r].part]
		at := int(f.live[r].row)
		f.m.embeddingType.Row(f.residual[r*s.Dim:][:s.Dim], f.m.embedding.Data[int(t.tokens[at])*row:][:row])
		f.m.turn(f.cos[r*pairs:][:pairs], f.sin[r*pairs:][:pairs], t.start+at)
	}
}

func (f *forward) fillShared(thread, from, to int) { f.fill(f.local[thread], f.input.made, from, to) }

// project computes panels of q, k and v, counted through.
func (f *forward) project(thread, from, to int) {
	x := f.take(thread)
	from, to = from+f.skip, to+f.skip
	y, s := &f.m.layers[f.layer], f.m.spec
	stride, at := (s.Heads+2*s.KVHeads)*s.HeadSize, 0
	for _, w := range [...]*kernel.Weight{&y.q, &y.k, &y.v} {
		n := w.Panels()
		f.set.MatMul(f.qkv[at:], stride, w, x, max(0, min(from, n)), max(0, min(to, n)))
		at, from, to = at+w.Rows, from-n, to-n
	}
}

// combine adds what attention gave to the residual.
func (f *forward) combine(thread, from, to int) {
	f.addTo(&f.m.layers[f.layer].o, f.take(thread), from, to)
}

// reduce adds what the feed-forward gave to the residual.
func (f *forward) reduce(thread, from, to int) {
	f.addTo(&f.m.layers[f.layer].down, f.take(thread), from, to)
}

func (f *forward) addTo(w *kernel.Weight, x *kernel.Activations, from, to int) {
	dim := f.m.spec.Dim
	f.set.MatMul(f.delta, dim, w, x, from, to)
	lo, hi := columns(w, from, to)
	for r := range f.live {
		f.set.Add(f.residual[r*dim+lo:r*dim+hi], f.delta[r*dim+lo:r*dim+hi])
	}
}

// gateUp computes panels of gate and of up, and their product.
func (f *forward) gateUp(thread, from, to int) {
	x := f.take(thread)
	y, n := &f.m.layers[f.layer], f.m.spec.Hidden
	f.set.MatMul(f.gate, n, &y.gate, x, from, to)
	f.set.MatMul(f.up, n, &y.up, x, from, to)
	lo, hi := columns(&y.gate, from, to)
	for r := range f.live {
		f.set.SiLUMul(f.product.F32[r*n+lo:r*n+hi], f.gate[r*n+lo:r*n+hi], f.up[r*n+lo:r*n+hi])
	}
}

// output computes panels of the logits.
func (f *forward) output(thread, from, to int) {
	f.set.MatMul(f.logits, f.m.spec.Vocab, &f.m.output, f.take(thread), from, to)
}

// columns is which outputs the panels are.
func columns(w *kernel.Weight, from, to int) (lo, hi int) {
	return from * kernel.PanelRows, min(w.Rows, to*kernel.PanelRows)
}
