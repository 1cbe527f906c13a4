package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"pgregory.net/rapid"
)

// cache is the KV of one sequence in one layer, as pages and as the numbers that they hold.
type cache struct {
	layout bulkhead.Layout
	pages  [][]byte
	k, v   [][][]float32 // [head][position][dimension], as narrowed
}

const testLayer = 1

func newCache(s *Set, rng *rand.Rand, layout bulkhead.Layout, n int) *cache {
	c := &cache{layout: layout, k: make([][][]float32, layout.KVHeads), v: make([][][]float32, layout.KVHeads)}
	for range layout.Pages(bulkhead.Tokens(n)) {
		c.pages = append(c.pages, make([]byte, layout.PageBytes()))
	}
	for pos := range n {
		page, slot := c.pages[pos/layout.PageTokens], pos%layout.PageTokens
		for h := range layout.KVHeads {
			k, v := normal(rng, make([]float32, layout.HeadSize)), normal(rng, make([]float32, layout.HeadSize))
			s.StoreK(&layout, page, testLayer, h, slot, k)
			s.StoreV(&layout, page, testLayer, h, slot, v)
			for d := range k {
				k[d], v[d] = fromF16(toF16(k[d])), fromF16(toF16(v[d]))
			}
			c.k[h], c.v[h] = append(c.k[h], k), append(c.v[h], v)
		}
	}
	return c
}

// damage puts NaN and infinity into every slot from position n on of what the pages have room for.
func (c *cache) damage(rng *rand.Rand, n int) {
	l := c.layout
	for pos := n; pos < len(c.pages)*l.PageTokens; pos++ {
		page, slot := c.pages[pos/l.PageTokens], pos%l.PageTokens
		for h := range l.KVHeads {
			for d := range l.HeadSize {
				bad := []uint16{0x7c00, 0xfc00, 0x7e00, 0x7d01, 0xffff}
				k := l.KOffset(testLayer, h) + ((slot/16*l.HeadSize+d)*16+slot%16)*2
				binary.LittleEndian.PutUint16(page[k:], bad[rng.IntN(len(bad))])
				v := l.VOffset(testLayer, h) + (slot*l.HeadStride()+d)*2
				binary.LittleEndian.PutUint16(page[v:], bad[rng.IntN(len(bad))])
			}
		}
	}
}

// attention runs rows of queries at positions pos over all segments of n keys and merges; it checks the sums on the way.
func (c *cache) attention(t fataler, s *Set, head, n int, q [][]float32, pos []int32, guarded bool) [][]float32 {
	l := c.layout
	size, rows := l.HeadSize, len(q)
	sp := Span{Layout: &c.layout, Layer: testLayer, Head: head, Pages: c.pages, Len: n, Rows: rows, QStride: size + 3, Pos: pos, Scale: 0.3}
	sp.Q = make([]float32, rows*(size+3))
	for r := range q {
		copy(sp.Q[r*(size+3):], q[r])
	}
	segments := (n + SegmentTokens - 1) / SegmentTokens
	scratch := NewScratch(&c.layout)
	max, den, acc := make([][]float32, rows), make([][]float32, rows), make([][][]float32, rows)
	perSegment := SegmentTokens / l.PageTokens
	for sp.Segment = 0; sp.Segment < segments; sp.Segment++ {
		sp.Max, sp.Den, sp.Acc = make([]float32, rows), make([]float32, rows), make([]float32, rows*size)
		sp.SumK, sp.SumV = make([]bulkhead.Sum, perSegment), make([]bulkhead.Sum, perSegment)
		if guarded {
			s.Attend(&sp, scratch)
			c.checkSums(t, &sp)
		} else {
			s.AttendUnguarded(&sp, scratch)
		}
		for r := range rows {
			max[r], den[r] = append(max[r], sp.Max[r]), append(den[r], sp.Den[r])
			acc[r] = append(acc[r], sp.Acc[r*size:(r+1)*size])
		}
	}
	out := make([][]float32, rows)
	for r := range rows {
		out[r] = make([]float32, size)
		s.Merge(out[r], max[r], den[r], acc[r])
	}
	return out
}

// checkSums compares what a span read with the definition, for its head alone.
func (c *cache) checkSums(t fataler, sp *Span) {
	t.Helper()
	l := c.layout
	for i := 0; i*l.PageTokens < sp.keys(); i++ {
		filled := min(l.PageTokens, sp.keys()-i*l.PageTokens)
		var k bulkhead.Lines
		var v bulkhead.Columns
		page := c.pages[sp.Segment*SegmentTokens/l.PageTokens+i]
		for b := range (filled + 15) / 16 {
			k.AddBlock(page[l.KOffset(testLayer, sp.Head)+b*l.HeadSize*32:][:l.HeadSize*32])
		}
		pieces := l.HeadStride() / 16
		v.Add(page[l.VOffset(testLayer, sp.Head):][:filled*l.HeadStride()*2], pieces)
		wantK, wantV := k.Fold(sp.Head, 0), v.Fold(sp.Head, pieces, 0, filled)
		if sp.SumK[i] != wantK || sp.SumV[i] != wantV {
			t.Fatalf("segment %d page %d: sums %v %v, want %v %v", sp.Segment, i, sp.SumK[i], sp.SumV[i], wantK, wantV)
		}
	}
}

func drawLayout(t *rapid.T) bulkhead.Layout {
	return bulkhead.Layout{
		Layers:     2,
		KVHeads:    rapid.IntRange(1, 2).Draw(t, "heads"),
		HeadSize:   rapid.SampledFrom([]int{2, 16, 24, 64, 80}).Draw(t, "head size"),
		PageTokens: rapid.SampledFrom([]int{16, 32, 64, 256, 512}).Draw(t, "page"),
	}
}

func drawLen(t *rapid.T) int {
	return rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(500, 530), rapid.IntRange(1020, 1100)).Draw(t, "len")
}

func queries(rng *rand.Rand, rows, size, n int) (q [][]float32, pos []int32) {
	for range rows {
		q = append(q, normal(rng, make([]float32, size)))
		pos = append(pos, int32(rng.IntN(n)))
	}
	return q, pos
}

func TestAttention(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			l, n, rng := drawLayout(t), drawLen(t), drawRand(t)
			c := newCache(s, rng, l, n)
			q, pos := queries(rng, rapid.IntRange(1, 9).Draw(t, "rows"), l.HeadSize, n)
			if rapid.Bool().Draw(t, "decode") {
				for r := range pos {
					pos[r] = int32(n - 1)
				}
			}
			head := rapid.IntRange(0, l.KVHeads-1).Draw(t, "head")
			got := c.attention(t, s, head, n, q, pos, true)
			for r := range q {
				want := c.attentionByDefinition(head, q[r], int(pos[r]))
				for d := range want {
					if math.Abs(float64(got[r][d])-want[d]) > 2e-5 {
						t.Fatalf("row %d dimension %d: %v, want %v", r, d, got[r][d], want[d])
					}
				}
			}
		})
	})
}

func (c *cache) attentionByDefinition(head int, q []float32, pos int) []float64 {
	score, most := make([]float64, pos+1), math.Inf(-1)
	for i := range score {
		for d, v := range q {
			score[i] += float64(v) * float64(c.k[head][i][d]) * 0.3
		}
		most = math.Max(most, score[i])
	}
	out, total := make([]float64, len(q)), 0.0
	for i := range score {
		e := math.Exp(score[i] - most)
		total += e
		for d := range out {
			out[d] += e * float64(c.v[head][i][d])
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}

// A row's result is the same bits alone, with others, with more keys behind it, over pages of another size, whatever lies
// in slots that it does not attend over, and with the sums or without.
func TestAttentionBatchInvariance(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			l, n, seed := drawLayout(t), drawLen(t), rapid.Uint64().Draw(t, "seed")
			c := newCache(s, newRand(seed), l, n)
			q, pos := queries(newRand(seed+1), rapid.IntRange(1, 150).Draw(t, "rows"), l.HeadSize, n)
			all := c.attention(t, s, 0, n, q, pos, true)

			r := rapid.IntRange(0, len(q)-1).Draw(t, "row")
			other := l
			other.PageTokens = rapid.SampledFrom([]int{16, 32, 128, 512}).Draw(t, "other page")
			alone := newCache(s, newRand(seed), other, n)
			keys := int(pos[r]) + 1 // as decode sees it: nothing behind
			alone.damage(newRand(seed+2), keys)
			got := alone.attention(t, s, 0, keys, q[r:r+1], pos[r:r+1], true)
			if !sameBits(got[0], all[r]) {
				t.Fatalf("row %d at %d of %d keys alone: %v, with %d others: %v", r, pos[r], n, got[0], len(q)-1, all[r])
			}
			behind := rapid.IntRange(keys, n).Draw(t, "keys") // and with damaged keys behind
			got = alone.attention(t, s, 0, behind, q[r:r+1], pos[r:r+1], false)
			if !sameBits(got[0], all[r]) {
				t.Fatalf("row %d at %d before damaged keys: %v, want %v", r, pos[r], got[0], all[r])
			}
			few := []int32{pos[r], pos[r], pos[r]} // as a group of query heads
			got = alone.attention(t, s, 0, keys, [][]float32{q[0], q[r], q[0]}, few, rapid.Bool().Draw(t, "guarded"))
			if !sameBits(got[1], all[r]) {
				t.Fatalf("row %d at %d in a group: %v, want %v", r, pos[r], got[1], all[r])
			}
		})
	})
}

// For every number of filled slots, what attention reads of all heads adds up to the sum that a seal has, less FilledTerm,
// both straight over F16 and through scratch.
func TestAttentionSumsPage(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		for _, size := range []int{64, 24} {
			l := bulkhead.Layout{Layers: 2, KVHeads: 2, HeadSize: size, PageTokens: 64}
			scratch := NewScratch(&l)
			for filled := 1; filled <= l.PageTokens; filled++ {
				fill := newCache(s, newRand(2), l, filled)
				for _, pos := range []int32{int32(filled - 1), 0} {
					var k, v [1]bulkhead.Sum
					sp := Span{Layout: &l, Layer: testLayer, Pages: fill.pages, Len: filled, Rows: 1, Q: make([]float32, size), QStride: size,
						Pos: []int32{pos}, Scale: 1, Max: make([]float32, 1), Den: make([]float32, 1), Acc: make([]float32, size), SumK: k[:], SumV: v[:]}
					for sp.Head = range l.KVHeads {
						s.Attend(&sp, scratch)
					}
					term := bulkhead.FilledTerm(filled)
					if wantK, wantV := l.SumK(fill.pages[0], testLayer, filled), l.SumV(fill.pages[0], testLayer, filled); k[0]+term != wantK || v[0]+term != wantV {
						t.Fatalf("%d filled: sums %v %v, want %v %v", filled, k[0]+term, v[0]+term, wantK, wantV)
					}
				}
			}
		}
	})
}

// A row that lies before a segment attends over nothing of it.
func TestAttentionOfNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		l := bulkhead.Layout{Layers: 2, KVHeads: 1, HeadSize: 16, PageTokens: 64}
		c := newCache(s, newRand(1), l, 600)
		one := make([]float32, 1)
		sp := Span{Layout: &c.layout, Layer: 1, Pages: c.pages, Len: 600, Segment: 1, Rows: 1, Q: make([]float32, 16), QStride: 16,
			Pos: []int32{511}, Scale: 1, Max: one, Den: []float32{7}, Acc: []float32{15: 9},
			SumK: make([]bulkhead.Sum, 8), SumV: make([]bulkhead.Sum, 8)}
		s.Attend(&sp, NewScratch(&l))
		c.checkSums(t, &sp)
		if !math.IsInf(float64(sp.Max[0]), -1) || sp.Den[0] != 0 || sp.Acc[15] != 0 {
			t.Errorf("max %v, den %v, acc %v", sp.Max[0], sp.Den[0], sp.Acc)
		}
	})
}

func TestAttentionAllocatesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		l := bulkhead.Layout{Layers: 2, KVHeads: 1, HeadSize: 64, PageTokens: 64}
		c, scratch := newCache(s, newRand(1), l, 200), NewScratch(&l)
		for _, rows := range []int{1, 3, 12} {
			sp := Span{Layout: &c.layout, Layer: 1, Pages: c.pages, Len: 200, Rows: rows, Q: make([]float32, 64*rows), QStride: 64,
				Pos: make([]int32, rows), Scale: 1, Max: make([]float32, rows), Den: make([]float32, rows), Acc: make([]float32, 64*rows),
				SumK: make([]bulkhead.Sum, 8), SumV: make([]bulkhead.Sum, 8)}
			for r := range rows {
				sp.Pos[r] = 199
			}
			acc := [][]float32{sp.Acc[:64]}
			mustNotAllocate(t, s, fmt.Sprint(rows, " rows"), func() {
				s.Attend(&sp, scratch)
				s.AttendUnguarded(&sp, scratch)
				s.Merge(sp.Q[:64], sp.Max[:1], sp.Den[:1], acc)
			})
		}
	})
}
