package tcp

import (
	"runtime"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// smol is the layout of SmolLM2-135M: pages of 737 KB.
var smol = bulkhead.Layout{Layers: 30, KVHeads: 3, HeadSize: 64, PageTokens: 32}

// benchPages is the size of each side's pool: 94 MB, more than a cache holds.
const benchPages = 128

// summed is a landing whose page is summed in full when it lands, by the kernels that a worker has.
type summed struct {
	b    []byte
	sums []bulkhead.Sum
	k    *kernel.Set

	layers int // that were summed
}

func (s *summed) Bytes() []byte { return s.b }

func (s *summed) Examine(written int) {
	for ; s.layers < smol.Layers && smol.SealBytes()+(s.layers+1)*smol.LayerBytes() <= written; s.layers++ {
		s.sums[2*s.layers] = s.k.SumK(&smol, s.b, s.layers, smol.PageTokens)
		s.sums[2*s.layers+1] = s.k.SumV(&smol, s.b, s.layers, smol.PageTokens)
	}
	if written == len(s.b) {
		s.layers = 0 // for the next page
	}
}

func BenchmarkTCP(b *testing.B)    { benchmark(b, 0) }
func BenchmarkShared(b *testing.B) { benchmark(b, 1) }
func BenchmarkTLS(b *testing.B)    { benchmark(b, 2) }

// benchmark pulls pages out of one pool into another, 32 ahead, summing each as it lands.
func benchmark(b *testing.B, way int) {
	r := newRig(b, func(out, in *Config) {
		for _, c := range []*Config{out, in} {
			c.Limits, c.Layout = DefaultLimits(), smol
			transports[way].set(b, c)
		}
	})
	src, free1, err := mem.Alloc(benchPages * smol.PageBytes())
	if err != nil {
		b.Fatal(err)
	}
	dst, free2, err := mem.Alloc(benchPages * smol.PageBytes())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.in.Shutdown(); r.out.Shutdown(); free1(); free2() })
	views, lands := cut(src), make([]*summed, benchPages)
	for i, p := range cut(dst) {
		lands[i] = &summed{b: p, sums: make([]bulkhead.Sum, 2*smol.Layers), k: kernel.Best()}
		clear(p)
		for j := range views[i] {
			views[i][j] = byte(i*7 + j)
		}
	}
	b.SetBytes(int64(smol.PageBytes()))
	room := bulkhead.Room(1)
	runtime.GC()
	b.ResetTimer()
	for done := 0; done < b.N; room++ {
		n := min(benchPages, b.N-done)
		r.open(room, views[:n])
		r.ahead(b, room, lands[:n])
		r.commit(room)
		r.awaitEnded(room, handoff.Commit)
		r.out.Close(room)
		r.messages, r.ends = nil, nil
		done += n
	}
}

// ahead pulls all pages, with as many on their way as a worker would have.
func (r *rig) ahead(b *testing.B, room bulkhead.Room, lands []*summed) {
	next := 0
	for got := 0; got < len(lands); {
		for ; next < len(lands) && next-got < 32; next++ {
			r.in.Pull(room, next, lands[next])
		}
		<-r.toIn
		_, a := r.in.Receive()
		for _, x := range a {
			if x.Err != nil {
				b.Fatal(x.Err)
			}
		}
		got += len(a)
	}
}

func cut(arena []byte) (pages [][]byte) {
	for size := smol.PageBytes(); len(arena) > 0; arena = arena[size:] {
		pages = append(pages, arena[:size:size])
	}
	return pages
}

// BenchmarkCopy is what the others are measured by: one thread that copies, cold pages to cold pages.
func BenchmarkCopy(b *testing.B) {
	src, free1, _ := mem.Alloc(benchPages * smol.PageBytes())
	dst, free2, _ := mem.Alloc(benchPages * smol.PageBytes())
	defer free1()
	defer free2()
	for i := range src {
		src[i], dst[i] = byte(i), 1
	}
	from, to := cut(src), cut(dst)
	b.SetBytes(int64(smol.PageBytes()))
	for i := 0; b.Loop(); i++ {
		copy(to[i%benchPages], from[i%benchPages])
	}
}
