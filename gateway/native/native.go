// Package native lets a gateway speak to a pair of Bulkhead's own workers in the same process.
package native

import (
	"context"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// Backend is a pair as a gateway sees it.
type Backend struct{ *worker.Pair }

var _ gateway.Backend = Backend{}

// Submit hands an admitted request to the pair.
func (b Backend) Submit(a bulkhead.Admitted) (gateway.Stream, *bulkhead.Refusal) {
	s, refusal := b.Pair.Submit(a)
	if refusal != nil {
		return nil, refusal
	}
	return stream{s}, nil
}

type stream struct{ *worker.Stream }

func (s stream) Next(ctx context.Context) (gateway.Event, bool) {
	e, ok := s.Stream.Next(ctx)
	return gateway.Event{Token: e.Token, Logprobs: logprobs(e.Logprobs), End: end(e.End)}, ok
}

func logprobs(l *worker.Logprobs) *gateway.Logprobs {
	if l == nil {
		return nil
	}
	top := make([]gateway.TokenLogprob, len(l.Top))
	for i, t := range l.Top {
		top[i] = gateway.TokenLogprob(t)
	}
	return &gateway.Logprobs{Token: l.Token, Top: top}
}

var reasons = map[worker.Terminal]gateway.Reason{
	worker.Stop:     gateway.Stopped,
	worker.Length:   gateway.Length,
	worker.Refused:  gateway.Refused,
	worker.Violated: gateway.Violated,
	worker.Aborted:  gateway.Aborted,
	worker.Failed:   gateway.Failed,
}

func end(e *worker.End) *gateway.End {
	if e == nil {
		return nil
	}
	return &gateway.End{Reason: reasons[e.Reason], Refusal: e.Refusal, Err: e.Err, Cached: e.Cached}
}
