package engine

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
)

// attention is the work of a pass on pages, cut into units that threads share: one sequence, one KV head, one segment of
// 512 keys, one band of rows. A unit first stores the K and V of the pass that belong to its segment and head, and then
// attends over it with those rows of its band that reach it. Segments of a row are joined afterwards, in order, by whoever
// needs them.
//
// Most often there is one band. Where that makes fewer units than the threads need, the rows of a chunk are cut in several,
// the last rows being the first band. Each then reads the pages for itself, and the units of the first band store before any
// unit reads.
//
// The sums of what was read are kept apart by head until all layers are done, and added up where they are compared, by all
// threads. Those of what was written extend the seals when all units of a layer are done, by the caller alone. Adding is
// exact, so its order does not matter.
type attention struct {
	units        []unit // of all layers but the last, or of the last
	mostSegments int    // of a row

	acc         []float32 // of all units
	max, den    []float32
	wrote       []bulkhead.Sum // row r, head h: K at 2*(r*KVHeads+h), then V
	kept        []bulkhead.Sum // what the parts read in all layers
	pagesOf     int            // of a segment
	banded      bool
	rowsPerHead int // query heads that share a KV head
}

func segments(tokens int) int { return (tokens + kernel.SegmentTokens - 1) / kernel.SegmentTokens }

// begin plans the layers before the last and makes room for what the parts keep.
func (a *attention) begin(f *forward) {
	s := f.m.spec
	f.useLayout(f.pass.parts)
	a.rowsPerHead = s.Heads / s.KVHeads
	a.pagesOf = kernel.SegmentTokens / f.layout.PageTokens
	a.wrote = grown(a.wrote, 2*f.pass.rows*s.KVHeads)
	a.cut(f)
	n := 0
	for i := range f.pass.parts {
		t := &f.pass.parts[i]
		layers := s.Layers
		if t.out < 0 {
			layers-- // nobody attends in the last one
		}
		if t.sums = (sums{pages: t.app.Pages(), layers: layers, inner: s.Layers - 1, heads: s.KVHeads}); f.guard {
			n += 2 * t.sums.size(t.bands)
		}
	}
	a.kept = grown(a.kept, n)
	clear(a.kept) // sums of an earlier step would pass for those of this one
	if rest := a.kept; f.guard {
		for i := range f.pass.parts {
			t := &f.pass.parts[i]
			n := t.sums.size(t.bands)
			t.sums.k, t.sums.v, rest = rest[:n:n], rest[n:2*n:2*n], rest[2*n:]
		}
	}
	a.plan(f, s.Layers == 1)
}

// useLayout finds the page size of the sequences, which is one, and makes scratch for it.
func (f *forward) useLayout(parts []part) {
	s := f.m.spec
	l := bulkhead.Layout{Layers: s.Layers, KVHeads: s.KVHeads, HeadSize: s.HeadSize}
	for i := range parts {
		seq, pages := parts[i].seq, parts[i].pages
		l.PageTokens = int(seq.Capacity()) / len(pages)
		if kernel.SegmentTokens%l.PageTokens != 0 || len(pages[0]) != l.PageBytes() || i > 0 && l != f.layout {
			panic("engine: sequences whose pages have another layout than the model or than one another")
		}
		if f.layout != l {
			f.layout = l
			for _, t := range f.local {
				t.scratch = kernel.NewScratch(&l)
			}
		}
	}
}

// run does the units of a layer, and extends the seals by what they wrote.
func (a *attention) run(f *forward) {
	if a.banded {
		f.pool.Run(f.jobs.store, len(a.units), 1)
	}
	f.pool.Run(f.jobs.attend, len(a.units), 1)
	if f.guard {
		a.extend(f)
	}
}

// attend is the loop over units.
func (f *forward) attend(thread, from, to int) {
	for i := from; i < to; i++ {
		u := &f.attention.units[i]
		if !f.attention.banded {
			f.store(f.local[thread], u)
		}
		if u.from < u.to {
			f.read(f.local[thread], u)
		}
	}
}

// storeAll is the loop over units where all of them store before any attends.
func (f *forward) storeAll(thread, from, to int) {
	for i := from; i < to; i++ {
		f.store(f.local[thread], &f.attention.units[i])
	}
}

// store stores K and V of a unit's rows.
func (f *forward) store(l *local, u *unit) {
	s, t := f.m.spec, &f.pass.parts[u.part]
	stride := (s.Heads + 2*s.KVHeads) * s.HeadSize
	for i := u.storeFrom; i < u.storeTo; i++ {
		r := t.row + i
		k := f.qkv[r*stride+(s.Heads+u.head)*s.HeadSize:][:s.HeadSize]
		v := f.qkv[r*stride+(s.Heads+s.KVHeads+u.head)*s.HeadSize:][:s.HeadSize]
		copy(l.key, k)
		f.rope(l.key, r)
		page, slot := t.app.Slot(i)
		sums := f.attention.wrote[2*(r*s.KVHeads+u.head):]
		sums[0] = f.set.StoreK(&f.layout, page, f.layer, u.head, slot, l.key)
		sums[1] = f.set.StoreV(&f.layout, page, f.layer, u.head, slot, v)
	}
}

// read attends over a unit's segment with the queries of its rows, those that share its KV head side by side.
func (f *forward) read(l *local, u *unit) {
	s, t, a := f.m.spec, &f.pass.parts[u.part], &f.attention
	size, n := s.HeadSize, (u.to-u.from)*a.rowsPerHead
	stride := (s.Heads + 2*s.KVHeads) * size
	group := a.rowsPerHead * size
	l.q, l.pos = grown(l.q, n*size), grown(l.pos, n)
	for i := u.from; i < u.to; i++ {
		at := (i - u.from) * a.rowsPerHead
		q := l.q[at*size:][:group]
		copy(q, f.qkv[(t.row+i)*stride+u.head*group:])
		f.rope(q, t.row+i)
		for g := range a.rowsPerHead {
			l.pos[at+g] = int32(t.start + i)
		}
	}
	l.span = kernel.Span{
		Layout: &f.layout, Layer: f.layer, Head: u.head, Pages: t.pages, Len: t.end(), Segment: u.segment,
		Rows: n, Q: l.q, QStride: size, Pos: l.pos, Scale: f.m.scale,
		Max: a.max[u.acc:][:n], Den: a.den[u.acc:][:n], Acc: a.acc[u.acc*size:][:n*size],
	}
	if f.guard {
		k, v := t.sums.at(f.layer, u.band, u.head)
		from := u.segment * a.pagesOf
		to := min(t.sums.pages, from+a.pagesOf)
		l.span.SumK, l.span.SumV = k[from:to], v[from:to]
		f.set.Attend(&l.span, l.scratch)
	} else {
		f.set.AttendUnguarded(&l.span, l.scratch)
	}
}

// rope turns heads by a row's position.
func (f *forward) rope(x []float32, row int) {
	s := f.m.spec
	pairs := s.Rope.Dims / 2
	cos, sin := f.cos[row*pairs:][:pairs], f.sin[row*pairs:][:pairs]
	if s.Rope.Halves {
		f.set.RopeNeox(x, s.HeadSize, s.Rope.Dims, cos, sin)
	} else {
		f.set.Rope(x, s.HeadSize, s.Rope.Dims, cos, sin)
	}
}

// extend adds up over heads what was written, and completes bands.
func (a *attention) extend(f *forward) {
	heads := f.m.spec.KVHeads
	for i := range f.pass.parts {
		t := &f.pass.parts[i]
		for band := 1; band < t.bands; band++ {
			if _, to := t.band(band); segments(t.start+to) < t.segments() {
				t.sums.borrow(f.layer, band, segments(t.start+to)*a.pagesOf)
			}
		}
		for j := range t.tokens {
			var k, v bulkhead.Sum
			for h := range heads {
				wrote := a.wrote[2*((t.row+j)*heads+h):][:2]
				k += wrote[0]
				v += wrote[1]
			}
			t.app.ExtendK(f.layer, j, k)
			t.app.ExtendV(f.layer, j, v)
		}
	}
}

// join writes what attention gives live row r: its segments, in order, head by head.
func (a *attention) join(f *forward, l *local, dst []float32, r int) {
	s, ref := f.m.spec, f.live[r]
	t := &f.pass.parts[ref.part]
	row, all := int(ref.row), t.segments()
	band := (len(t.tokens) - 1 - row) / t.bandRows()
	n := segments(t.start + row + 1)
	l.max, l.den, l.acc = grown(l.max, n), grown(l.den, n), grown(l.acc, n)
	for head := range s.Heads {
		first := head / a.rowsPerHead * all
		for i := range n {
			u := &a.units[t.unit+(first+i)*t.bands+band]
			at := u.acc + (row-u.from)*a.rowsPerHead + head%a.rowsPerHead
			l.max[i], l.den[i], l.acc[i] = a.max[at], a.den[at], a.acc[at*s.HeadSize:][:s.HeadSize]
		}
		f.set.Merge(dst[head*s.HeadSize:][:s.HeadSize], l.max, l.den, l.acc)
	}
}
