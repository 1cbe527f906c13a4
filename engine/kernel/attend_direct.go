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
	parts := sp.cut(scratch)
	for i := range parts {
		next := parts[0].v
		if i+1 < len(parts) {
			next = parts[i+1].k
		}
		s.scoresDirect(sp, scratch, &parts[i], next, tiles, guarded)
	}
	for r := range sp.Rows {
		scratch.limit[r] = sp.keys()
	}
	s.softmaxRows(sp, scratch, 0, sp.Rows)
	clear(scratch.acc[:sp.Rows*scratch.stride])
	for i := range parts {
		next := parts[min(i+1, len(parts)-1)].v
		s.mixDirect(sp, scratch, &parts[i], next, tiles, guarded)
	}
	s.copyOut(sp, scratch, 0, sp.Rows)
}

// scoresDirect multiplies queries by the keys of a part.
func (s *Set) scoresDirect(sp *Span, scratch *Scratch, p *part, next []byte, tiles []linesTile, guarded bool) {
	block := scratch.size * bulkhead.LineBytes
	sum, a := scratch.groups[:1], &scratch.args
	if p.first {
		clear(sum)
	}
	*a = linesArgs{
		out: scratch.score[p.at:], outStride: SegmentTokens, a: sp.Q, aStride: sp.QStride, f16: p.k, fetch: next,
		step: bulkhead.LineBytes, n: scratch.size, groupStep: block, groups: len(p.k) / block, sums: sum,
	}
	runTiles(tiles, a, 0, sp.Rows)
	sum[0].N += len(p.k) / bulkhead.LineBytes
	if guarded && p.filled > 0 {
		sp.SumK[p.page] += sum[0].Fold(sp.Head)
	}
}

// mixDirect adds up the values of a part.
func (s *Set) mixDirect(sp *Span, scratch *Scratch, p *part, next []byte, tiles []linesTile, guarded bool) {
	sums, a := scratch.groups, &scratch.args
	if p.first {
		clear(sums)
	}
	*a = linesArgs{
		out: scratch.acc, outStride: scratch.stride, a: scratch.score[p.at:], aStride: SegmentTokens, f16: p.v, fetch: next,
		step: scratch.stride * 2, n: p.keys, groupStep: bulkhead.LineBytes, groups: len(sums), add: 1, sums: sums, sumStep: linesBytes,
	}
	runTiles(tiles, a, 0, sp.Rows)
	if guarded && p.filled > 0 {
		whole := joinGroups(sums, p.filled)
		sp.SumV[p.page] += whole.Fold(sp.Head)
	}
}

// joinGroups is the running sum over n*len(groups) lines taken in order, from those of every len(groups)-th line each.
//
// Line t of group g is line t*G+g of nG. In B of the group it weighs n-t, in B of the whole nG-(t*G+g) = G*(n-t) - g. So B
// of the whole is G times the sum of the groups' B, less g times A of each group g.
func joinGroups(groups []bulkhead.Lines, n int) (whole bulkhead.Lines) {
	whole.N = n * len(groups)
	var later [4]uint64 // sum over groups of g times A: A of the last group is in it G-1 times, of the first not at all
	for g := len(groups) - 1; g >= 0; g-- {
		group := &groups[g]
		for j := range later {
			later[j] += whole.A[j]
			whole.A[j] += group.A[j]
			whole.B[j] += group.B[j]
		}
	}
	for j := range later {
		whole.B[j] = uint64(len(groups))*whole.B[j] - later[j]
	}
	return whole
}
