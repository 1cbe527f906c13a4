package kernel

import "github.com/bulkhead-llm/bulkhead"

// direct says whether a span goes straight over F16: where its rows are one tile and attend over every key. That is decode.
func (s *Set) direct(sp *Span) bool {
	if len(s.raw) == 0 || sp.Rows > s.raw[0].rows {
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
	keys, values := s.raw, s.raw
	if guarded {
		keys, values = s.keys, s.values
	}
	i := len(keys) - sp.Rows // there is one for each number of rows
	parts := sp.cut(scratch)
	s.scoresDirect(sp, scratch, parts, keys[i].run, guarded)
	for r := range sp.Rows {
		scratch.limit[r] = sp.keys()
	}
	s.softmaxRows(sp, scratch, 0, sp.Rows)
	clear(scratch.acc[:sp.Rows*scratch.stride])
	s.mixDirect(sp, scratch, parts, values[i].run, guarded)
	s.copyOut(sp, scratch, 0, sp.Rows)
}

// scoresDirect multiplies queries by keys, part after part.
func (s *Set) scoresDirect(sp *Span, scratch *Scratch, parts []part, run func(*linesArgs), guarded bool) {
	block, before := scratch.size*bulkhead.LineBytes, (sp.Rows-1)*SegmentTokens
	fold, a := &scratch.foldK, &scratch.args
	*a = linesArgs{
		outStride: SegmentTokens, a: sp.Q[:(sp.Rows-1)*sp.QStride+scratch.size], aStride: sp.QStride,
		step: bulkhead.LineBytes, n: scratch.size, groupStep: block, fold: fold,
	}
	for i := range parts {
		p := &parts[i]
		a.f16, a.groups, a.fetch = p.k, p.blocks(), parts[0].v
		a.out = scratch.score[p.at:][:before+a.groups*PanelRows]
		if i+1 < len(parts) {
			a.fetch = parts[i+1].k
		}
		if guarded {
			fold.lines(sp.Head, p.firstRow()+a.groups*bulkhead.BlockRows)
		}
		run(a)
		if guarded {
			sp.SumK[p.page] += fold.sum
		}
	}
}

// mixDirect adds up values, part after part.
func (s *Set) mixDirect(sp *Span, scratch *Scratch, parts []part, run func(*linesArgs), guarded bool) {
	fold, a, before := &scratch.foldV, &scratch.args, (sp.Rows-1)*SegmentTokens
	*a = linesArgs{
		out: scratch.acc[:sp.Rows*scratch.stride], outStride: scratch.stride, aStride: SegmentTokens, step: scratch.stride * 2,
		groupStep: bulkhead.LineBytes, groups: scratch.stride / PanelRows, add: 1, fold: fold,
	}
	for i := range parts {
		p := &parts[i]
		a.f16, a.n, a.fetch = p.v, p.keys, parts[min(i+1, len(parts)-1)].v
		a.a = scratch.score[p.at:][:before+p.keys]
		if guarded {
			fold.columns(sp.Head, a.groups, p.slot+p.keys)
		}
		run(a)
		if guarded {
			sp.SumV[p.page] += fold.sum
		}
	}
}
