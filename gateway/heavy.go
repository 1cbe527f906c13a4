package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
)

// heavy bounds how many large bodies are parsed, rendered and counted at once. A body of 8 MiB takes a hundred times its size in
// messages, text and tokens while it is counted, and seconds of a CPU: without a bound, the requests that the gate lets in could
// take the machine's memory. A tenant counts one large body at a time, the server a few, and the others wait for their
// turn, their deadline or their client's leaving. Small bodies pass at once, so nobody's large ones hold up a short chat.
type heavy struct {
	all chan struct{} // holds one for each large body that is counted

	mu       sync.Mutex
	byTenant map[string]chan struct{}
}

const (
	lightBody = 64 << 10 // bytes: smaller ones are not bounded
	heavyAll  = 4        // large bodies that are counted at once
)

func newHeavy() *heavy {
	return &heavy{all: make(chan struct{}, heavyAll), byTenant: map[string]chan struct{}{}}
}

// turn is the right to count a body.
type turn struct {
	counted func() // the server's part ends: what is left of the body is small, or is the answer
	leave   func() // so does the tenant's
}

// wait takes a turn for a body of n bytes.
func (h *heavy) wait(ctx context.Context, tenant string, n int) (turn, *bulkhead.Refusal) {
	if n < lightBody {
		return turn{func() {}, func() {}}, nil
	}
	one := h.tenant(tenant)
	if !take(ctx, one) {
		return turn{}, noTurn(ctx)
	}
	if !take(ctx, h.all) {
		<-one
		return turn{}, noTurn(ctx)
	}
	counted := sync.OnceFunc(func() { <-h.all })
	return turn{counted, sync.OnceFunc(func() { counted(); <-one })}, nil
}

// tenant is the place of one tenant. There are as many as the keys name, so none is ever dropped.
func (h *heavy) tenant(name string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, ok := h.byTenant[name]
	if !ok {
		one = make(chan struct{}, 1)
		h.byTenant[name] = one
	}
	return one
}

func take(ctx context.Context, place chan struct{}) bool {
	select {
	case place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// noTurn is why there was none. A client that left does not read it.
func noTurn(ctx context.Context) *bulkhead.Refusal {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return bulkhead.Refuse(bulkhead.CodeDeadline, "", "the request's deadline passed while it waited to be counted")
	}
	return bulkhead.Refuse(bulkhead.CodeInvalid, "", "the request ended early")
}
