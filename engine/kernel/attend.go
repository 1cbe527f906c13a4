package kernel

import (
	"math"

	"github.com/bulkhead-llm/bulkhead"
)

// Attend computes a span and takes the sums of what it reads.
func (s *Set) Attend(sp *Span, scratch *Scratch) {
	sp.check(scratch, true)
	s.attend(sp, scratch, true)
}

// AttendUnguarded computes the same bits and takes no sums. It is there to measure what the guards cost.
func (s *Set) AttendUnguarded(sp *Span, scratch *Scratch) {
	sp.check(scratch, false)
	s.attend(sp, scratch, false)
}

func (s *Set) attend(sp *Span, scratch *Scratch, guarded bool) {
	if s.direct(sp) {
		s.attendDirect(sp, scratch, guarded)
		return
	}
	s.load(sp, scratch, guarded)
	for from := 0; from < sp.Rows; from += groupRows {
		s.attendGroup(sp, scratch, from, min(sp.Rows, from+groupRows))
	}
}

// linesArgs is what a kernel over lines gets. For each row r of its tile and each group g of lines it computes 16 lanes,
//
//	out[r*outStride+16*g+lane] = (out if add, else 0) + sum over i < n of a[r*aStride+i] * line(g,i)[lane]
//
// with i in order, where line(g,i) is 16 values at g*groupStep + i*step of f32 or, in bytes, of f16. Scores are this with
// blocks of K for groups and dimensions for lines; mixed values are it with 16 dimensions for a group and slots of V for
// lines. Kernels that take sums leave that of their lines, which are whole blocks of K or columns of V, in fold; the one that
// does no rows leaves what it adds up in columns.
// Kernels in assembly read this by offset.
type linesArgs struct {
	out       []float32
	outStride int
	a         []float32
	aStride   int
	f32       []float32
	f16       []byte
	step      int // bytes from line to line
	n         int
	groupStep int // bytes from group to group
	groups    int
	add       int // 0 or 1
	fold      *folding
	columns   *bulkhead.Columns
	fetch     []byte // what will be needed next: fetched into the cache, 32 bytes for each line
}

// linesTile is a kernel that takes a fixed number of rows at once.
type linesTile struct {
	rows int
	run  func(a *linesArgs)
}

// runTiles does rows [from,to) of a, in tiles.
func runTiles(tiles []linesTile, a *linesArgs, from, to int) {
	out, in := a.out, a.a
	for r := from; r < to; {
		for tiles[0].rows > to-r {
			tiles = tiles[1:]
		}
		n := tiles[0].rows
		a.out = out[r*a.outStride:][:(n-1)*a.outStride+a.groups*PanelRows]
		a.a = in[r*a.aStride:][:(n-1)*a.aStride+a.n]
		tiles[0].run(a)
		r += n
	}
	a.out, a.a = out, in
}

// load widens the segment's K and V into scratch and takes their sums.
func (s *Set) load(sp *Span, scratch *Scratch, guarded bool) {
	parts := sp.cut(scratch)
	for i := range parts {
		p := &parts[i]
		dst := scratch.k[p.at*scratch.size:][:len(p.k)/2]
		if !guarded {
			s.widen(dst, p.k)
			continue
		}
		sum := s.widenBlocks(dst, p.k, scratch.size)
		sp.SumK[p.page] += sum.Fold(sp.Head, p.firstRow())
	}
	for i := range parts {
		p := &parts[i]
		s.widen(scratch.v[p.at*scratch.stride:][:len(p.v)/2], p.v)
		if guarded {
			pieces := scratch.stride / PanelRows
			sum := s.sumColumns(p.v, pieces)
			sp.SumV[p.page] += sum.Fold(sp.Head, pieces, p.slot, p.keys)
		}
	}
}

// attendGroup computes rows [from,to) over the widened segment.
func (s *Set) attendGroup(sp *Span, scratch *Scratch, from, to int) {
	rows, most := to-from, 0
	for r := range rows {
		scratch.limit[r] = sp.limit(from + r)
		most = max(most, scratch.limit[r])
	}
	s.scores(sp, scratch, from, rows, most)
	s.softmaxRows(sp, scratch, from, rows)
	s.mix(scratch, rows, most)
	s.copyOut(sp, scratch, from, rows)
}

// scores multiplies queries by keys, a few blocks of K at a time that stay in cache meanwhile.
func (s *Set) scores(sp *Span, scratch *Scratch, from, rows, keys int) {
	const blocksAtOnce = 4
	size := scratch.size
	block := size * PanelRows // values
	blocks := (keys + PanelRows - 1) / PanelRows
	a := &scratch.args
	*a = linesArgs{outStride: SegmentTokens, aStride: sp.QStride, step: PanelRows * 4, n: size, groupStep: block * 4}
	a.a = sp.Q[from*sp.QStride:]
	for b := 0; b < blocks; b += blocksAtOnce {
		a.groups = min(blocksAtOnce, blocks-b)
		a.f32 = scratch.k[b*block:][:a.groups*block]
		a.out = scratch.score[b*PanelRows:]
		runTiles(s.f32, a, 0, rows)
	}
}

// softmaxRows turns scores into exponentials.
func (s *Set) softmaxRows(sp *Span, scratch *Scratch, from, rows int) {
	for r := range rows {
		limit := scratch.limit[r]
		if limit == 0 {
			sp.Max[from+r], sp.Den[from+r] = float32(math.Inf(-1)), 0
			continue
		}
		x := scratch.score[r*SegmentTokens:][:(limit+PanelRows-1)/PanelRows*PanelRows]
		sp.Max[from+r], sp.Den[from+r] = s.softmax(x, limit, sp.Scale)
	}
}

// mix adds up values times exponentials, some slots of V at a time that stay in cache meanwhile. Rows that attend over
// different keys go together as far as all of them do, and alone from there on.
func (s *Set) mix(scratch *Scratch, rows, keys int) {
	const slotsAtOnce = 64
	stride := scratch.stride
	clear(scratch.acc[:rows*stride])
	a := &scratch.args
	*a = linesArgs{outStride: stride, aStride: SegmentTokens, step: stride * 4, groupStep: PanelRows * 4, groups: stride / PanelRows, add: 1}
	part := func(from, to, row, rowEnd int) {
		if from < to {
			a.out, a.a = scratch.acc, scratch.score[from:]
			a.f32, a.n = scratch.v[from*stride:to*stride], to-from
			runTiles(s.f32, a, row, rowEnd)
		}
	}
	most := s.f32[0].rows
	for at := 0; at < keys; at += slotsAtOnce {
		end := min(keys, at+slotsAtOnce)
		for r := 0; r < rows; r += most {
			tile := scratch.limit[r:min(rows, r+most)]
			shared := end
			for _, limit := range tile {
				shared = min(shared, limit)
			}
			part(at, shared, r, r+len(tile))
			for i, limit := range tile {
				part(max(at, shared), min(end, limit), r+i, r+i+1)
			}
		}
	}
}

// copyOut hands over what has been accumulated.
func (s *Set) copyOut(sp *Span, scratch *Scratch, from, rows int) {
	size, stride := scratch.size, scratch.stride
	for r := range rows {
		copy(sp.Acc[(from+r)*size:][:size], scratch.acc[r*stride:])
	}
}

// Merge joins the segments of a row, in order: max, den and acc as spans left them, one of each a segment. dst is the
// attention's output, HeadSize long; zeros where the row attended over nothing.
func (s *Set) Merge(dst []float32, max, den []float32, acc [][]float32) {
	clear(dst)
	top := float32(math.Inf(-1))
	for _, m := range max {
		if m > top {
			top = m
		}
	}
	var total float32
	for i, m := range max {
		if den[i] == 0 {
			continue
		}
		total += float32(den[i] * exp(m-top))
	}
	if total == 0 {
		return
	}
	for i, m := range max {
		if den[i] != 0 {
			s.addMul(dst, acc[i][:len(dst)], exp(m-top)/total)
		}
	}
}
