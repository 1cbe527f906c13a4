// Package parallel splits loops over a few threads that stay warm from loop to loop.
//
// A forward pass is some two hundred short loops a token, so handing one out must cost about a microsecond. Threads wait
// for the next loop by looking at a counter, and for a bounded time only: after that they sleep. Waiting without a bound is
// ruinous where a core is wanted by somebody else; two such threads on two busy cores ran 800 times slower.
package parallel

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a number of threads. Run is for one goroutine at a time, which is one of the threads itself.
//
// Which thread does what is not fixed: they take the parts of a loop as they come. So a thread that loses its core to
// another process delays a loop by one part at most, and a loop waits for no thread that has not come to it at all. What a
// loop computes must therefore not depend on how it is cut; that is for the caller to see to.
type Pool struct {
	threads int
	spin    int // looks at a counter before sleeping; 0 where there are more threads than cores to run them

	job   Job // of the loop that is open
	n     int
	grain int
	_     [64]byte

	next atomic.Int64 // first index that nobody has taken
	_    [56]byte

	loop atomic.Uint64 // number of the loop, whether it is open, and how many helpers are in it
	_    [56]byte

	closed  atomic.Bool
	helpers []*sleeper
	caller  sleeper
	failed  atomic.Pointer[failure]
	done    sync.WaitGroup
}

// The parts of Pool.loop.
const (
	loopInside = 1<<16 - 1 // helpers that are in it
	loopOpen   = 1 << 16   // whether more may come
	loopNumber = 1 << 17
)

// Job is the body of a loop. Do handles the indices [from,to); thread is from 0 to Threads()-1 and no two calls with the
// same one run at once, so each can have working memory of its own.
type Job interface{ Do(thread, from, to int) }

// failure is a panic of a helper.
type failure struct {
	value any
	stack []byte
}

// spinFor is how long a thread looks before it sleeps. Longer than what the caller does between two loops of a pass.
const spinFor = 30 * time.Microsecond

// New starts threads-1 goroutines. Close ends them.
func New(threads int) *Pool {
	if threads < 1 {
		panic(fmt.Sprintf("parallel: %d threads", threads))
	}
	p := &Pool{threads: threads}
	if threads <= runtime.GOMAXPROCS(0) {
		p.spin = looksIn(spinFor)
	}
	p.caller.wake = make(chan struct{}, 1)
	for i := 1; i < threads; i++ {
		s := &sleeper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, s)
		p.done.Add(1)
		go p.help(i, s)
	}
	return p
}

// looksIn measures how many looks fit a time, once.
func looksIn(d time.Duration) int { return int(d / lookTime()) }

var lookTime = sync.OnceValue(func() time.Duration {
	var x atomic.Uint64
	const looks = 1000
	best := time.Hour
	for range 5 {
		start := time.Now()
		for range looks {
			pause(&x)
		}
		best = min(best, time.Since(start))
	}
	return max(best/looks, 1)
})

// pause is one look: a read, and a few cycles in which the core is left to its other hyper-thread.
func pause(x *atomic.Uint64) uint64 {
	v := x.Load()
	for i := range uint64(8) {
		v ^= v<<1 ^ i
	}
	return v
}

// Threads is the number of threads, the caller included.
func (p *Pool) Threads() int { return p.threads }

// Run does the loop from 0 to n, in parts of grain indices, and returns when all of it is done. A panic in a part is
// passed on, with the stack of the thread, after all threads have stopped.
func (p *Pool) Run(job Job, n, grain int) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	if p.threads == 1 || n <= grain {
		job.Do(0, 0, n)
		return
	}
	p.job, p.n, p.grain = job, n, grain
	p.next.Store(0)
	p.loop.Add(loopNumber | loopOpen)
	for _, h := range p.helpers {
		h.rouse()
	}
	func() {
		defer p.await() // also when a part of the caller's panics: helpers may be in the middle of theirs
		p.parts(0)
	}()
	if f := p.failed.Swap(nil); f != nil {
		panic(fmt.Sprintf("%v\n\nin a thread of a loop:\n%s", f.value, f.stack))
	}
}

// parts takes parts until there are none.
func (p *Pool) parts(thread int) {
	for {
		from := int(p.next.Add(int64(p.grain))) - p.grain
		if from >= p.n {
			return
		}
		p.job.Do(thread, from, min(p.n, from+p.grain))
	}
}

// await closes the loop and waits until no helper is in it.
func (p *Pool) await() {
	p.next.Store(int64(p.n)) // no more parts, where a panic left some
	if p.loop.Add(^uint64(loopOpen-1))&loopInside != 0 {
		p.caller.wait(p.spin, func() bool { return p.loop.Load()&loopInside == 0 })
	}
	p.job = nil
}

// help is a helper's life.
func (p *Pool) help(thread int, s *sleeper) {
	defer p.done.Done()
	var last uint64 // number of the loop that it was in
	news := func() bool {
		l := p.loop.Load()
		return l&loopOpen != 0 && l/loopNumber != last || p.closed.Load()
	}
	for {
		s.wait(p.spin, news)
		if p.closed.Load() {
			return
		}
		l := p.loop.Load()
		if l&loopOpen == 0 || l/loopNumber == last || !p.loop.CompareAndSwap(l, l+1) {
			continue
		}
		last = l / loopNumber
		p.take(thread)
		if l := p.loop.Add(^uint64(0)); l&(loopOpen|loopInside) == 0 {
			p.caller.rouse()
		}
	}
}

// take does a helper's share of a loop and keeps a panic for the caller.
func (p *Pool) take(thread int) {
	defer func() {
		if v := recover(); v != nil {
			stack := make([]byte, 16<<10)
			p.failed.Store(&failure{v, stack[:runtime.Stack(stack, false)]})
		}
	}()
	p.parts(thread)
}

// Close ends the goroutines and waits until they are gone. No Run may be going on or follow.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	for _, h := range p.helpers {
		h.rouse()
	}
	p.done.Wait()
}
