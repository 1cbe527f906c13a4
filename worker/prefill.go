package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// PrefillWorker is a prefill worker: alone, or one half of a [Pair]. Its methods are for concurrent use.
//
// One goroutine runs, which owns the pool. A turn of it: take what the outlet has brought, let go of what is over, begin
// what fits, compute one chunk, publish what it sealed. Waiting requests are bounded by Limits.Queue and those that have
// pages by Limits.Running.
type PrefillWorker struct {
	core
	out  handoff.Outlet
	full sched.Ticket // does not fit, and nothing was released since; the loop's

	work    sync.Mutex // guards what follows; core.mu may be held when it is taken, and not the other way round
	queue   *sched.Prefill
	sources map[bulkhead.Room]*source // all requests that are held
	byJob   map[sched.Ticket]*source  // the same
}

// source is one request in prefill. Its room is open from Submit on; it has pages from when it begins.
type source struct {
	job    *job
	prefix []bulkhead.Token
	room   *handoff.Source
	seq    *kv.Sequence // nil while it waits
	sealed int          // pages that were published, -1 before the first offer
	whole  time.Time    // when the last of them was, while nobody was seen to have entered; zero: not yet, or somebody has
}

// NewPrefill makes the pool and starts the loop. It refuses limits that contradict each other, among them a window that
// does not fit the prefill pool.
func NewPrefill(cfg Config, out handoff.Outlet) (*PrefillWorker, error) {
	if err := cfg.check(bulkhead.RolePrefill); err != nil {
		return nil, err
	}
	f, err := newPrefill(cfg, out, newTurn())
	if err != nil {
		return nil, err
	}
	f.start(f.loop)
	return f, nil
}

// newPrefill makes a worker whose loop does not run yet.
func newPrefill(cfg Config, out handoff.Outlet, t turn) (*PrefillWorker, error) {
	f := &PrefillWorker{out: out, queue: sched.NewPrefill(cfg.Limits),
		sources: make(map[bulkhead.Room]*source), byJob: make(map[sched.Ticket]*source)}
	if err := f.set(cfg, Prefill, t); err != nil {
		return nil, err
	}
	out.Notify(f.bell.ring)
	return f, nil
}

// Submit takes an order, or refuses it. The stream has no tokens and exactly one End: HandedOver when decode has proven every
// page, else Refused, Violated, Aborted (the client, or decode's, left) or Failed.
func (f *PrefillWorker) Submit(o Order) (*Stream, *bulkhead.Refusal) { return f.take(o, new(cached)) }

func (f *PrefillWorker) take(o Order, c *cached) (*Stream, *bulkhead.Refusal) {
	r := o.Request.Request()
	claim := f.claims.of(&r, o.Room)
	return f.submit(o, c, func(j *job) *bulkhead.Refusal {
		f.work.Lock()
		defer f.work.Unlock()
		prefix := j.prefix()
		entry := sched.Job{Ticket: j.ticket, Tenant: j.req.Tenant.Name, Tokens: bulkhead.Tokens(len(prefix)), Deadline: j.req.Deadline}
		if r := f.queue.Submit(entry, j.arrived); r != nil {
			return r
		}
		s := &source{job: j, prefix: prefix, sealed: -1,
			room: handoff.NewSource(j.room, f.cfg.Layout.Pages(bulkhead.Tokens(len(prefix))))}
		f.sources[j.room], f.byJob[j.ticket] = s, s
		f.out.Open(j.room, o.Peer, claim) // before the loop can say anything of it
		return nil
	})
}

// bill is what decode has computed for a tenant.
type bill struct {
	tenant string
	tokens bulkhead.Tokens
}

// charge puts what decode computed on the tenants' accounts. Only a pair's can: apart, prefill does not see it.
func (f *PrefillWorker) charge(bills []bill) {
	f.work.Lock()
	defer f.work.Unlock()
	for _, b := range bills {
		f.queue.Charge(b.tenant, b.tokens)
	}
}

// loop runs until ctx is done and nothing is held any more.
func (f *PrefillWorker) loop(ctx context.Context) {
	for {
		now := time.Now()
		f.answer()
		f.receive()
		f.letGo(now)
		f.begin()
		worked := f.step()
		f.count.books(f.pool.Stats())
		if worked {
			continue
		}
		if ctx.Err() != nil && f.empty() {
			return
		}
		f.bell.wait(f.deadline())
	}
}

func (f *PrefillWorker) empty() bool {
	f.work.Lock()
	defer f.work.Unlock()
	return len(f.sources) == 0
}

// receive takes the ends that decode has sent, and those that the carrier has noticed.
func (f *PrefillWorker) receive() {
	for _, m := range f.out.Receive() {
		f.work.Lock()
		s := f.sources[m.Room]
		f.work.Unlock()
		if s == nil {
			continue // retired before anything was offered
		}
		if err := s.room.Receive(m); err != nil {
			f.fail(s.job, err)
			continue
		}
		f.conclude(s, m)
		f.release(s)
	}
}

// conclude ends a request whose room is over.
func (f *PrefillWorker) conclude(s *source, m handoff.Message) {
	switch {
	case m.Kind == handoff.Commit:
		f.end(s.job, bulkhead.End{Reason: bulkhead.HandedOver})
	case m.Kind == handoff.Lost:
		f.fail(s.job, fmt.Errorf("%w: %s", handoff.ErrLost, m.Text))
	case m.Page < 0:
		f.end(s.job, bulkhead.End{Reason: bulkhead.Aborted}) // decode has let go: its client left, or it has ended for a reason of its own
	default:
		f.suspect(s, m.Page)
	}
}

// suspect looks at a page whose copy decode could not prove. If it is damaged here it must not be handed over again.
func (f *PrefillWorker) suspect(s *source, page int) {
	if s.seq != nil && page < s.sealed && !s.seq.Dead() {
		if v := s.seq.Resum(page); v != nil {
			f.violated(s.job, "source of a page that was not proven", v)
			return
		}
	}
	f.end(s.job, bulkhead.End{Reason: bulkhead.Failed, Err: fmt.Errorf("decode could not prove page %d, and it is not damaged here", page)})
}

// all are the requests that are held.
func (f *PrefillWorker) all() []*source {
	f.work.Lock()
	defer f.work.Unlock()
	out := make([]*source, 0, len(f.sources))
	for _, s := range f.sources {
		out = append(out, s)
	}
	return out
}

// letGo stops what has ended, and what nobody comes for. Rooms that decode may know of wait for its answer: it may be reading.
func (f *PrefillWorker) letGo(now time.Time) {
	for _, s := range f.all() {
		f.expect(s, now)
		if f.over(s.job, now) {
			f.halt(s)
		}
	}
}

// expect fails a request that is computed and that no decode worker has asked for in time. Where one comes in this very
// moment it is told, and its answer waited for: the time frees nothing by itself.
func (f *PrefillWorker) expect(s *source, now time.Time) {
	if s.whole.IsZero() || now.Before(s.whole.Add(f.cfg.Limits.HandoffTimeout)) {
		return
	}
	if s.whole = (time.Time{}); !f.out.Entered(s.job.room) {
		f.fail(s.job, fmt.Errorf("%w: no decode worker asked for the pages within %v of their being computed (--handoff-timeout)",
			handoff.ErrLost, f.cfg.Limits.HandoffTimeout))
	}
}

// halt ends the computing of a request that has ended and tells decode why.
func (f *PrefillWorker) halt(s *source) {
	m, first := s.room.Stop()
	if !first {
		return
	}
	f.unqueue(s.job)
	s.whole = time.Time{}
	m.Why = s.job.stream.why()
	f.out.Stop(m)
	if s.room.Retired() {
		f.release(s)
	}
}

// release unpins the pages of a retired room.
func (f *PrefillWorker) release(s *source) {
	f.unqueue(s.job)
	if s.seq != nil {
		s.seq.Release()
	}
	f.out.Close(s.job.room)
	f.work.Lock()
	delete(f.sources, s.job.room)
	delete(f.byJob, s.job.ticket)
	f.work.Unlock()
	f.full = 0
	f.leave(s.job)
}

// unqueue takes the request out of the scheduler.
func (f *PrefillWorker) unqueue(j *job) {
	f.work.Lock()
	defer f.work.Unlock()
	f.queue.Close(j.ticket)
}

// deadline is the earliest moment at which the loop has to end something.
func (f *PrefillWorker) deadline() (d time.Time) {
	for _, s := range f.all() {
		if !s.room.Publishing() {
			continue
		}
		d = earlier(d, s.job.req.Deadline)
		if !s.whole.IsZero() {
			d = earlier(d, s.whole.Add(f.cfg.Limits.HandoffTimeout))
		}
	}
	return d
}

// earlier is the earlier of two deadlines, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Snapshot is the state of the worker now, its pool as it was after the loop's last turn.
func (f *PrefillWorker) Snapshot() Snapshot {
	s := Snapshot{Limits: f.Limits(), Draining: f.isDraining(), Prefill: f.count.use(f.cfg.Limits.PageTokens), Counters: f.count.copy()}
	f.work.Lock()
	defer f.work.Unlock()
	s.Waiting, s.WaitingTenant = f.queue.Waiting(), f.queue.WaitingByTenant()
	s.Prefilling, s.HandingOver = f.queue.Computing()
	return s
}
