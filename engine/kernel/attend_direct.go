package kernel

import "github.com/bulkhead-llm/bulkhead"

// direct says whether a span goes straight over F16: where its rows are one tile and attend over every key. That is decode.
func (s *Set) direct(sp *Span) bool {
	if len(s.f16) == 0 || sp.Rows > s.f16[0].rows {
		return false
	}
	for r := range sp.Rows {
		if sp.limit(r) < sp.keys() {
			return false
		}
	}
	return true
}

// attendDirect computes a span of one tile. The order of every sum is that of attendGroup, so the bits are too.
func (s *Set) attendDirect(sp *Span, scratch *Scratch, guarded bool) {
	tiles := s.raw
	if guarded {
		tiles = s.f16
	}
	for i := range sp.parts() {
		s.scoresDirect(sp, scratch, i, tiles, guarded)
	}
	for r := range sp.Rows {
		scratch.limit[r] = sp.keys()
	}
	s.softmaxRows(sp, scratch, 0, sp.Rows)
	clear(scratch.acc[:sp.Rows*sp.Layout.HeadStride()])
	for i := range sp.parts() {
		s.mixDirect(sp, scratch, i, tiles, guarded)
	}
	s.copyOut(sp, scratch, 0, sp.Rows)
}

// scoresDirect multiplies queries by one page's keys.
func (s *Set) scoresDirect(sp *Span, scratch *Scratch, i int, tiles []linesTile, guarded bool) {
	p, size := sp.part(i), sp.Layout.HeadSize
	sum := scratch.groups[:1]
	clear(sum)
	a := &scratch.args
	*a = linesArgs{
		out: scratch.score[p.at:], outStride: SegmentTokens,
		a: sp.Q, aStride: sp.QStride,
		f16: p.k, step: bulkhead.LineBytes, n: size,
		groupStep: size * bulkhead.LineBytes, groups: len(p.k) / (size * bulkhead.LineBytes),
		sums: sum,
	}
	runTiles(tiles, a, 0, sp.Rows)
	if guarded {
		sum[0].N = len(p.k) / bulkhead.LineBytes
		sp.SumK[i] += sum[0].Fold(sp.Head)
	}
}

// mixDirect adds up one page's values, few slots at a time so that they stay in cache from group to group.
func (s *Set) mixDirect(sp *Span, scratch *Scratch, i int, tiles []linesTile, guarded bool) {
	const slotsAtOnce = 32
	p, stride := sp.part(i), sp.Layout.HeadStride()
	sums := scratch.groups
	clear(sums)
	a := &scratch.args
	*a = linesArgs{
		out: scratch.acc, outStride: stride, aStride: SegmentTokens,
		step: stride * 2, groupStep: bulkhead.LineBytes, groups: stride / PanelRows, add: 1,
		sums: sums, sumStep: linesBytes,
	}
	for at := 0; at < p.filled; at += slotsAtOnce {
		end := min(p.filled, at+slotsAtOnce)
		a.a, a.f16, a.n = scratch.score[p.at+at:], p.v[at*stride*2:end*stride*2], end-at
		runTiles(tiles, a, 0, sp.Rows)
	}
	if guarded {
		whole := joinGroups(sums, p.filled)
		sp.SumV[i] += whole.Fold(sp.Head)
	}
}

// joinGroups is the running sum over lines taken in order, from those of every len(groups)-th line each. Group g has n
// lines, A their sum and B with line t weighing n-t; its line t is line t*len(groups)+g of the whole.
func joinGroups(groups []bulkhead.Lines, n int) (whole bulkhead.Lines) {
	count := uint64(len(groups))
	whole.N = n * len(groups)
	for j := range whole.A {
		var placed uint64
		for g := range groups {
			a, b := groups[g].A[j], groups[g].B[j]
			whole.A[j] += a
			placed += count*(uint64(n)*a-b) + uint64(g)*a
		}
		whole.B[j] = uint64(whole.N)*whole.A[j] - placed
	}
	return whole
}
