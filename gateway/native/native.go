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
func (b Backend) Submit(_ context.Context, a bulkhead.Admitted) (gateway.Stream, *bulkhead.Refusal) {
	s, refusal := b.Pair.Submit(a)
	if refusal != nil {
		return nil, refusal
	}
	return s, nil
}
