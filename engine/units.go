package engine

import "github.com/bulkhead-llm/bulkhead/engine/kernel"

// unit is the attention of one band of rows of a sequence over one segment of one KV head. Rows count from the part's first.
type unit struct {
	part, head, segment int
	band                int
	storeFrom, storeTo  int // rows whose K and V it stores
	from, to            int // rows that attend
	acc                 int // place of its first row in acc, max and den, counted in query rows
}

// cut decides on bands: enough for some units a thread, and not so many that loading a segment is much of a unit.
func (a *attention) cut(f *forward) {
	const unitsEach, leastRows = 3, 64
	units := 0
	for i := range f.pass.parts {
		units += f.m.spec.KVHeads * f.pass.parts[i].segments()
	}
	threads := f.pool.Threads()
	for i := range f.pass.parts {
		t := &f.pass.parts[i]
		t.bands = 1
		if threads > 1 && f.m.spec.Layers > 1 {
			t.bands = max(1, min(len(t.tokens)/leastRows, (unitsEach*threads+units-1)/units, 32))
		}
	}
}

// plan makes the units of the layers before the last, or those of the last, where only rows whose logits are wanted attend.
func (a *attention) plan(f *forward, last bool) {
	a.units, a.mostSegments, a.banded = a.units[:0], 1, false
	acc := 0
	for i := range f.pass.parts {
		t := &f.pass.parts[i]
		t.unit = len(a.units)
		a.mostSegments = max(a.mostSegments, t.segments())
		first := 0 // row that attends
		if last {
			first, t.bands = len(t.tokens)-1, 1
			if t.out < 0 {
				first++
			}
		}
		a.banded = a.banded || t.bands > 1
		for head := range f.m.spec.KVHeads {
			for segment := range t.segments() {
				at := segment*kernel.SegmentTokens - t.start // row at which the segment starts
				u := unit{part: i, head: head, segment: segment,
					storeFrom: max(0, at), storeTo: min(len(t.tokens), at+kernel.SegmentTokens)}
				for u.band = range t.bands {
					u.acc = acc
					u.from, u.to = t.band(u.band)
					u.from = max(first, at, u.from)
					a.units = append(a.units, u)
					acc += max(0, u.to-u.from) * a.rowsPerHead
					u.storeTo = 0 // the first band has stored
				}
			}
		}
	}
	a.acc = grown(a.acc, acc*f.m.spec.HeadSize)
	a.max, a.den = grown(a.max, acc), grown(a.den, acc)
}

// band is the rows of a band: the last ones are the first band.
func (t *part) band(i int) (from, to int) {
	n := t.bandRows()
	return max(0, len(t.tokens)-(i+1)*n), len(t.tokens) - i*n
}

func (t *part) bandRows() int { return (len(t.tokens) + t.bands - 1) / t.bands }
