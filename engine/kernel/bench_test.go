package kernel

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
)

// The benchmarks report the lower quartile of the CPU time of many short runs, since the mean of the wall clock on a
// shared machine measures its neighbours.

// quartile runs the functions in turn until the benchmark has done enough, and gives the lower quartile of each.
func quartile(b *testing.B, fs ...func()) []time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times := make([][]time.Duration, len(fs))
	for b.Loop() {
		for i, f := range fs {
			start := threadTime()
			f()
			times[i] = append(times[i], threadTime()-start)
		}
	}
	out := make([]time.Duration, len(fs))
	for i, t := range times {
		slices.Sort(t)
		out[i] = t[len(t)/4]
	}
	b.ReportMetric(0, "ns/op")
	return out
}

func benchSets() []*Set {
	var sets []*Set
	for _, s := range All() {
		if s != goSet {
			sets = append(sets, s)
		}
	}
	return sets
}

func offHeap(b *testing.B, n int) []byte {
	data, release, err := mem.Alloc(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	return data
}

var benchShapes = [][2]int{{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}}

// BenchmarkMatMul is a weight in cache (all but the largest) by batches of rows.
func BenchmarkMatMul(b *testing.B) {
	for _, s := range benchSets() {
		for _, ty := range Types() {
			for _, shape := range benchShapes {
				for _, n := range []int{1, 4, 64, 256} {
					if shape[0] > 10000 && n > 4 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/%dx%d/rows%d", s.Name, ty.Name, shape[0], shape[1], n), func(b *testing.B) {
						benchMatMul(b, s, ty, shape[0], shape[1], n)
					})
				}
			}
		}
	}
}

func benchMatMul(b *testing.B, s *Set, ty *Type, rows, cols, n int) {
	w := &Weight{Type: ty, Rows: rows, Cols: cols, Data: offHeap(b, ty.PackedBytes(rows, cols))}
	ty.Pack(w.Data, fileMatrix(newRand(1), ty, rows, cols), rows, cols)
	x, dst := NewActivations(n, cols), make([]float32, n*rows)
	normal(newRand(2), x.F32)
	if ty.Quantized {
		s.Quantize(x, 0, n)
	}
	t := quartile(b, func() { s.MatMul(dst, rows, w, x, 0, w.Panels()) })[0].Seconds()
	b.ReportMetric(float64(rows)*float64(cols)*float64(n)/t/1e9, "GMAC/s")
	b.ReportMetric(float64(len(w.Data))/t/1e9, "GB/s")
}

// BenchmarkFromMemory multiplies one and four rows by 240 MB of weights, against reading them and no more.
func BenchmarkFromMemory(b *testing.B) {
	const rows, cols, copies = 49152, 576, 8
	for _, s := range benchSets() {
		for _, ty := range []*Type{types[q8_0Type], types[q4_0Type], types[f16Type]} {
			b.Run(s.Name+"/"+ty.Name, func(b *testing.B) {
				var ws []*Weight
				for range copies {
					w := &Weight{Type: ty, Rows: rows, Cols: cols, Data: offHeap(b, ty.PackedBytes(rows, cols))}
					ty.Pack(w.Data, fileMatrix(newRand(1), ty, 256, cols), 256, cols)
					for done := ty.PackedBytes(256, cols); done < len(w.Data); done *= 2 {
						copy(w.Data[done:], w.Data[:done])
					}
					ws = append(ws, w)
				}
				one, four, dst := NewActivations(1, cols), NewActivations(4, cols), make([]float32, 4*rows)
				s.Quantize(one, 0, 1)
				s.Quantize(four, 0, 4)
				i := 0
				next := func() *Weight { i++; return ws[i%copies] }
				t := quartile(b,
					func() { s.sumBlocks(next().Data, 64) },
					func() { w := next(); s.MatMul(dst, rows, w, one, 0, w.Panels()) },
					func() { w := next(); s.MatMul(dst, rows, w, four, 0, w.Panels()) },
				)
				for i, name := range []string{"read-GB/s", "one-GB/s", "four-GB/s"} {
					b.ReportMetric(float64(len(ws[0].Data))/t[i].Seconds()/1e9, name)
				}
			})
		}
	}
}

// BenchmarkAttend attends over the heads of SmolLM2-135M: one step of decode, with sums and without, in turn.
func BenchmarkAttend(b *testing.B) {
	for _, s := range benchSets() {
		for _, n := range []int{128, 2048, 8192} {
			for _, copies := range []int{1, 40} { // 40: more than a cache holds
				b.Run(fmt.Sprintf("%s/%d-tokens/copies%d", s.Name, n, copies), func(b *testing.B) { benchAttend(b, s, n, copies, 1) })
			}
		}
	}
}

// BenchmarkPrefill attends with a chunk of 128 tokens at the end of a sequence.
func BenchmarkPrefill(b *testing.B) {
	for _, s := range benchSets() {
		for _, n := range []int{128, 2048} {
			b.Run(fmt.Sprintf("%s/%d-tokens", s.Name, n), func(b *testing.B) { benchAttend(b, s, n, 1, 128) })
		}
	}
}

func benchAttend(b *testing.B, s *Set, n, copies, chunk int) {
	l := bulkhead.Layout{Layers: 1, KVHeads: 3, HeadSize: 64, PageTokens: 64}
	pages := make([][][]byte, copies)
	arena := offHeap(b, copies*l.Pages(bulkhead.Tokens(n))*l.PageBytes())
	for c := range pages {
		for range l.Pages(bulkhead.Tokens(n)) {
			pages[c] = append(pages[c], arena[:l.PageBytes():l.PageBytes()])
			arena = arena[l.PageBytes():]
		}
		for i, page := range pages[c] {
			if i > 0 || c > 0 {
				copy(page, pages[0][0])
				continue
			}
			for slot := range l.PageTokens * 3 {
				k, v := normal(newRand(uint64(slot)), make([]float32, 64)), normal(newRand(uint64(slot+999)), make([]float32, 64))
				s.StoreK(&l, page, 0, slot%3, slot/3, k)
				s.StoreV(&l, page, 0, slot%3, slot/3, v)
			}
		}
	}
	rows := 3 * chunk
	sp := Span{Layout: &l, Len: n, Rows: rows, Q: normal(newRand(7), make([]float32, rows*64)), QStride: 64, Scale: 0.125,
		Max: make([]float32, rows), Den: make([]float32, rows), Acc: make([]float32, rows*64), Pos: make([]int32, rows),
		SumK: make([]bulkhead.Sum, 8), SumV: make([]bulkhead.Sum, 8)}
	for r := range sp.Pos {
		sp.Pos[r] = int32(n - chunk + r/3)
	}
	scratch, i := NewScratch(&l), 0
	all := func(attend func(sp *Span, scratch *Scratch)) func() {
		return func() {
			i++
			sp.Pages = pages[i%copies]
			for sp.Head = range l.KVHeads {
				for sp.Segment = range (n + SegmentTokens - 1) / SegmentTokens {
					attend(&sp, scratch)
				}
			}
		}
	}
	read := func() { // the same bytes and no more, page after page
		i++
		for _, page := range pages[i%copies] {
			s.sumBlocks(page[l.SealBytes():], 64)
		}
	}
	t := quartile(b, all(s.AttendUnguarded), all(s.Attend), read)
	b.ReportMetric(float64(n*3*64*2*2)/t[2].Seconds()/1e9, "read-GB/s")
	bytes := float64(n * 3 * 64 * 2 * 2)
	b.ReportMetric(bytes/t[1].Seconds()/1e9, "GB/s")
	b.ReportMetric(bytes*1.5*float64(chunk)/t[1].Seconds()/1e9, "GMAC/s")
	b.ReportMetric(100*(t[1].Seconds()/t[0].Seconds()-1), "guards-%")
}

// BenchmarkElementwise is what a layer does beside products and attention.
func BenchmarkElementwise(b *testing.B) {
	for _, s := range All() {
		b.Run(s.Name, func(b *testing.B) {
			x, y, z := normal(newRand(1), make([]float32, 1536)), normal(newRand(2), make([]float32, 1536)), make([]float32, 1536)
			a := NewActivations(1, 1536)
			copy(a.F32, x)
			l := bulkhead.Layout{Layers: 1, KVHeads: 3, HeadSize: 64, PageTokens: 64}
			page := make([]byte, l.PageBytes())
			ten := func(f func()) func() {
				return func() {
					for range 10 {
						f()
					}
				}
			}
			t := quartile(b, ten(func() { s.RMSNorm(z[:576], x[:576], y[:576], 1e-5) }), ten(func() { s.SiLUMul(z, x, y) }),
				ten(func() { s.Rope(z[:576], 64, 64, x, y) }), ten(func() { s.Quantize(a, 0, 1) }), ten(func() { s.Add(z[:576], x[:576]) }),
				ten(func() { s.StoreK(&l, page, 0, 1, 17, x[:64]) }), ten(func() { s.StoreV(&l, page, 0, 1, 17, x[:64]) }))
			for i, name := range []string{"norm576", "silu1536", "rope576", "quantize1536", "add576", "storeK", "storeV"} {
				b.ReportMetric(float64(t[i].Nanoseconds())/10, name+"-ns")
			}
		})
	}
}
