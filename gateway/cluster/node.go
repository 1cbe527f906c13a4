package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// node is one worker. What is below mu of the cluster is guarded by it.
type node struct {
	id     nodeID
	host   string // of its URL
	member Member
	client *client
	stop   context.CancelFunc // of its probes

	// guarded by Cluster.mu
	facts    *facts // nil: not known, or not usable
	info     health // by /server_info
	deep     health // by /health_generate
	breaker  *breaker
	cached   *affinity
	tokens   bulkhead.Tokens // in flight
	requests int             // in flight
	resting  bool            // it said that it takes no requests; until its next good probe
	told     string          // the last complaint in the log
	down     chan struct{}   // closed when it goes out by /server_info, and another when it comes back
	gone     bool            // no member any more; probed until nothing of it is in flight, so that what hangs there ends
}

// in says that requests can be routed to it, as far as its probes go. Limits are over these.
func (n *node) in() bool { return n.facts != nil && n.info.in && n.deep.in && !n.facts.draining }

// name is what it is called in logs.
func (n *node) name() string {
	if n.facts != nil {
		return n.facts.name
	}
	if n.member.Name != "" {
		return n.member.Name
	}
	return n.id.url
}

func (n *node) candidate(prompt []block) candidate {
	return candidate{id: n.id, kind: n.facts.kind, pool: n.facts.pool, tokens: n.tokens, requests: n.requests,
		most: n.facts.most(), match: n.cached.match(prompt)}
}

// newNode makes a node that is not probed yet.
func (c *Cluster) newNode(role Role, m Member) (*node, error) {
	u, err := parseURL(m.URL)
	if err != nil {
		return nil, err
	}
	if err := checkTransport(u, c.cfg.TLS != nil, c.cfg.Plaintext); err != nil {
		return nil, err
	}
	n := &node{id: nodeID{role, u.String()}, host: u.Hostname(), member: m, down: make(chan struct{}),
		info: health{out: c.cfg.Probes.Out, back: c.cfg.Probes.Back}, deep: health{out: c.cfg.Probes.Out, back: 1},
		breaker: newBreaker(c.cfg.Breaker), cached: newAffinity(0)}
	n.client = newClient(n.id.url, c.workTLS(n), c.controlTLS(n), c.cfg.Timeouts)
	return n, nil
}

// controlTLS lets in the worker that the list names, or any of its role.
func (c *Cluster) controlTLS(n *node) *tls.Config {
	if c.cfg.TLS == nil {
		return nil
	}
	return c.cfg.TLS(n.id.role, n.member.Name)
}

// workTLS lets in only the worker whose name its probes have shown: requests tell the other worker of the pair that name.
func (c *Cluster) workTLS(n *node) *tls.Config {
	secure := c.controlTLS(n)
	if secure == nil {
		return nil
	}
	secure = secure.Clone()
	before := secure.VerifyConnection
	secure.VerifyConnection = func(s tls.ConnectionState) error {
		if before != nil {
			if err := before(s); err != nil {
				return err
			}
		}
		role, name, err := c.cfg.PeerName(s)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n.facts == nil || role != n.id.role || name != n.facts.name {
			return fmt.Errorf("cluster: %v is %s %q now, and was %q at its last probe", n.id, role, name, n.name())
		}
		return nil
	}
	return secure
}

// watchInfo asks what the worker is, until ctx is done.
func (c *Cluster) watchInfo(ctx context.Context, n *node) {
	defer n.stop()
	for !c.finished(n) {
		probe, cancel := context.WithTimeout(ctx, c.cfg.Probes.Timeout)
		info, state, err := n.client.info(probe)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.probed(n, info, state, err)
		if !pause(ctx, c.cfg.Probes.Every) {
			return
		}
	}
}

// watchHealth has the worker compute something now and then, once it is known what it is. One that has not yet, or not lately, is
// asked as often as what it is.
func (c *Cluster) watchHealth(ctx context.Context, n *node) {
	for !c.removed(n) {
		wait := c.cfg.Probes.Every
		if c.known(n) {
			probe, cancel := context.WithTimeout(ctx, c.cfg.Probes.GenerateTimeout)
			err := n.client.health(probe)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if c.computed(n, err) {
				wait = c.cfg.Probes.GenerateEvery
			}
		} else {
			wait = min(wait, 100*time.Millisecond)
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// removed says that the worker is no member any more, finished, that moreover nothing of it is in flight.
func (c *Cluster) removed(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.gone
}

func (c *Cluster) finished(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.gone && n.requests == 0
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Cluster) known(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.facts != nil
}

// computed takes the result of a health check and says whether the worker is in by those.
func (c *Cluster) computed(n *node, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if n.deep.bad() {
			c.log.Error("a worker computes nothing any more and gets no requests", "role", n.id.role, "worker", n.name(), "url", n.id.url, "err", err)
		}
	} else if n.deep.good() {
		c.log.Info("a worker computes", "role", n.id.role, "worker", n.name(), "url", n.id.url)
	}
	c.changed()
	return n.deep.in
}

// probed takes the result of a probe.
func (c *Cluster) probed(n *node, info *sglang.ServerInfo, state *tls.ConnectionState, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed()
	if err != nil {
		if n.told == "" { // once until it answers again: such errors have another port each
			c.complain(n, "a worker does not answer its probe", err)
		}
		n.told = err.Error()
		if n.info.bad() {
			close(n.down)
			c.log.Error("a worker is out: it does not answer its probes", "role", n.id.role, "worker", n.name(), "url", n.id.url, "err", err)
		}
		return
	}
	if n.gone { // what it is now matters no more, and its name may be another member's
		return
	}
	f, err := c.examine(n, info, state)
	if err != nil {
		c.complain(n, "a worker cannot be used", err)
		if n.info.in {
			close(n.down)
		}
		n.facts, n.info.in, n.info.row = nil, false, 0
		return
	}
	c.take(n, f)
}

// complain logs what is wrong with a worker, once for each different complaint.
func (c *Cluster) complain(n *node, what string, err error) {
	if n.told == err.Error() {
		return
	}
	n.told = err.Error()
	c.log.Warn(what, "role", n.id.role, "worker", n.name(), "url", n.id.url, "err", err)
}

func (c *Cluster) examine(n *node, info *sglang.ServerInfo, state *tls.ConnectionState) (facts, error) {
	want := expected{id: n.id, host: n.host, name: n.member.Name, fingerprint: c.fingerprint}
	if c.cfg.TLS != nil {
		if state == nil {
			return facts{}, fmt.Errorf("its answer came without TLS")
		}
		role, name, err := c.cfg.PeerName(*state)
		if err != nil {
			return facts{}, err
		}
		if role != n.id.role {
			return facts{}, fmt.Errorf("its certificate is for the role %s", role)
		}
		want.name = name
	}
	f, err := examine(info, want)
	if err != nil {
		return facts{}, err
	}
	for _, o := range c.nodes {
		if o != n && o.id.role == n.id.role && o.facts != nil && o.facts.name == f.name {
			return facts{}, fmt.Errorf("it calls itself %q, and so does %s: names must differ", f.name, o.id.url)
		}
	}
	return f, nil
}

// take makes what a good probe said the worker's state.
func (c *Cluster) take(n *node, f facts) {
	if c.fingerprint == "" {
		c.fingerprint = f.kind.fingerprint
		c.log.Info("the model is that of the first worker", "fingerprint", c.fingerprint, "worker", f.name)
	}
	if n.facts == nil || n.facts.start != f.start {
		if n.facts != nil {
			c.log.Warn("a worker was started again: its pools are empty", "role", n.id.role, "worker", f.name, "url", n.id.url)
		}
		after := n.breaker.pass + 1 // outcomes of what ran before do not count
		n.cached, n.breaker = newAffinity(f.pool), newBreaker(c.cfg.Breaker)
		n.breaker.pass = after
		for l := range c.links {
			if l.prefill == n.id || l.decode == n.id {
				delete(c.links, l)
			}
		}
	}
	if n.facts != nil && f.draining && !n.facts.draining {
		c.log.Info("a worker drains and gets no more requests", "role", n.id.role, "worker", f.name, "url", n.id.url)
	}
	n.facts, n.told, n.resting = &f, "", false
	if n.info.good() {
		n.down = make(chan struct{})
		c.log.Info("a worker is there", "role", n.id.role, "worker", f.name, "url", n.id.url, "window", int(f.window),
			"pool", int(f.pool), "queue", f.queue, "running", f.running)
	}
}
