package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// admit lets requests into the line when their pages have come near enough, and gives pages to the head of the line as
// long as there are any. A request whose prefix is still being computed would hold its pages idle; what is missing when it
// enters is at most one chunk, so that copying and computing overlap and no more. One that prefill has not begun stays
// outside: nobody knows when it will, and the line waits for its head (see package sched).
func (d *DecodeWorker) admit() {
	near := d.cfg.Layout.Pages(d.cfg.Limits.Chunk)
	for ticket, t := range d.held {
		if !t.lined && t.room.Begun() && t.room.Missing() <= near && t.room.Outcome() == handoff.Pending && !t.room.Fencing() {
			t.lined = true
			d.line.Offer(ticket, bulkhead.Tokens(len(t.prefix)))
		}
	}
	for {
		ticket, ok := d.line.Next(d.pool.Free())
		if !ok {
			d.tooLarge()
			return
		}
		if t := d.held[ticket]; !d.reserve(t) {
			return
		}
	}
}

// reserve gives pages to the head of the line, to be written by the carrier or computed.
func (d *DecodeWorker) reserve(t *target) bool {
	if t.again {
		return d.beginAgain(t)
	}
	r, ok := d.pool.Reserve(d.keys.of(t.job.req.Tenant), t.prefix)
	if !ok {
		return false
	}
	t.reservation, t.began = r, time.Now()
	d.line.Reserved(t.job.ticket)
	if err := t.room.Reserved(r.Have); err != nil {
		d.fail(t.job, err)
		t.room.Stop()
	}
	d.settle(t)
	return true
}

// settle does what a room's end calls for, if it has ended: commit or abandon, and tell prefill.
func (d *DecodeWorker) settle(t *target) {
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
		d.sample(t.job)
		d.line.Landed(t.job.ticket)
		bytes := int64(t.pulled) * int64(d.cfg.Layout.PageBytes())
		d.count.add(func(c *Counters) { c.HandoffPages += uint64(t.pulled); c.HandoffBytes += uint64(bytes) })
		d.cfg.Observer.Handoff(t.pulled, bytes, time.Since(t.began))
	case handoff.Abandoned:
		if t.reservation != nil {
			t.reservation.Abandon()
			t.reservation = nil
		}
		defer d.forget(t)
	}
	delete(d.rooms, t.room.Room())
	d.in.End(m)
}

// Bytes that are pulled at once. A carrier within the process copies in the loop's own time: between two steps, while
// requests run, so little that a long prefix does not hold up their tokens. Other carriers copy in their own, and what is
// bounded is how much of the pool they may be writing into.
const (
	pullBusy = 4 << 20
	pullIdle = 64 << 20
)

// pull asks for pages that prefill has published, and takes those that are there at once. It reports whether it asked for
// anything.
func (d *DecodeWorker) pull() bool {
	budget := pullIdle
	if _, _, _, running := d.line.Lens(); running > 0 {
		budget = d.busy
	}
	budget -= d.inFlight
	pulled := false
	for _, t := range d.held {
		if t.reservation == nil {
			continue
		}
		for page, ok := t.room.Next(); ok && budget > 0; page, ok = t.room.Next() {
			d.land(t, page)
			budget -= d.cfg.Layout.PageBytes()
			pulled = true
		}
	}
	if pulled {
		d.receive()
	}
	return pulled
}

// land opens a write into a page and asks for what is to be written.
func (d *DecodeWorker) land(t *target, page int) {
	must(t.room.Pulling(page))
	l := t.reservation.Land(page)
	t.landings[page] = l
	d.inFlight += d.cfg.Layout.PageBytes()
	d.in.Pull(t.room.Room(), page, l)
}

// arrived closes the write into a page, of which the carrier has said that it writes no more: with a proof, or with a fence
// where the page did not come or the room was stopped meanwhile.
func (d *DecodeWorker) arrived(t *target, a handoff.Arrival) {
	l := t.landings[a.Page]
	if l == nil {
		return // a carrier that counts wrongly closes nothing that is open
	}
	delete(t.landings, a.Page)
	d.inFlight -= d.cfg.Layout.PageBytes()
	if a.Err != nil {
		t.room.Stop()
		d.fail(t.job, a.Err)
	}
	if t.room.Fencing() {
		l.Fence()
		must(t.room.Fenced(a.Page))
		d.settle(t)
		return
	}
	v := l.Prove()
	if v == nil {
		must(t.room.Proven(a.Page))
		t.pulled++
		d.settle(t)
		return
	}
	must(t.room.Failed(a.Page))
	d.settle(t) // prefill hears of it before the client, so that it looks at the source before anybody comes again
	d.violated(t.job, "landing", v)
}

// must is for events that the loop itself has just made possible.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
