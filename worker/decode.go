package worker

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// decode is the loop of the decode worker. A turn of it: take what prefill has sent, let go of what is over, reserve pages
// for whoever is next, pull, commit, and compute one token of every running request.
type decode struct {
	p    *Pair
	bell bell

	// Owned by the loop.
	pool  *kv.Pool
	keys  *keys
	line  *sched.Decode
	rooms map[bulkhead.Room]*target
	held  map[sched.Ticket]*target // the same, and those that run, by ticket
	batch batch

	mu     sync.Mutex
	coming []*target // from prefill, not seen by the loop yet; at most Limits.Running
}

// target is one request in decode: first a room, then a sequence.
type target struct {
	job     *job
	prefix  []bulkhead.Token
	room    *handoff.Target
	offered bool // stands, or stood, in the line
	began   time.Time
	pulled  int

	reservation *kv.Reservation // while it lands
	seq         *kv.Sequence    // while it runs
}

func newDecode(p *Pair, pool *kv.Pool) *decode {
	return &decode{p: p, bell: newBell(), pool: pool, keys: newKeys(&p.cfg), line: sched.NewDecode(p.cfg.Limits),
		rooms: make(map[bulkhead.Room]*target), held: make(map[sched.Ticket]*target)}
}

// enter tells decode of a request that prefill has begun, and under which room.
func (d *decode) enter(j *job, room bulkhead.Room, prefix []bulkhead.Token) {
	pages := d.p.cfg.Layout.Pages(bulkhead.Tokens(len(prefix))) // its own count, of the request's tokens
	d.mu.Lock()
	d.coming = append(d.coming, &target{job: j, prefix: prefix, room: handoff.NewTarget(room, pages)})
	d.mu.Unlock()
	d.bell.ring()
}

// loop runs until ctx is done, prefill has ended and nothing is held any more.
func (d *decode) loop(ctx context.Context) {
	for {
		now := time.Now()
		d.receive()
		d.letGo(now)
		d.admit()
		worked := d.pull()
		worked = d.step() || worked
		d.tell()
		if worked {
			continue
		}
		if ctx.Err() != nil && d.finished() {
			return
		}
		d.bell.wait(d.deadline())
	}
}

func (d *decode) finished() bool {
	select {
	case <-d.p.prefill.done:
	default:
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.held) == 0 && len(d.coming) == 0
}

// receive takes messages and then newcomers, in this order by time: a room is entered before anything of it is sent.
func (d *decode) receive() {
	messages := d.p.link.ForTarget()
	d.mu.Lock()
	coming := d.coming
	d.coming = nil
	d.mu.Unlock()
	for _, t := range coming {
		d.rooms[t.room.Room()], d.held[t.job.ticket] = t, t
	}
	for _, m := range messages {
		t := d.rooms[m.Room]
		if t == nil {
			continue // the source stopped before it had offered anything, and the request ended here first
		}
		if err := t.room.Receive(m); err != nil {
			d.p.fail(t.job, err)
		}
	}
}

// letGo stops what has ended, wherever it is.
func (d *decode) letGo(now time.Time) {
	for _, t := range d.held {
		if !d.p.over(t.job, now) {
			continue
		}
		if t.seq != nil {
			d.release(t)
			continue
		}
		t.room.Stop()
		d.settle(t)
	}
}

// release gives back what a running request holds.
func (d *decode) release(t *target) {
	t.seq.Release()
	d.line.Remove(t.job.ticket)
	delete(d.held, t.job.ticket)
}

// admit lets requests into the line when their pages have come near enough, and reserves pages for the head of the line as
// long as there are any. A request whose prefix is still being computed would hold its pages idle; what is missing when it
// enters is at most one chunk, so that copying and computing overlap and no more.
func (d *decode) admit() {
	near := d.p.cfg.Layout.Pages(d.p.cfg.Limits.Chunk)
	for ticket, t := range d.held {
		if t.seq == nil && !t.offered && t.room.Missing() <= near && t.room.Outcome() == handoff.Pending {
			t.offered = true
			d.line.Offer(ticket, bulkhead.Tokens(len(t.prefix)))
		}
	}
	for {
		ticket, ok := d.line.Next(d.pool.Free())
		if !ok {
			d.tooLarge()
			return
		}
		t := d.held[ticket]
		r, ok := d.pool.Reserve(d.keys.of(t.job.req.Tenant), t.prefix)
		if !ok {
			return
		}
		t.reservation, t.began = r, time.Now()
		d.line.Reserved(ticket)
		if err := t.room.Reserved(r.Have); err != nil {
			d.p.fail(t.job, err)
			t.room.Stop()
		}
		d.settle(t)
	}
}

// settle does what a room's end calls for, if it has ended: commit or abandon, and tell prefill.
func (d *decode) settle(t *target) {
	outcome, m := t.room.End()
	switch outcome {
	case handoff.Pending:
		return
	case handoff.Committed:
		seq, err := t.reservation.Commit()
		if err != nil {
			panic(err) // the room counts as proven what the pool does not
		}
		t.seq, t.reservation = seq, nil
		d.p.sample(t.job)
		d.line.Landed(t.job.ticket)
		bytes := int64(t.pulled) * int64(d.p.cfg.Layout.PageBytes())
		d.p.count.add(func(c *Counters) { c.HandoffPages += uint64(t.pulled); c.HandoffBytes += uint64(bytes) })
		d.p.cfg.Observer.Handoff(t.pulled, bytes, time.Since(t.began))
	case handoff.Abandoned:
		if t.reservation != nil {
			t.reservation.Abandon()
			t.reservation = nil
		}
		d.line.Remove(t.job.ticket)
		delete(d.held, t.job.ticket)
	}
	delete(d.rooms, t.room.Room())
	d.p.link.End(m)
}

// Bytes that are copied between two steps while requests run, so that a long prefix does not hold up their tokens, and
// while none does.
const (
	pullBusy = 4 << 20
	pullIdle = 64 << 20
)

// pull copies pages that prefill has published and proves each at once, while it is in cache. It reports whether it copied
// anything.
func (d *decode) pull() bool {
	budget := pullIdle
	if _, _, running := d.line.Lens(); running > 0 {
		budget = pullBusy
	}
	pulled := false
	for _, t := range d.held {
		if t.reservation == nil {
			continue
		}
		for page, ok := t.room.Next(); ok && budget > 0; page, ok = t.room.Next() {
			d.land(t, page)
			budget -= d.p.cfg.Layout.PageBytes()
			pulled = true
		}
		d.settle(t)
	}
	return pulled
}

// land copies one page and proves it. No landing outlives this call, so nothing is ever left to be fenced later.
func (d *decode) land(t *target, page int) {
	must(t.room.Pulling(page))
	l := t.reservation.Land(page)
	if err := d.p.link.Copy(t.room.Room(), page, l.Bytes()); err != nil {
		l.Fence()
		t.room.Stop()
		must(t.room.Fenced(page))
		d.p.fail(t.job, err)
		return
	}
	if v := l.Prove(); v != nil {
		must(t.room.Failed(page))
		d.settle(t) // prefill hears of it before the client, so that it looks at the source before anybody comes again
		d.p.violated(t.job, Decode, "landing", v)
		return
	}
	must(t.room.Proven(page))
	t.pulled++
}

// must is for events that the loop itself has just made possible.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// tell keeps the books for Snapshot.
func (d *decode) tell() {
	n := d.p.count
	n.pool(Decode, d.pool.Stats())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decoding.line, n.decoding.landing, n.decoding.running = d.line.Lens()
}

// deadline is the earliest of all requests that the loop holds.
func (d *decode) deadline() (at time.Time) {
	for _, t := range d.held {
		at = earlier(at, t.job.req.Deadline)
	}
	return at
}

// batch is what one step needs, kept so that a step allocates nothing.
type batch struct {
	targets []*target
	work    []engine.Work
	results []engine.Result
	tenants []string
	events  []drawn
}
