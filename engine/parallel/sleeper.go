package parallel

import "sync/atomic"

// sleeper is a thread that waits for something: it looks a bounded number of times, then sleeps until it is roused.
//
// Whoever makes the condition true rouses the sleeper after it. Either the sleeper then sees the condition when it looks
// for the last time, or the rouser sees that it sleeps: both do a sequentially consistent write before their read.
type sleeper struct {
	asleep atomic.Bool
	wake   chan struct{} // of capacity 1
	_      [48]byte
}

func (s *sleeper) wait(looks int, ready func() bool) {
	var idle atomic.Uint64
	for range looks {
		if ready() {
			return
		}
		pause(&idle)
	}
	for !ready() {
		s.asleep.Store(true)
		if ready() && s.asleep.CompareAndSwap(true, false) {
			return // nobody has seen it asleep, so nobody sends
		}
		<-s.wake
	}
}

func (s *sleeper) rouse() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.wake <- struct{}{}
	}
}
