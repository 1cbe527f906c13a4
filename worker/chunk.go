package worker

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

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
	before := make([]bulkhead.Tokens, len(shares))
	rows := 0
	for i, sh := range shares {
		s := f.byJob[sh.Ticket]
		at := s.seq.Len()
		sources[i], work[i], before[i] = s, engine.Work{Seq: s.seq, Tokens: s.prefix[at : at+sh.Tokens]}, at
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
		ran(&work[i], before[i], &results[i])
		if v := results[i].Violation; v != nil {
			f.p.violated(s.job, Prefill, "prefill step", v)
			f.stop(s)
			continue
		}
		f.publish(s)
	}
	return true
}
