package engine

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

// forward is the working memory of an engine's passes and the loops that fill it, in this order in each layer:
//
//	project   q, k, v of all rows           from the normed residual
//	attend    store K and V, read the pages  see attention.go
//	combine   residual += o * attention
//	gate      gate, up and their product    from the normed residual
//	reduce    residual += down * product
//
// Each is a loop over panels of weights (or units of attention) that threads share, and threads meet after each. What a
// loop multiplies, its input, must be made before: normed, or joined from segments, or only quantised. For many rows that is
// a loop over rows of its own. For few, every thread makes all of it for itself: that costs less than to meet.
//
// In the last layer nobody reads what comes after K and V, but for the rows whose logits are wanted.
type forward struct {
	m      *model
	set    *kernel.Set
	pool   *parallel.Pool
	layout bulkhead.Layout // of the pages at hand

	maxRows int // of a pass
	maxAcc  int // rows times segments of a pass

	pass  *pass
	guard bool
	layer int
	skip  int     // panels that project leaves out
	live  []rowOf // rows that are computed: all of them, in the end those whose logits are wanted

	residual []float32           // live row r at r*Dim
	cos, sin []float32           // row r at r*pairs
	qkv      []float32           // row r at r*(Heads+2*KVHeads)*HeadSize
	gate, up []float32           // row r at r*Hidden
	product  *kernel.Activations // of the two
	delta    []float32           // what is added to the residual
	logits   []float32           // the caller's

	input  input
	shared *kernel.Activations
	local  []*local // by thread

	attention attention
	jobs      jobs
}

// rowOf is a row of the pass by its part.
type rowOf struct{ part, row int32 }

// local is one thread's working memory.
type local struct {
	input   *kernel.Activations // for few rows
	made    uint64              // the input that it holds
	scratch *kernel.Scratch
	span    kernel.Span
	q       []float32 // turned queries of a unit
	key     []float32 // a turned key
	pos     []int32
	max     []float32 // of the segments of one row
	den     []float32
	acc     [][]float32
}

// fewValues is up to how many values of an input every thread makes for itself.
const fewValues = 8 << 10

// accBytes bounds the memory in which attention leaves its segments.
const accBytes = 256 << 20

func newForward(m *model, set *kernel.Set, pool *parallel.Pool, maxRows int) *forward {
	s := m.spec
	f := &forward{m: m, set: set, pool: pool, maxRows: maxRows, maxAcc: max(1, accBytes/4/(s.Heads*s.HeadSize))}
	cols := max(s.Dim, s.Heads*s.HeadSize)
	f.shared = kernel.NewActivations(maxRows, cols)
	f.product = kernel.NewActivations(maxRows, s.Hidden)
	for range pool.Threads() {
		f.local = append(f.local, &local{input: kernel.NewActivations(1, fewValues), key: make([]float32, s.HeadSize)})
	}
	f.jobs = newJobs(f)
	return f
}

// run computes a pass.
func (f *forward) run(p *pass, logits []float32, guard bool) {
	f.begin(p, logits, guard)
	layers := len(f.m.layers)
	for f.layer = range layers {
		y := &f.m.layers[f.layer]
		if f.layer == layers-1 {
			f.attention.plan(f, true)
		}
		f.ready(normed, y.q.Type.Quantized || y.k.Type.Quantized || y.v.Type.Quantized)
		f.skip = 0
		if f.layer == layers-1 && p.wanted == 0 {
			f.skip = y.q.Panels() // nobody attends
		}
		f.loop(f.jobs.project, y.q.Panels()+y.k.Panels()+y.v.Panels()-f.skip)
		f.attention.run(f)
		if f.layer == layers-1 {
			f.keepWanted()
		}
		if len(f.live) == 0 {
			return
		}
		f.ready(attended, y.o.Type.Quantized)
		f.loop(f.jobs.combine, y.o.Panels())
		f.ready(normed2, y.gate.Type.Quantized || y.up.Type.Quantized)
		f.loop(f.jobs.gate, y.gate.Panels())
		f.ready(hidden, y.down.Type.Quantized)
		f.loop(f.jobs.reduce, y.down.Panels())
	}
	f.ready(normedOut, f.m.output.Type.Quantized)
	f.loop(f.jobs.output, f.m.output.Panels())
}

// begin makes room for a pass, and looks up its tokens.
func (f *forward) begin(p *pass, logits []float32, guard bool) {
	s, n := f.m.spec, p.rows
	f.pass, f.logits, f.guard = p, logits, guard
	f.live = f.live[:0]
	for i := range p.parts {
		for r := range p.parts[i].tokens {
			f.live = append(f.live, rowOf{int32(i), int32(r)})
		}
	}
	f.residual = grown(f.residual, n*s.Dim)
	f.delta = grown(f.delta, n*s.Dim)
	f.cos = grown(f.cos, n*s.Rope.Dims/2)
	f.sin = grown(f.sin, n*s.Rope.Dims/2)
	f.qkv = grown(f.qkv, n*(s.Heads+2*s.KVHeads)*s.HeadSize)
	f.gate = grown(f.gate, n*s.Hidden)
	f.up = grown(f.up, n*s.Hidden)
	f.layer = 0
	f.attention.begin(f)
	f.pool.Run(f.jobs.embed, n, f.rowGrain(n))
}

// keepWanted moves the rows whose logits are wanted to the front and forgets the others.
func (f *forward) keepWanted() {
	dim, n := f.m.spec.Dim, 0
	for i, r := range f.live {
		t := &f.pass.parts[r.part]
		if t.out < 0 || int(r.row) != len(t.tokens)-1 {
			continue
		}
		copy(f.residual[n*dim:][:dim], f.residual[i*dim:][:dim]) // t.out == n: both count in order
		f.live[n] = r
		n++
	}
	f.live = f.live[:n]
}

// loop shares panels among the threads: some parts for each, so that one that is late holds up little.
func (f *forward) loop(job parallel.Job, panels int) {
	const partsEach = 4
	f.pool.Run(job, panels, (panels+partsEach*f.pool.Threads()-1)/(partsEach*f.pool.Threads()))
}

func (f *forward) rowGrain(rows int) int { return max(1, rows/(4*f.pool.Threads())) }
