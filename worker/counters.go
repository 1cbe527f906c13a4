package worker

import (
	"maps"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// counts are the counters of a worker and the last books of its pool, which belongs to the loop.
type counts struct {
	mu       sync.Mutex
	c        Counters
	pool     kv.Stats
	decoding decoding
}

// decoding is how many requests are where in decode.
type decoding struct{ waiting, landing, setBack, running int }

func newCounts() *counts {
	return &counts{c: Counters{
		Ended: make(map[bulkhead.Reason]uint64), Refusals: make(map[bulkhead.Code]uint64), Violations: make(map[bulkhead.Part]uint64),
	}}
}

// add changes counters under the lock.
func (n *counts) add(f func(*Counters)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.c)
}

func (n *counts) refused(code bulkhead.Code) { n.add(func(c *Counters) { c.Refusals[code]++ }) }

func (n *counts) violation(part bulkhead.Part) { n.add(func(c *Counters) { c.Violations[part]++ }) }

func (n *counts) ended(e *bulkhead.End) {
	n.add(func(c *Counters) {
		c.Ended[e.Reason]++
		if e.Refusal != nil {
			c.Refusals[e.Refusal.Code]++
		}
	})
}

// books keeps the books of the pool for Snapshot and Limits.
func (n *counts) books(stats kv.Stats) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pool = stats
}

func (n *counts) setAside() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pool.SetAside
}

func (n *counts) copy() Counters {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.c
	c.Ended, c.Refusals, c.Violations = maps.Clone(c.Ended), maps.Clone(c.Refusals), maps.Clone(c.Violations)
	return c
}

func (n *counts) use(page int) PoolUse {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.pool
	return PoolUse{Size: bulkhead.Tokens(k.Pages * page), Pages: k.Pages, Free: k.Free, Cached: k.Cached, Live: k.Live,
		Quarantined: k.Quarantined, SetAside: k.SetAside}
}

// joined are the counters of a pair: a request is taken and ends at decode, whose stream the client reads, and is computed at
// both.
func joined(prefill, decode Counters) Counters {
	c := decode
	c.CachedTokens, c.PrefillSteps, c.PrefillRows = prefill.CachedTokens, prefill.PrefillSteps, prefill.PrefillRows
	for part, n := range prefill.Violations {
		c.Violations[part] += n
	}
	return c
}
