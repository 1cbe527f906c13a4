package engine

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// sums is what attention read of one sequence in a pass: for every reading of a layer, and every head, the sums of every
// page. There is one reading of each layer that is attended over, and in all layers but the last one more for each further
// band of rows, because each band reads the pages for itself. Readings are kept apart: what one of them got wrong must not
// hide behind another.
type sums struct {
	pages, layers int // layers of the first band
	inner         int // layers of the other bands: those before the last
	heads         int
	k, v          []bulkhead.Sum // by reading, head, page
}

// size is how many sums there are of K, and as many of V.
func (s *sums) size(bands int) int { return (s.layers + (bands-1)*s.inner) * s.heads * s.pages }

// at is where the sums of a head of a layer in a band are.
func (s *sums) at(layer, band, head int) (k, v []bulkhead.Sum) {
	i := layer
	if band > 0 {
		i = s.layers + (band-1)*s.inner + layer
	}
	from := (i*s.heads + head) * s.pages
	return s.k[from:][:s.pages:s.pages], s.v[from:][:s.pages:s.pages]
}

// borrow completes a band that does not reach the last pages, for the comparison of whole layers: they are the first
// band's alone.
func (s *sums) borrow(layer, band, from int) {
	for head := range s.heads {
		k, v := s.at(layer, band, head)
		k0, v0 := s.at(layer, 0, head)
		copy(k[from:], k0[from:])
		copy(v[from:], v0[from:])
	}
}

// compare adds up heads and holds every reading against the seals. It is done once: the sums of the first head become those
// of all.
func (s *sums) compare(app *kv.Append) *bulkhead.Violation {
	each := s.heads * s.pages
	for i := 0; i*each < len(s.k); i++ {
		layer := i
		if i >= s.layers {
			layer = (i - s.layers) % s.inner
		}
		k, v := overHeads(s.k[i*each:][:each], s.pages), overHeads(s.v[i*each:][:each], s.pages)
		if v := app.CompareLayer(layer, k, v); v != nil {
			return v
		}
	}
	return nil
}

// overHeads adds the sums of all heads to those of the first, which it returns.
func overHeads(sums []bulkhead.Sum, pages int) []bulkhead.Sum {
	all := sums[:pages]
	for rest := sums[pages:]; len(rest) > 0; rest = rest[pages:] {
		for i, sum := range rest[:len(all)] {
			all[i] += sum
		}
	}
	return all
}

// compareAll holds what was read of every part against its seals. Parts are sequences, which share nothing, and looking at
// the seals of many pages waits for memory, so threads share the parts.
func (f *forward) compareAll() { f.pool.Run(f.jobs.compare, len(f.pass.parts), 1) }

func (f *forward) compare(_, from, to int) {
	for i := from; i < to; i++ {
		t := &f.pass.parts[i]
		t.violation = t.sums.compare(t.app)
	}
}
