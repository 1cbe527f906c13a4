package worker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
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
		if m.Kind == handoff.Abandon && m.Page >= 0 && !s.seq.Dead() {
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

// begin gives pages to the requests whose turn it is, as long as there are pages.
func (f *prefill) begin() {
	for {
		f.mu.Lock()
		next, ok := f.queue.Next()
		j := f.waiting[next.Ticket]
		f.mu.Unlock()
		if !ok || next.Ticket == f.full || !f.beginOne(j) {
			return
		}
	}
}

// beginOne opens the request's room. False where its pages do not fit now.
func (f *prefill) beginOne(j *job) bool {
	prefix := j.prefix()
	seq := f.pool.Begin(f.keys.of(j.req.Tenant), prefix)
	if !f.pool.Grow(seq, bulkhead.Tokens(len(prefix))) {
		seq.Release()
		f.full = j.ticket
		if st := f.pool.Stats(); st.Idle() { // as empty as it gets: pages were set aside
			f.p.fail(j, fmt.Errorf("the prefill pool no longer holds %d tokens: %d of its pages are set aside", len(prefix), st.SetAside))
		}
		return false
	}
	cached := seq.Len()
	if !j.begun {
		j.begun = true
		j.stream.setCached(cached)
		f.p.count.add(func(c *Counters) { c.CachedTokens += uint64(cached) })
		f.p.cfg.Observer.Queued(j.req.Tenant.Name, time.Since(j.arrived))
	}
	s := &source{job: j, prefix: prefix, seq: seq, room: handoff.NewSource(newRoom(), f.p.cfg.Layout.Pages(bulkhead.Tokens(len(prefix)))), sealed: -1}
	f.rooms[s.room.Room()], f.byJob[j.ticket] = s, s
	f.mu.Lock()
	delete(f.waiting, j.ticket)
	f.queue.Begun(j.ticket, cached)
	f.mu.Unlock()
	f.p.link.Open(s.room.Room())
	f.p.decode.enter(j, s.room.Room(), prefix)
	f.publish(s)
	return true
}

// newRoom mints a room.
func newRoom() bulkhead.Room {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails: see crypto/rand
		if r := bulkhead.Room(binary.LittleEndian.Uint64(b[:]) >> 1); r != 0 {
			return r
		}
	}
}

// publish offers the pages that have been sealed since the last offer: full ones, and the last when the prefix is complete.
func (f *prefill) publish(s *source) {
	n := int(s.seq.Len()) / f.p.cfg.Layout.PageTokens
	if int(s.seq.Len()) == len(s.prefix) {
		n = f.p.cfg.Layout.Pages(s.seq.Len())
	}
	if n == s.sealed {
		return
	}
	m, err := s.room.Sealed(n)
	if err != nil {
		f.p.fail(s.job, err)
		f.stop(s)
		return
	}
	s.sealed = n
	f.p.link.Publish(m, s.seq.Pages()[:n])
}

// step computes one chunk. False where there is nothing to compute.
func (f *prefill) step() bool {
	f.mu.Lock()
	shares := f.queue.Step()
	f.mu.Unlock()
	if len(shares) == 0 {
		return false
	}
	sources := make([]*source, len(shares))
	work := make([]engine.Work, len(shares))
	rows := 0
	for i, sh := range shares {
		s := f.byJob[sh.Ticket]
		at := s.seq.Len()
		sources[i], work[i] = s, engine.Work{Seq: s.seq, Tokens: s.prefix[at : at+sh.Tokens]}
		rows += int(sh.Tokens)
	}
	results := make([]engine.Result, len(work))
	f.p.turn.take()
	start := time.Now()
	f.p.cfg.Runner.Step(work, results)
	took := time.Since(start)
	f.p.turn.pass()
	f.p.cfg.Observer.Step(Prefill, rows, took)
	f.p.count.add(func(c *Counters) { c.PrefillSteps++; c.PrefillRows += uint64(rows) })
	for i, s := range sources {
		if v := results[i].Violation; v != nil {
			f.p.violated(s.job, Prefill, "prefill step", v)
			f.stop(s)
			continue
		}
		f.publish(s)
	}
	return true
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
