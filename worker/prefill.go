package worker

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// prefill is the loop of the prefill worker. A turn of it: take what decode has sent, let go of what is over, begin what
// fits, compute one chunk, publish what it sealed.
type prefill struct {
	p    *Pair
	bell bell
	done chan struct{} // closed when the loop has ended

	// Owned by the loop.
	pool  *kv.Pool
	keys  *keys
	rooms map[bulkhead.Room]*source
	byJob map[sched.Ticket]*source // those that are computed
	full  sched.Ticket             // does not fit, and nothing was released since

	mu      sync.Mutex
	queue   *sched.Prefill
	waiting map[sched.Ticket]*job
	setBack []*job // by decode, not queued yet
}

// source is one request with pages in the prefill pool.
type source struct {
	job    *job
	prefix []bulkhead.Token
	seq    *kv.Sequence
	room   *handoff.Source
	sealed int // pages that were published, -1 before the first offer
}

func newPrefill(p *Pair, pool *kv.Pool) *prefill {
	return &prefill{p: p, bell: newBell(), done: make(chan struct{}), pool: pool, keys: newKeys(&p.cfg),
		rooms: make(map[bulkhead.Room]*source), byJob: make(map[sched.Ticket]*source),
		queue: sched.NewPrefill(p.cfg.Limits), waiting: make(map[sched.Ticket]*job)}
}

// submit queues a new request. Anybody may call it.
func (f *prefill) submit(j *job) *bulkhead.Refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.queue.Submit(f.entry(j), j.arrived); r != nil {
		return r
	}
	f.waiting[j.ticket] = j
	return nil
}

func (f *prefill) entry(j *job) sched.Job {
	return sched.Job{Ticket: j.ticket, Tenant: j.req.Tenant.Name, Tokens: bulkhead.Tokens(len(j.tokens) - 1), Deadline: j.req.Deadline}
}

// takeBack gets a request that decode has set back. Decode has told the room's end before, so by the time that the loop
// queues it again its last room is closed.
func (f *prefill) takeBack(j *job) {
	f.mu.Lock()
	f.setBack = append(f.setBack, j)
	f.mu.Unlock()
	f.bell.ring()
}

// charge puts what decode computed on the tenants' accounts.
func (f *prefill) charge(tenants []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range tenants {
		f.queue.Charge(t, 1)
	}
}

// loop runs until ctx is done and nothing is held any more.
func (f *prefill) loop(ctx context.Context) {
	for {
		now := time.Now()
		f.receive()
		f.letGo(now)
		f.begin()
		worked := f.step()
		f.p.count.pool(Prefill, f.pool.Stats())
		if worked {
			continue
		}
		if ctx.Err() != nil && f.empty() {
			return
		}
		f.bell.wait(f.deadline())
	}
}

func (f *prefill) empty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rooms) == 0 && len(f.waiting) == 0 && len(f.setBack) == 0
}

// receive takes the ends that decode has sent, and then what it has set back: in this order, and the list of those first,
// because each was told after its room's end.
func (f *prefill) receive() {
	f.mu.Lock()
	back := f.setBack
	f.setBack = nil
	f.mu.Unlock()
	for _, m := range f.p.link.ForSource() {
		s := f.rooms[m.Room]
		if s == nil {
			continue // retired before anything was offered
		}
		if err := s.room.Receive(m); err != nil {
			f.p.fail(s.job, err)
			continue
		}
		if m.Kind == handoff.Abandon && m.Page >= 0 && m.Page < s.sealed && !s.seq.Dead() {
			f.suspect(s, m.Page)
		}
		f.release(s)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range back {
		f.queue.SetBack(f.entry(j))
		f.waiting[j.ticket] = j
	}
}

// suspect looks at a page whose copy decode could not prove. If it is damaged here it must not be handed over again.
func (f *prefill) suspect(s *source, page int) {
	if v := s.seq.Resum(page); v != nil {
		f.p.report(s.job, Prefill, "source of a page that was not proven", v)
	}
}

// letGo stops what has ended. Rooms that decode knows of wait for its answer: it may be reading.
func (f *prefill) letGo(now time.Time) {
	for _, s := range f.rooms {
		if f.p.over(s.job, now) {
			f.stop(s)
		}
	}
	for _, j := range f.expired(now) {
		f.p.refuse(j, sched.DeadlinePassed())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ticket, j := range f.waiting {
		if j.stream.isEnded() {
			f.queue.Close(ticket)
			delete(f.waiting, ticket)
		}
	}
}

// expired are the waiting requests whose deadline has passed.
func (f *prefill) expired(now time.Time) (out []*job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ticket := range f.queue.Expired(now) {
		out = append(out, f.waiting[ticket])
	}
	return out
}

// stop ends the computing of a request and tells decode.
func (f *prefill) stop(s *source) {
	m, first := s.room.Stop()
	if !first {
		return
	}
	f.close(s.job)
	f.p.link.Stop(m)
	if s.room.Retired() {
		f.release(s)
	}
}

// release unpins the pages of a retired room.
func (f *prefill) release(s *source) {
	f.close(s.job)
	s.seq.Release()
	f.p.link.Close(s.room.Room())
	delete(f.rooms, s.room.Room())
	f.full = 0
}

// close takes the request out of the scheduler.
func (f *prefill) close(j *job) {
	delete(f.byJob, j.ticket)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue.Close(j.ticket)
}

// deadline is the earliest of all requests that the loop could still end.
func (f *prefill) deadline() (d time.Time) {
	for _, s := range f.rooms {
		if s.room.Publishing() {
			d = earlier(d, s.job.req.Deadline)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.waiting {
		d = earlier(d, j.req.Deadline)
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

func (f *prefill) snapshot(s *Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Waiting, s.WaitingTenant = f.queue.Waiting(), f.queue.WaitingByTenant()
	s.Prefilling, s.HandingOver = f.queue.Computing()
}
