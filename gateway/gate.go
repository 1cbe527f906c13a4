package gateway

import (
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// gate bounds how many requests are inside the gateway, whose bodies it holds and whose prompts it counts. Behind it the
// workers bound their own queues; in front of it a request costs a goroutine and a few KiB.
//
// There is room for what the workers can run and queue, and a few more to be refused by the workers with better reasons.
// A tenant has room for what the workers would queue and run of it.
type gate struct {
	mu       sync.Mutex
	total    int
	inFlight map[string]int // by tenant
}

const gateSpare = 16

// enter takes a place; leave gives it back and must be called once.
func (g *gate) enter(tenant string, l bulkhead.Limits) (leave func(), ref *bulkhead.Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, one := l.Queue+l.Running+gateSpare, l.QueueTenant+l.Running+gateSpare
	switch {
	case g.total >= all:
		return nil, busy("%d requests are running or waiting, which is the limit", g.total)
	case g.inFlight[tenant] >= one:
		return nil, busy("%d requests of yours are running or waiting, which is the limit", g.inFlight[tenant])
	}
	g.total++
	g.inFlight[tenant]++
	return func() { g.leave(tenant) }, nil
}

func (g *gate) leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.inFlight[tenant]--; g.inFlight[tenant] == 0 {
		delete(g.inFlight, tenant)
	}
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.total
}

func busy(format string, args ...any) *bulkhead.Refusal {
	ref := bulkhead.Refuse(bulkhead.CodeBusy, "", format+"; send it again in a moment", args...)
	ref.RetryAfter = time.Second
	return ref
}
