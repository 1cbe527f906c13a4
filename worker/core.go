package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// core is what a prefill and a decode worker have in common: who may come in, which requests there are, and how it ends.
type core struct {
	cfg    Config
	side   Side
	bell   bell
	turn   turn // of a pair, or the worker's own
	count  *counts
	pool   *kv.Pool // the loop's
	keys   *keys    // the loop's
	claims claims
	die    func(error) // ends every request, when the loop has panicked

	stop  context.CancelFunc
	loops sync.WaitGroup
	done  chan struct{} // closed when the loop has ended
	free  func()        // the arena

	mu       sync.Mutex
	jobs     map[sched.Ticket]*job    // not ended
	inUse    map[bulkhead.Room]string // the rooms, with whose they are: from submit until the loop has let go
	tenants  map[string]int           // of inUse
	ticket   sched.Ticket             // the last given
	draining bool
	idle     chan struct{} // closed when draining and jobs is empty
	asks     []func()      // for the loop to do
}

// errClosed ends what is left at Close.
var errClosed = errors.New("the worker was closed")

// set makes the core of one side, with its pool. The config has been checked.
func (c *core) set(cfg Config, side Side, t turn) error {
	c.cfg, c.side, c.turn, c.bell, c.count = cfg, side, t, newBell(), newCounts()
	c.jobs, c.inUse, c.tenants = make(map[sched.Ticket]*job), make(map[bulkhead.Room]string), make(map[string]int)
	c.idle, c.done, c.stop = make(chan struct{}), make(chan struct{}), func() {}
	arena, size := cfg.PrefillArena, cfg.Limits.PrefillPool
	if side == Decode {
		arena, size = cfg.DecodeArena, cfg.Limits.DecodePool
	}
	pool, free, err := c.cfg.pool(arena, size)
	if err != nil {
		return fmt.Errorf("%v pool: %w", side, err)
	}
	c.pool, c.free = pool, free
	c.keys, c.claims.keys = newKeys(&c.cfg), newKeys(&c.cfg)
	c.die = func(err error) { c.endAll(func(j *job) { c.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: err}) }) }
	c.count.books(pool.Stats())
	return nil
}

// start runs the loop in a goroutine of its own.
func (c *core) start(loop func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.loops.Go(func() {
		defer c.hush()
		c.supervise(func() { loop(ctx) })
	})
}

// Limits are what the worker holds to now: pages that were set aside have left its pool, and where the window no longer fits
// it is smaller.
func (c *core) Limits() bulkhead.Limits {
	l := c.cfg.Limits
	gone := bulkhead.Tokens(c.count.setAside() * l.PageTokens)
	if c.side == Prefill {
		l.PrefillPool -= gone
	} else {
		l.DecodePool -= gone
	}
	l.Window = min(l.Window, l.FitWindow())
	return l
}

// submit takes an order, or refuses it: over the limits as they are now, a token that the model does not have, a room that
// is none or is in use, queue full, draining. The admission that made the request is not believed: it was by somebody else's
// limits. Queue puts the job, under the lock, where the loop finds it, or refuses it.
func (c *core) submit(o Order, cells *cached, queue func(*job) *bulkhead.Refusal) (*Stream, *bulkhead.Refusal) {
	r := o.Request.Request()
	refusal := c.admit(&r)
	if refusal == nil {
		j := &job{req: r, room: o.Room, arrived: time.Now(), tokens: slices.Clone(r.Prompt)}
		j.stream = newStream(r.ID, cells, func() { c.end(j, bulkhead.End{Reason: bulkhead.Aborted}) })
		if refusal = c.enter(j, queue); refusal == nil {
			c.count.add(func(k *Counters) { k.Submitted++; k.PromptTokens += uint64(len(r.Prompt)) })
			c.bell.ring()
			return j.stream, nil
		}
	}
	c.count.refused(refusal.Code)
	return nil, refusal
}

func (c *core) admit(r *bulkhead.Request) *bulkhead.Refusal {
	again, refusal := c.Limits().Admit(*r)
	if refusal != nil {
		return refusal
	}
	*r = again.Request()
	vocab := bulkhead.Token(c.cfg.Runner.Info().Vocab)
	for i, t := range r.Prompt {
		if t < 0 || t >= vocab {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "prompt", "token %d of the prompt is %d; the model has %d tokens", i, t, vocab)
		}
	}
	if r.Deadline.IsZero() && c.cfg.Limits.RequestTimeout > 0 {
		r.Deadline = time.Now().Add(c.cfg.Limits.RequestTimeout)
	}
	return nil
}

// enter gives the job its ticket and its room, and queues it.
func (c *core) enter(j *job, queue func(*job) *bulkhead.Refusal) *bulkhead.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return c.drainingRefusal()
	}
	if j.room == 0 {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_room", "the room is 0, which is none: every attempt needs a fresh random one")
	}
	if _, used := c.inUse[j.room]; used {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_room", "the room is in use by another request: every attempt needs a fresh random one")
	}
	j.ticket = c.ticket + 1
	if r := queue(j); r != nil {
		return r
	}
	c.ticket++
	c.jobs[j.ticket] = j
	c.inUse[j.room] = j.req.Tenant.Name
	c.tenants[j.req.Tenant.Name]++
	return nil
}

// leave says that the loop has let go of a job: nothing of it is held any more, and its room may be another's.
func (c *core) leave(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inUse, j.room)
	if c.tenants[j.req.Tenant.Name]--; c.tenants[j.req.Tenant.Name] == 0 {
		delete(c.tenants, j.req.Tenant.Name)
	}
}

func (c *core) drainingRefusal() *bulkhead.Refusal {
	r := bulkhead.Refuse(bulkhead.CodeDraining, "", "the server is shutting down; try again later")
	r.RetryAfter = max(time.Second, c.cfg.Limits.DrainTimeout)
	return r
}
