package parallel_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

type job func(thread, from, to int)

func (j job) Do(thread, from, to int) { j(thread, from, to) }

func TestEveryIndexOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	for threads := 1; threads <= 5; threads++ {
		p := parallel.New(threads)
		rapid.Check(t, func(t *rapid.T) {
			n, grain := rapid.IntRange(0, 300).Draw(t, "n"), rapid.IntRange(0, 50).Draw(t, "grain")
			count := make([]atomic.Int32, n)
			busy := make([]atomic.Bool, threads)
			p.Run(job(func(thread, from, to int) {
				if busy[thread].Swap(true) {
					t.Errorf("two calls at once for thread %d", thread)
				}
				for i := from; i < to; i++ {
					count[i].Add(1)
				}
				busy[thread].Store(false)
			}), n, grain)
			for i := range count {
				if c := count[i].Load(); c != 1 {
					t.Fatalf("index %d was done %d times", i, c)
				}
			}
		})
		p.Close()
		p.Close()
	}
}

// What one loop wrote the next one reads, whichever thread does it, also after the threads went to sleep.
func TestLoopsFollowOneAnother(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := parallel.New(3)
	defer p.Close()
	a, b := make([]int, 64), make([]int, 64)
	for round := range 2000 {
		if round%500 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
		p.Run(job(func(_, from, to int) {
			for i := from; i < to; i++ {
				b[i] = a[(i+7)%64] + 1
			}
		}), 64, 5)
		a, b = b, a
	}
	for i, v := range a {
		if v != 2000 {
			t.Fatalf("place %d was counted %d times", i, v)
		}
	}
}

// A panic in any thread comes out of Run, and the pool goes on.
func TestPanicsPropagate(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := parallel.New(2)
	defer p.Close()
	for _, culprit := range []int{0, 1} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "a broken part") {
					t.Errorf("thread %d: recovered %v", culprit, v)
				}
			}()
			var arrived atomic.Int32
			p.Run(job(func(thread, _, _ int) {
				arrived.Add(1)
				for arrived.Load() < 2 { // both threads are in
					runtime.Gosched()
				}
				if thread == culprit {
					panic("a broken part")
				}
			}), 2, 1)
		}()
	}
	var n atomic.Int32
	p.Run(job(func(_, from, to int) { n.Add(int32(to - from)) }), 100, 1)
	if n.Load() != 100 {
		t.Errorf("after panics a loop did %d of 100", n.Load())
	}
}

func TestNoAllocation(t *testing.T) {
	p := parallel.New(2)
	defer p.Close()
	var j parallel.Job = job(func(_, _, _ int) {})
	if n := testing.AllocsPerRun(1000, func() { p.Run(j, 16, 2) }); n >= 0.1 {
		t.Errorf("%v allocations a loop", n)
	}
}

// More threads than cores, all of them wanted by others: loops get slower, not stuck.
func TestBusyCores(t *testing.T) {
	var stop atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	defer stop.Store(true)
	p := parallel.New(4)
	defer p.Close()
	start := time.Now()
	var n atomic.Int64
	for range 50 {
		p.Run(job(func(_, from, to int) { n.Add(int64(to - from)) }), 64, 4)
	}
	if n.Load() != 50*64 {
		t.Errorf("%d of %d", n.Load(), 50*64)
	}
	t.Logf("50 loops took %v", time.Since(start))
}

func BenchmarkLoop(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := parallel.New(threads)
			defer p.Close()
			var j parallel.Job = job(func(_, _, _ int) {})
			for b.Loop() {
				p.Run(j, 16, 4)
			}
		})
	}
}
