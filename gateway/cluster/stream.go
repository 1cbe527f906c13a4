package cluster

import (
	"context"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
)

// stream is the answer to one request as it comes: tokens in order, then exactly one End.
//
// Its buffer holds a whole answer, so that a client that reads slowly stops no worker's batch. What it can take is bounded by
// the request's MaxTokens, of which an attempt lets no more through, and so by the window.
type stream struct {
	wake chan struct{} // capacity 1: something was added
	left chan struct{} // closed by Leave
	once sync.Once

	mu     sync.Mutex
	events []bulkhead.Event
	read   int
	ended  bool
}

func newStream() *stream {
	return &stream{wake: make(chan struct{}, 1), left: make(chan struct{})}
}

// Next waits for the next event; false when ctx is done, or after the End.
func (s *stream) Next(ctx context.Context) (bulkhead.Event, bool) {
	for {
		e, ok, more := s.take()
		if ok || !more {
			return e, ok
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return bulkhead.Event{}, false
		}
	}
}

// Leave says that nobody wants more (rule I6).
func (s *stream) Leave() { s.once.Do(func() { close(s.left) }) }

func (s *stream) take() (e bulkhead.Event, ok, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read < len(s.events) {
		e = s.events[s.read]
		s.events[s.read] = bulkhead.Event{}
		s.read++
		return e, true, true
	}
	return bulkhead.Event{}, false, !s.ended
}

// add appends events; nothing is added after the End.
func (s *stream) add(events ...bulkhead.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if s.ended {
			return
		}
		s.events = append(s.events, e)
		s.ended = e.End != nil
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
