package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// DecodeWorker is a decode worker: alone, or one half of a [Pair]. Its methods are for concurrent use.
//
// One goroutine runs, which owns the pool. A turn of it: take what the inlet has brought, let go of what is over, reserve
// pages for whoever is next, pull, commit, compute a chunk of what was set back, and one token of every running request.
// All requests that it holds together are bounded by Queue + 2*Running, a tenant's by QueueTenant + 2*Running: those that
// wait in a prefill worker, those that are computed or handed over there, and those that run here.
type DecodeWorker struct {
	core
	in     handoff.Inlet
	charge func([]bill) // nil: nobody keeps accounts here
	busy   int          // bytes that are pulled between two steps while requests run

	// Owned by the loop.
	line     *sched.Decode
	rooms    map[bulkhead.Room]*target
	held     map[sched.Ticket]*target // all requests
	inFlight int                      // bytes that are pulled and have not arrived
	batch    batch

	coming []*target // not seen by the loop yet; under core.mu
}

// target is one request in decode: first a room, then a sequence.
type target struct {
	job    *job
	prefix []bulkhead.Token // what is to stand in pages before it runs
	room   *handoff.Target
	lined  bool // stands, or stood, in the line
	again  bool // was set back: the room is over, and the prefix is computed here. Or there is neither room nor prefix
	began  time.Time
	pulled int

	reservation *kv.Reservation     // while it lands
	landings    map[int]*kv.Landing // of these, those that are being written
	seq         *kv.Sequence        // while it runs, or is computed again
}

// NewDecode makes the pool and starts the loop. It refuses limits that contradict each other, among them a window that
// does not fit the decode pool.
func NewDecode(cfg Config, in handoff.Inlet) (*DecodeWorker, error) {
	if err := cfg.check(bulkhead.RoleDecode); err != nil {
		return nil, err
	}
	d, err := newDecode(cfg, in, newTurn())
	if err != nil {
		return nil, err
	}
	d.start(d.loop)
	return d, nil
}

// newDecode makes a worker whose loop does not run yet.
func newDecode(cfg Config, in handoff.Inlet, t turn) (*DecodeWorker, error) {
	d := &DecodeWorker{in: in, busy: pullIdle, line: sched.NewDecode(cfg.Limits),
		rooms: make(map[bulkhead.Room]*target), held: make(map[sched.Ticket]*target)}
	if err := d.set(cfg, Decode, t); err != nil {
		return nil, err
	}
	in.Notify(d.bell.ring)
	return d, nil
}

// Submit takes an order, or refuses it. The stream has the answer's tokens and then exactly one End. Where the prefill worker
// has ended the request for a reason, the End has that reason, and its refusal with code, message and numbers.
func (d *DecodeWorker) Submit(o Order) (*Stream, *bulkhead.Refusal) { return d.take(o, new(cached)) }

func (d *DecodeWorker) take(o Order, c *cached) (*Stream, *bulkhead.Refusal) {
	r := o.Request.Request()
	claim := d.claims.of(&r, o.Room)
	return d.submit(o, c, func(j *job) *bulkhead.Refusal {
		if r := d.full(j); r != nil {
			return r
		}
		prefix := j.prefix()
		pages := d.cfg.Layout.Pages(bulkhead.Tokens(len(prefix))) // its own count, of the request's tokens
		t := &target{job: j, prefix: prefix, room: handoff.NewTarget(j.room, pages), landings: make(map[int]*kv.Landing)}
		t.again = o.Peer == handoff.Nobody && len(prefix) == 0 // the worker's own: there is nothing to be handed over, and nobody who would
		d.coming = append(d.coming, t)
		if !t.again {
			d.in.Enter(j.room, o.Peer, claim) // after it can be found, and before the loop can end it
		}
		return nil
	})
}

// full refuses a request where as many are held as can be, or as can be of its tenant's, or where its deadline has passed.
func (d *DecodeWorker) full(j *job) *bulkhead.Refusal {
	l := d.cfg.Limits
	return sched.Full(j.req.Deadline, j.arrived, len(d.inUse), l.Queue+2*l.Running, d.tenants[j.req.Tenant.Name], l.QueueTenant+2*l.Running)
}

// loop runs until ctx is done and nothing is held any more.
func (d *DecodeWorker) loop(ctx context.Context) {
	for {
		now := time.Now()
		d.answer()
		d.receive()
		d.letGo(now)
		d.admit()
		worked := d.pull()
		worked = d.recompute() || worked
		worked = d.step() || worked
		d.tell()
		if worked {
			continue
		}
		if ctx.Err() != nil && d.empty() {
			return
		}
		d.bell.wait(d.deadline())
	}
}

func (d *DecodeWorker) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.held) == 0 && len(d.coming) == 0
}

// receive takes messages and then newcomers, in this order by time: a room is entered before anything of it is sent.
// Messages come before arrivals, so that a page which never came is put down to what happened to its room.
func (d *DecodeWorker) receive() {
	messages, arrivals := d.in.Receive()
	d.mu.Lock()
	coming := d.coming
	d.coming = nil
	d.mu.Unlock()
	for _, t := range coming {
		d.held[t.job.ticket] = t
		if t.again {
			d.sample(t.job)
			d.line.Offer(t.job.ticket, 0)
			continue
		}
		d.rooms[t.room.Room()] = t
	}
	for _, m := range messages {
		if t := d.rooms[m.Room]; t != nil { // else it has ended here first
			d.hear(t, m)
		}
	}
	for _, a := range arrivals {
		if t := d.rooms[a.Room]; t != nil {
			d.arrived(t, a)
		}
	}
}

// hear takes one message of a room, and ends the request for the source's reason where it says one.
func (d *DecodeWorker) hear(t *target, m handoff.Message) {
	if err := t.room.Receive(m); err != nil {
		d.fail(t.job, err)
		t.room.Stop()
	}
	switch m.Kind {
	case handoff.Stop:
		d.endAs(t.job, m.Why)
	case handoff.Lost:
		d.fail(t.job, fmt.Errorf("%w: %s", handoff.ErrLost, m.Text))
	}
	d.settle(t)
}

// endAs ends a request as it has ended at prefill. That is the other worker's word, so only what makes sense is taken.
func (d *DecodeWorker) endAs(j *job, why *bulkhead.End) {
	switch {
	case why == nil:
		d.fail(j, errors.New("prefill stopped the room and did not say why"))
	case why.Reason == bulkhead.Refused && why.Refusal != nil:
		d.refuse(j, why.Refusal)
	case why.Reason == bulkhead.Aborted:
		d.end(j, bulkhead.End{Reason: bulkhead.Aborted})
	case why.Reason == bulkhead.Violated:
		d.end(j, bulkhead.End{Reason: bulkhead.Violated, Err: why.Err}) // counted and logged where it was found
	case why.Err != nil:
		d.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: fmt.Errorf("prefill: %w", why.Err)})
	default:
		d.fail(j, fmt.Errorf("prefill stopped the room: %v", why.Reason))
	}
}

// letGo stops what has ended, wherever it is.
func (d *DecodeWorker) letGo(now time.Time) {
	for _, t := range d.held {
		if d.over(t.job, now) {
			d.drop(t)
		}
	}
}

// drop lets go of a request that has ended, as far as its carrier allows: what lands is fenced as it arrives.
func (d *DecodeWorker) drop(t *target) {
	switch {
	case t.seq != nil:
		t.seq.Release()
		d.forget(t)
	case t.again:
		d.forget(t)
	default:
		t.room.Stop()
		d.settle(t)
	}
}

// forget is the end of a request that holds no pages and no room.
func (d *DecodeWorker) forget(t *target) {
	d.line.Remove(t.job.ticket)
	delete(d.held, t.job.ticket)
	d.leave(t.job)
}

// tell keeps the books for Snapshot.
func (d *DecodeWorker) tell() {
	n := d.count
	n.books(d.pool.Stats())
	var now decoding
	_, land, computing, run := d.line.Lens()
	back := computing
	for _, t := range d.held {
		if t.again && t.seq == nil {
			back++
		}
	}
	now = decoding{waiting: len(d.held) - land - back - run, landing: land, setBack: back, running: run}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decoding = now
}

// deadline is the earliest of all requests that the loop holds.
func (d *DecodeWorker) deadline() (at time.Time) {
	for _, t := range d.held {
		if !t.job.stream.isEnded() {
			at = earlier(at, t.job.req.Deadline)
		}
	}
	return at
}

// Snapshot is the state of the worker now, its pool as it was after the loop's last turn.
func (d *DecodeWorker) Snapshot() Snapshot {
	s := Snapshot{Limits: d.Limits(), Draining: d.isDraining(), Decode: d.count.use(d.cfg.Limits.PageTokens), Counters: d.count.copy()}
	d.count.mu.Lock()
	defer d.count.mu.Unlock()
	n := d.count.decoding
	s.Waiting, s.HandingOver, s.SetBack, s.Running = n.waiting, n.landing, n.setBack, n.running
	return s
}

// batch is what one step needs, kept so that a step allocates nothing.
type batch struct {
	targets []*target
	work    []engine.Work
	results []engine.Result
	bills   []bill
	events  []drawn
}
