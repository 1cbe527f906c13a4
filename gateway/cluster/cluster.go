package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
)

// Cluster is a gateway's workers. It is safe for concurrent use. Until at least one pair is there it refuses every request with
// 503 and Retry-After, and its window is 0.
type Cluster struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	ctx     context.Context // of everything that runs
	stop    context.CancelFunc
	closing chan struct{}
	loops   sync.WaitGroup // probes
	flows   sync.WaitGroup // requests and what is left of them

	mu          sync.Mutex
	nodes       map[nodeID]*node
	links       map[link]*breaker // of pairs whose handoffs were lost
	fingerprint string            // hex; "": not known yet
	limits      bulkhead.Limits
	ready       bool
	attempts    int           // not over
	idle        chan struct{} // closed when attempts is 0; nil: nobody waits
	closed      bool
}

var (
	_ gateway.Backend = (*Cluster)(nil)
	_ gateway.Readier = (*Cluster)(nil)
)

// link is a pair whose workers reach each other, or do not.
type link struct{ prefill, decode nodeID }

// New makes a cluster without members. Close stops what it starts.
func New(cfg Config) (*Cluster, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.Key == ([32]byte{}) {
		rand.Read(cfg.Key[:])
	}
	c := &Cluster{cfg: cfg, log: cfg.Log, closing: make(chan struct{}), nodes: map[nodeID]*node{}, links: map[link]*breaker{}}
	if cfg.Fingerprint != ([32]byte{}) {
		c.fingerprint = hex.EncodeToString(cfg.Fingerprint[:])
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.metrics = newMetrics(cfg.Registry, c)
	c.changed()
	return c, nil
}

// SetMembers exchanges the list. Workers that are in both keep their state; those that are no more get no new requests, and what
// they have goes on. The error leaves the list as it was.
func (c *Cluster) SetMembers(m Members) error {
	if err := m.Check(); err != nil {
		return err
	}
	want := map[nodeID]*node{}
	for _, g := range m.groups() {
		for _, member := range g.members {
			n, err := c.newNode(g.role, member)
			if err != nil {
				return err
			}
			want[n.id] = n
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for id, n := range c.nodes {
		if o := want[id]; o != nil && o.member == n.member {
			delete(want, id)
			continue
		}
		c.remove(n)
	}
	for id, n := range want {
		c.nodes[id] = n
		ctx, stop := context.WithCancel(c.ctx)
		n.stop = stop
		c.loops.Go(func() { c.watchInfo(ctx, n) })
		c.loops.Go(func() { c.watchHealth(ctx, n) })
	}
	c.changed()
	return nil
}

func (c *Cluster) remove(n *node) {
	n.gone = true
	if n.requests == 0 {
		n.stop()
	}
	n.client.rest() // what it has in flight goes on
	delete(c.nodes, n.id)
	for l := range c.links {
		if l.prefill == n.id || l.decode == n.id {
			delete(c.links, l)
		}
	}
	c.log.Info("a worker is no member any more", "role", n.id.role, "worker", n.name(), "url", n.id.url)
}

// changed takes the limits of all workers anew (rule I7). It is called under mu after whatever can change them.
func (c *Cluster) changed() {
	var prefill, decode []*facts
	for id, n := range c.nodes {
		switch {
		case !n.in():
		case id.role == Prefill:
			prefill = append(prefill, n.facts)
		default:
			decode = append(decode, n.facts)
		}
	}
	own := bulkhead.Limits{RequestTimeout: c.cfg.RequestTimeout, DrainTimeout: c.cfg.DrainTimeout, Running: 1, Chunk: 1}
	l := least(prefill, decode, own)
	if l.Window != c.limits.Window {
		c.log.Info("the window is the least of all workers'", "window", int(l.Window), "before", int(c.limits.Window),
			"prefill", len(prefill), "decode", len(decode))
	}
	c.limits, c.ready = l, l.Window > 0
}

// Limits are the least of all workers that a request can be routed to. Where there is no pair the window is 0.
func (c *Cluster) Limits() bulkhead.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limits
}

// Ready is nil where there is a pair, and else why every request is refused.
func (c *Cluster) Ready() *bulkhead.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		return nil
	}
	return unavailable()
}

// Submit takes a request, or refuses it: no pair is there, all queues are full, or it is over the limits as they are now. What
// happens to it later is its stream's End.
func (c *Cluster) Submit(_ context.Context, adm bulkhead.Admitted) (gateway.Stream, *bulkhead.Refusal) {
	r := adm.Request()
	if ref := c.Ready(); ref != nil {
		return nil, ref
	}
	again, ref := c.Limits().Admit(r)
	if ref != nil {
		return nil, ref
	}
	r = again.Request()
	for i, t := range r.Prompt {
		if t < 0 || int(t) >= c.cfg.Vocab {
			return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "prompt", "token %d of the prompt is %d; the model has %d tokens", i, t, c.cfg.Vocab)
		}
	}
	if r.Deadline.IsZero() && c.cfg.RequestTimeout > 0 {
		r.Deadline = time.Now().Add(c.cfg.RequestTimeout)
	}
	f := newFlow(c, r)
	p, ref := c.pick(f)
	if ref != nil {
		c.metrics.shed.WithLabelValues(string(ref.Code)).Inc()
		return nil, ref
	}
	go f.run(p)
	return f.stream, nil
}

// Drain waits until nothing is in flight any more, what clients have left included, or until ctx is done.
func (c *Cluster) Drain(ctx context.Context) error {
	c.mu.Lock()
	if c.attempts == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends what is in flight, telling both workers of each request, and stops everything. It takes a second or two at most.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	c.flows.Wait()
	c.stop()
	c.loops.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		n.client.conns.close()
	}
}
