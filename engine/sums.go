package engine

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// sums is what attention read of one sequence in a pass: for every reading of a layer, the sums of every page over all
// heads. There is one reading of each layer that is attended over, and in all layers but the last one more for each further
// band of rows, because each band reads the pages for itself. Readings are kept apart: what one of them got wrong must not
// hide behind another.
type sums struct {
	pages, layers int // layers of the first band
	inner         int // layers of the other bands: those before the last
	k, v          []bulkhead.Sum
}

// readings is how many there are.
func readings(layers, inner, bands int) int { return layers + (bands-1)*inner }

// at is where the sums of a layer in a band are.
func (s *sums) at(layer, band int) (k, v []bulkhead.Sum) {
	i := layer
	if band > 0 {
		i = s.layers + (band-1)*s.inner + layer
	}
	return s.k[i*s.pages:][:s.pages:s.pages], s.v[i*s.pages:][:s.pages:s.pages]
}

// borrow completes a band that does not reach the last pages, for the comparison of whole layers: they are the first
// band's alone.
func (s *sums) borrow(layer, band, from int) {
	k, v := s.at(layer, band)
	k0, v0 := s.at(layer, 0)
	copy(k[from:], k0[from:])
	copy(v[from:], v0[from:])
}

// compare holds every reading against the seals.
func (s *sums) compare(app *kv.Append) *bulkhead.Violation {
	for i := 0; i*s.pages < len(s.k); i++ {
		layer := i
		if i >= s.layers {
			layer = (i - s.layers) % s.inner
		}
		at, end := i*s.pages, (i+1)*s.pages
		if v := app.CompareLayer(layer, s.k[at:end], s.v[at:end]); v != nil {
			return v
		}
	}
	return nil
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
