//go:build unix

package engine_test

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/engine"
)

// benchModel is a real model, by BULKHEAD_MODEL. Benchmarks are skipped without one.
func benchModel(b *testing.B, o engine.Options) *engine.Engine {
	b.Helper()
	path := os.Getenv("BULKHEAD_MODEL")
	if path == "" {
		b.Skip("set BULKHEAD_MODEL to a GGUF file")
	}
	o.Threads, _ = strconv.Atoi(os.Getenv("BULKHEAD_THREADS"))
	e, err := engine.Open(path, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	return e
}

// processTime is what the process has computed so far, all threads together: what a busy machine leaves to go by.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDecode decodes for a number of sequences at once, each at a depth. One operation is one step.
func BenchmarkDecode(b *testing.B) {
	e := benchModel(b, engine.Options{})
	for _, c := range []struct{ batch, depth int }{{1, 128}, {1, 2048}, {1, 8000}, {4, 128}, {16, 128}} {
		b.Run(fmt.Sprintf("batch=%d/depth=%d", c.batch, c.depth), func(b *testing.B) {
			const most = 64 // tokens that are decoded before beginning again
			s := serve(b, e, 32, c.batch*(c.depth+most+32))
			work := make([]engine.Work, c.batch)
			begin := func() {
				for i := range work {
					if work[i].Seq != nil {
						work[i].Seq.Release()
					}
					tokens := randomTokens(uint64(i), c.depth, e.Info().Vocab)
					seq := s.begin(tokens, most)
					if seq.Len() < s.pool.Size() && int(seq.Len()) < c.depth {
						s.step(engine.Work{Seq: seq, Tokens: tokens[seq.Len():]})
					}
					work[i] = engine.Work{Seq: seq, Tokens: tokens[:1], Logits: true}
				}
			}
			begin()
			results := make([]engine.Result, c.batch)
			left := most
			var used time.Duration
			for b.Loop() {
				if left == 0 {
					b.StopTimer()
					begin()
					left = most
					b.StartTimer()
				}
				left--
				start := processTime(b)
				e.Step(work, results)
				used += processTime(b) - start
			}
			b.ReportMetric(used.Seconds()*1000/float64(b.N*c.batch), "cpu-ms/token")
			b.ReportMetric(float64(b.N*c.batch)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkPrefill computes a chunk of a prompt at a depth. One operation is one chunk.
func BenchmarkPrefill(b *testing.B) {
	e := benchModel(b, engine.Options{})
	for _, c := range []struct{ chunk, depth int }{{128, 0}, {512, 0}, {512, 1536}, {512, 7168}} {
		b.Run(fmt.Sprintf("chunk=%d/depth=%d", c.chunk, c.depth), func(b *testing.B) {
			s := serve(b, e, 32, 2*(c.depth+c.chunk)+64)
			tokens := randomTokens(1, c.depth+c.chunk, e.Info().Vocab)
			chunk := tokens[c.depth:]
			first := s.begin(tokens[:c.depth], 32)
			if c.depth > 0 {
				s.step(engine.Work{Seq: first, Tokens: tokens[:c.depth]})
			}
			first.Release()
			n := 0
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				seq := s.begin(tokens[:c.depth], c.chunk)
				chunk[0] = chunk[0]%1000 + 1 // not found in the cache
				b.StartTimer()
				start := processTime(b)
				s.step(engine.Work{Seq: seq, Tokens: chunk})
				used += processTime(b) - start
				b.StopTimer()
				seq.Release()
				n += c.chunk
				b.StartTimer()
			}
			b.ReportMetric(used.Seconds()*1000/float64(n), "cpu-ms/token")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
