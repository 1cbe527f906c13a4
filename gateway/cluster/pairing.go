package cluster

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// pairing is a pair that was picked for one attempt, and what it holds there until each side is done.
type pairing struct {
	prefill, decode         *node
	prefillDown, decodeDown chan struct{}
	passes                  [3]pass // prefill, decode, link: as marks are
	dispatch                dispatch
}

func (p *pairing) node(role Role) *node {
	if role == Prefill {
		return p.prefill
	}
	return p.decode
}

func (p *pairing) link() link { return link{p.prefill.id, p.decode.id} }

// pick chooses a pair and takes a place in both queues.
func (c *Cluster) pick(f *flow) (*pairing, *bulkhead.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, unavailable()
	}
	now := time.Now()
	var prefill, decode []candidate
	for id, n := range c.nodes {
		if !n.in() || n.resting || !n.breaker.allows(now) || f.tooLarge(n.facts) {
			continue
		}
		cand := n.candidate(f.blocks)
		cand.charged = f.avoid[id]
		if id.role == Prefill {
			prefill = append(prefill, cand)
		} else {
			decode = append(decode, cand)
		}
	}
	want := need{prompt: bulkhead.Tokens(len(f.req.Prompt)), answer: f.req.MaxTokens, spread: f.spread,
		linkOpen: func(p, d nodeID) bool {
			b := c.links[link{p, d}]
			return b != nil && !b.allows(now)
		},
		linkCharged: func(p, d nodeID) bool { return f.apart[link{p, d}] },
	}
	pid, did, short := choose(want, prefill, decode)
	switch short {
	case noPair:
		return nil, unavailable()
	case allFull:
		return nil, busy(retryBusy)
	}
	return c.enter(f, c.nodes[pid], c.nodes[did], now), nil
}

// enter counts the request in at both workers.
func (c *Cluster) enter(f *flow, prefill, decode *node, now time.Time) *pairing {
	p := &pairing{prefill: prefill, decode: decode, prefillDown: prefill.down, decodeDown: decode.down}
	p.passes = [3]pass{prefill.breaker.enter(now), decode.breaker.enter(now), 0}
	if b := c.links[p.link()]; b != nil {
		p.passes[2] = b.enter(now)
	}
	for _, n := range []*node{prefill, decode} {
		if match := n.cached.match(f.blocks); match > 0 {
			c.metrics.affinity.WithLabelValues(string(n.id.role)).Add(float64(match))
		}
		n.cached.add(f.blocks)
		n.requests++
		n.tokens += f.tokens(n.id.role)
	}
	p.dispatch = dispatch{rid: newRid(), room: newRoom(), host: prefill.facts.host, port: prefill.facts.port,
		prefill: prefill.facts.name, decode: decode.facts.name}
	if !f.req.Deadline.IsZero() {
		p.dispatch.left = min(max(f.req.Deadline.Sub(now), time.Millisecond), maxLeft)
	}
	c.attempts++
	c.flows.Add(1)
	return p
}

// leaveSide counts the request out at a worker that is done with it.
func (c *Cluster) leaveSide(f *flow, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.requests--
	n.tokens -= f.tokens(n.id.role)
}

// leavePair ends an attempt: whatever it has said nothing of is owed a trial still.
func (c *Cluster) leavePair(p *pairing) {
	c.blame(p, [3]mark{neither, neither, neither})
	c.mu.Lock()
	c.attempts--
	if c.attempts == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
	c.mu.Unlock()
	c.flows.Done()
}

// rest keeps requests from a worker that said that it takes none, until its next good probe.
func (c *Cluster) rest(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.resting = true
}

// blame tells the breakers how an attempt went at both workers and between them.
func (c *Cluster) blame(p *pairing, marks [3]mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	linkBreaker := c.links[p.link()]
	if linkBreaker == nil && marks[2] == badly && c.nodes[p.prefill.id] == p.prefill && c.nodes[p.decode.id] == p.decode {
		linkBreaker = newBreaker(c.cfg.Breaker)
		c.links[p.link()] = linkBreaker
	}
	for i, b := range []*breaker{p.prefill.breaker, p.decode.breaker, linkBreaker} {
		if b == nil {
			continue
		}
		switch marks[i] {
		case well:
			b.good(p.passes[i])
			p.passes[i] = b.pass
		case badly:
			if b.bad(p.passes[i], now) {
				c.log.Error("a breaker opened: no requests for a while", "of", [...]string{"prefill", "decode", "link"}[i],
					"prefill", p.prefill.name(), "decode", p.decode.name(), "backoff", b.backoff)
				c.metrics.opened.WithLabelValues([...]string{"prefill", "decode", "link"}[i]).Inc()
			}
		case neither:
			b.neither(p.passes[i], now)
		}
	}
}
