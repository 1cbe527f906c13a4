package worker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-llm/bulkhead"
)

// Stream is the answer to one request as it comes: tokens in order, then exactly one End. A prefill worker's has no tokens.
//
// Its buffer holds a whole answer (MaxTokens events and the End), because tokens are small and the alternative is a slow
// reader that stops a batch. The memory that it can take is bounded by the window, which is bounded by the pools.
//
// Whoever calls finish first decides how the request ends, and from then on nothing else is taken: that is the one place
// where "exactly one terminal" is made. The loops look at ended each turn and let go of the request's pages as its state
// allows.
type Stream struct {
	id    bulkhead.RequestID
	leave func()        // tells the loops
	wake  chan struct{} // capacity 1: something was added

	mu     sync.Mutex
	events []bulkhead.Event
	read   int
	sent   bulkhead.Tokens
	end    *bulkhead.End // nil: not ended

	cached *cached
}

// cached is how many tokens of a prompt prefill has found in its cache, for the End. The two streams of a pair share one, so
// that the client's, which is decode's, has it as well.
type cached struct{ n atomic.Int64 }

func newStream(id bulkhead.RequestID, c *cached, leave func()) *Stream {
	return &Stream{id: id, leave: leave, cached: c, wake: make(chan struct{}, 1)}
}

// ID is the request's id.
func (s *Stream) ID() bulkhead.RequestID { return s.id }

// Next waits for the next event. It reports false when ctx is done, or when the End has been returned already. It is for
// one reader.
func (s *Stream) Next(ctx context.Context) (bulkhead.Event, bool) {
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

// Leave tells the workers that nobody reads any more. What the request holds is let go of as far as it has come: prefill is
// stopped before the transfer, the transfer is finished or fenced during it, decode is stopped after it. The End is
// Aborted, unless the request has ended already; then Leave does nothing.
func (s *Stream) Leave() { s.leave() }

// take is the next event if there is one, and whether there can be more.
func (s *Stream) take() (e bulkhead.Event, ok, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read < len(s.events) {
		e = s.events[s.read]
		s.events[s.read] = bulkhead.Event{}
		s.read++
		return e, true, true
	}
	return bulkhead.Event{}, false, s.end == nil
}

// push adds a token; false where the request has ended.
func (s *Stream) push(e bulkhead.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return false
	}
	s.sent++
	s.add(e)
	return true
}

// finish ends the request, if it has not ended yet, and says whether this call did. It fills in what was
// sent and cached.
func (s *Stream) finish(end *bulkhead.End) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return false
	}
	end.Completion, end.Cached = s.sent, bulkhead.Tokens(s.cached.n.Load())
	if end.Reason == bulkhead.Stopped {
		end.Completion++
	}
	s.end = new(bulkhead.End)
	*s.end = *end // the reader's own may be changed by whoever has it
	s.add(bulkhead.Event{End: end})
	return true
}

func (s *Stream) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end != nil
}

// why is a copy of the End, for the other side; nil where the request has not ended.
func (s *Stream) why() *bulkhead.End {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		return nil
	}
	e := *s.end
	return &e
}

// add appends under the lock and wakes the reader.
func (s *Stream) add(e bulkhead.Event) {
	s.events = append(s.events, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
