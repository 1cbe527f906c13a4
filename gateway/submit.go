package gateway

import (
	"context"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
)

// submission is hop 4: every choice is with the workers.
type submission struct {
	*admission
	streams []Stream
}

// submit hands over all choices or none: where the workers refuse one, those before it are taken back.
func (g *Gateway) submit(a *admission) (*submission, *bulkhead.Refusal) {
	s := &submission{admission: a}
	for _, adm := range a.choices {
		stream, ref := g.cfg.Backend.Submit(a.r.Context(), adm)
		if ref != nil {
			s.leave()
			return nil, a.named(ref)
		}
		s.streams = append(s.streams, stream)
	}
	return s, nil
}

// leave stops every choice by name (rule I6: the workers let go of each as its state allows).
func (s *submission) leave() {
	for _, stream := range s.streams {
		stream.Leave()
	}
}

// choiceEvent is an event of one of the choices.
type choiceEvent struct {
	choice int
	bulkhead.Event
}

// next returns what waits for the next event of any choice, and what ends the waiting. A single choice needs no goroutine.
func (s *submission) next(ctx context.Context) (next func() (choiceEvent, bool), end func()) {
	if len(s.streams) == 1 {
		return func() (choiceEvent, bool) {
			e, ok := s.streams[0].Next(ctx)
			return choiceEvent{0, e}, ok
		}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan choiceEvent)
	var readers sync.WaitGroup
	for i, stream := range s.streams {
		readers.Go(func() {
			for {
				e, ok := stream.Next(ctx)
				if !ok {
					return
				}
				select {
				case events <- choiceEvent{i, e}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	next = func() (choiceEvent, bool) {
		select {
		case e := <-events:
			return e, true
		case <-ctx.Done():
			return choiceEvent{}, false
		}
	}
	return next, func() { cancel(); readers.Wait() }
}
