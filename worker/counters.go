package worker

import (
	"maps"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// counts are the counters of a pair and the last books of its pools, which belong to the loops.
type counts struct {
	mu       sync.Mutex
	c        Counters
	pools    [2]kv.Stats
	decoding struct{ line, landing, running int }
}

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

// pool keeps the books of a pool for Snapshot and Limits.
func (n *counts) pool(s Side, stats kv.Stats) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pools[s] = stats
}

func (n *counts) setAside(s Side) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pools[s].SetAside
}

func (n *counts) copy() Counters {
	c := n.c
	c.Ended, c.Refusals, c.Violations = maps.Clone(c.Ended), maps.Clone(c.Refusals), maps.Clone(c.Violations)
	return c
}

func (n *counts) use(s Side, page int) PoolUse {
	k := n.pools[s]
	return PoolUse{Size: bulkhead.Tokens(k.Pages * page), Pages: k.Pages, Free: k.Free, Cached: k.Cached, Live: k.Live,
		Quarantined: k.Quarantined, SetAside: k.SetAside}
}
