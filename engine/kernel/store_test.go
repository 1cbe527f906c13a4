package kernel

import (
	"bytes"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"pgregory.net/rapid"
)

// What a store returns adds up to the sum of the page by definition, and every set stores the same bytes.
func TestStore(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			l, rng := drawLayout(t), drawRand(t)
			l.PageTokens = min(l.PageTokens, 64)
			page, want := make([]byte, l.PageBytes()), make([]byte, l.PageBytes())
			filled := rapid.IntRange(0, l.PageTokens).Draw(t, "filled")
			k, v := bulkhead.FilledTerm(filled), bulkhead.FilledTerm(filled)
			for slot := range filled {
				for h := range l.KVHeads {
					x := normal(rng, make([]float32, l.HeadSize))
					for i := range x {
						x[i] *= []float32{1, 1e-6, 1e4, 1e6}[rng.IntN(4)]
					}
					k += s.StoreK(&l, page, 1, h, slot, x)
					v += s.StoreV(&l, page, 1, h, slot, x)
					storeByDefinition(&l, want, h, slot, x)
				}
			}
			if !bytes.Equal(page, want) {
				t.Fatal("other bytes than by definition")
			}
			if got := l.SumK(page, 1, filled); k != got || s.SumK(&l, page, 1, filled) != got {
				t.Fatalf("K: stores add up to %v, kernel says %v, definition %v", k, s.SumK(&l, page, 1, filled), got)
			}
			if got := l.SumV(page, 1, filled); v != got || s.SumV(&l, page, 1, filled) != got {
				t.Fatalf("V: stores add up to %v, kernel says %v, definition %v", v, s.SumV(&l, page, 1, filled), got)
			}
		})
	})
}

func storeByDefinition(l *bulkhead.Layout, page []byte, head, slot int, x []float32) {
	for d := range x {
		h := toF16(x[d])
		k := l.KOffset(1, head) + ((slot/16*l.HeadSize+d)*16+slot%16)*2
		page[k], page[k+1] = byte(h), byte(h>>8)
		v := l.VOffset(1, head) + (slot*l.HeadStride()+d)*2
		page[v], page[v+1] = byte(h), byte(h>>8)
	}
}

func TestStoreAllocatesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		l := bulkhead.Layout{Layers: 2, KVHeads: 2, HeadSize: 64, PageTokens: 64}
		page, x := make([]byte, l.PageBytes()), make([]float32, 64)
		mustNotAllocate(t, s, "store", func() {
			s.StoreK(&l, page, 1, 1, 7, x)
			s.StoreV(&l, page, 1, 1, 7, x)
			s.SumK(&l, page, 1, 20)
			s.SumV(&l, page, 1, 20)
		})
	})
}
