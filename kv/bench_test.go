package kv

import (
	"fmt"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// smollm is SmolLM2-135M with pages of 32 tokens.
var smollm = bulkhead.Layout{Layers: 30, KVHeads: 3, HeadSize: 64, PageTokens: 32}

// The guards' books of one decode step: Check, Append, the extending and comparing of every layer, Done. The bytes stay
// zero, whose sums are zero, so that nothing of attention is in the figure. Cold reads something else between steps, as
// attention does.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{128, 2048, 8192} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("tokens=%d/cold=%v", n, cold), func(b *testing.B) { benchmarkStep(b, n, cold) })
		}
	}
}

func benchmarkStep(b *testing.B, n int, cold bool) {
	r := newRig(b, smollm, n/32, Options{})
	s := r.Begin(domain("a", smollm), nil)
	r.Grow(s, bulkhead.Tokens(n))
	zeroStep(s, someTokens(n-32, 1))
	token := []bulkhead.Token{7}
	var other []byte
	if cold {
		other = make([]byte, 64<<20) // more than the caches hold
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.Len() == bulkhead.Tokens(n) || cold {
			b.StopTimer()
			if s.Len() == bulkhead.Tokens(n) {
				rewind(s, n-32)
			}
			clear(other)
			b.StartTimer()
		}
		if s.Check() != nil || zeroStep(s, token) != nil {
			b.Fatal("violation")
		}
	}
}

var noSums [256]bulkhead.Sum

// zeroStep appends tokens whose K and V are zero.
func zeroStep(s *Sequence, tokens []bulkhead.Token) *bulkhead.Violation {
	a := s.Append(tokens)
	for layer := range s.pool.layout.Layers {
		for i := range tokens {
			a.ExtendK(layer, i, 0)
			a.ExtendV(layer, i, 0)
		}
		if v := a.CompareLayer(layer, noSums[:a.Pages()], noSums[:a.Pages()]); v != nil {
			return v
		}
	}
	a.Done()
	return nil
}

// rewind takes the last page's tokens back.
func rewind(s *Sequence, n int) {
	last := s.pages[n/32]
	s.pool.retire(last)
	clear(s.views[n/32])
	clear(s.sums[n/32])
	s.len, s.expect = n, s.expect[:n/32]
}

func BenchmarkCheck(b *testing.B) {
	r := newRig(b, smollm, 256, Options{})
	s := r.Begin(domain("a", smollm), nil)
	r.Grow(s, 8192)
	zeroStep(s, someTokens(8192, 1))
	for b.Loop() {
		if s.Check() != nil {
			b.Fatal("violation")
		}
	}
}

// Identity of a page of 32 tokens.
func BenchmarkIdentity(b *testing.B) {
	ids := domain("a", smollm)
	tokens := someTokens(32, 1)
	var id bulkhead.Identity
	b.ReportAllocs()
	for b.Loop() {
		id = ids.Next(id, tokens)
	}
}

// Clearing one page, in cache as after its last use and from memory.
func BenchmarkClear(b *testing.B) {
	for _, pages := range []int{1, 1024} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			r := newRig(b, smollm, pages, Options{})
			b.SetBytes(int64(smollm.PageBytes()))
			for i := range pages {
				r.view(bulkhead.PageIndex(i))[0] = 1
				r.clear(bulkhead.PageIndex(i))
			}
			i := 0
			for b.Loop() {
				r.clear(bulkhead.PageIndex(i))
				i = (i + 1) % pages
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	r := newRig(b, smollm, 256, Options{})
	s := r.Begin(domain("a", smollm), nil)
	r.Grow(s, 8192)
	zeroStep(s, someTokens(8191, 1))
	a := s.Append([]bulkhead.Token{7})
	for layer := range 30 {
		a.ExtendK(layer, 0, 0)
		a.ExtendV(layer, 0, 0)
	}
	b.Run("layers", func(b *testing.B) {
		for b.Loop() {
			for layer := range 30 {
				if a.CompareLayer(layer, noSums[:], noSums[:]) != nil {
					b.Fatal("violation")
				}
			}
		}
	})
	b.Run("pages", func(b *testing.B) {
		for b.Loop() {
			for layer := range 30 {
				for at := range 256 {
					if a.Compare(layer, at, 0, 0) != nil {
						b.Fatal("violation")
					}
				}
			}
		}
	})
}
