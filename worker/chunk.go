package worker

import (
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// begin gives pages to the requests whose turn it is, as long as there are pages.
func (f *PrefillWorker) begin() {
	for {
		f.work.Lock()
		next, ok := f.queue.Next()
		s := f.byJob[next.Ticket]
		f.work.Unlock()
		if !ok || next.Ticket == f.full || !f.beginOne(s) {
			return
		}
	}
}

// beginOne gives a request its pages and makes the first offer, by which decode learns that it has begun. False where its
// pages do not fit now.
func (f *PrefillWorker) beginOne(s *source) bool {
	j := s.job
	seq := f.pool.Begin(f.keys.of(j.req.Tenant), s.prefix)
	if !f.pool.Grow(seq, bulkhead.Tokens(len(s.prefix))) {
		seq.Release()
		f.full = j.ticket
		if st := f.pool.Stats(); st.Idle() { // as empty as it gets: pages were set aside
			f.fail(j, fmt.Errorf("the prefill pool no longer holds %d tokens: %d of its pages are set aside", len(s.prefix), st.SetAside))
		}
		return false
	}
	found := seq.Len()
	s.seq = seq
	j.stream.cached.n.Store(int64(found))
	f.count.add(func(c *Counters) { c.CachedTokens += uint64(found) })
	f.cfg.Observer.Queued(j.req.Tenant.Name, time.Since(j.arrived))
	f.work.Lock()
	f.queue.Begun(j.ticket, found)
	f.work.Unlock()
	f.publish(s)
	return true
}

// publish offers the pages that have been sealed since the last offer: full ones, and the last when the prefix is complete.
func (f *PrefillWorker) publish(s *source) {
	n := int(s.seq.Len()) / f.cfg.Layout.PageTokens
	if int(s.seq.Len()) == len(s.prefix) {
		n = f.cfg.Layout.Pages(s.seq.Len())
		s.whole = time.Now()
	}
	if n == s.sealed {
		return
	}
	m, err := s.room.Sealed(n)
	if err != nil {
		f.fail(s.job, err)
		f.halt(s)
		return
	}
	s.sealed = n
	f.out.Publish(m, s.seq.Pages()[:n])
}

// step computes one chunk. False where there is nothing to compute.
func (f *PrefillWorker) step() bool {
	f.work.Lock()
	shares := f.queue.Step()
	f.work.Unlock()
	if len(shares) == 0 {
		return false
	}
	sources := make([]*source, len(shares))
	work := make([]engine.Work, len(shares))
	before := make([]bulkhead.Tokens, len(shares))
	rows := 0
	for i, sh := range shares {
		s := f.byTicket(sh.Ticket)
		at := s.seq.Len()
		sources[i], work[i], before[i] = s, engine.Work{Seq: s.seq, Tokens: s.prefix[at : at+sh.Tokens]}, at
		rows += int(sh.Tokens)
	}
	results := make([]engine.Result, len(work))
	f.turn.take()
	start := time.Now()
	f.cfg.Runner.Step(work, results)
	took := time.Since(start)
	f.turn.pass()
	f.cfg.Observer.Step(Prefill, rows, took)
	f.count.add(func(c *Counters) { c.PrefillSteps++; c.PrefillRows += uint64(rows) })
	for i, s := range sources {
		ran(&work[i], before[i], &results[i])
		if v := results[i].Violation; v != nil {
			f.violated(s.job, "prefill step", v)
			f.halt(s)
			continue
		}
		f.publish(s)
	}
	return true
}

func (f *PrefillWorker) byTicket(t sched.Ticket) *source {
	f.work.Lock()
	defer f.work.Unlock()
	return f.byJob[t]
}
