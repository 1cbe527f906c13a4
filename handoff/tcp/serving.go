package tcp

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// serving is the source's end of one connection.
type serving struct {
	*conn
	o *Outlet

	// Guarded by the outlet's lock.
	entries map[bulkhead.Room]*entry
	offers  []*entry    // whose target is to be told of more pages
	sends   queue[send] // pages that were pulled, in order
	flight  int64       // bytes that were pulled and have not gone out
	pulls   int         // pages
	ring    *ring       // nil: pages go by the stream

	hand []send // the writer's: what it is writing
	head []byte // the writer's: the frames in front of pages
}

// send is one page to be sent.
type send struct {
	e    *entry
	page int
	data []byte
	slot int // of the ring, or -1
}

func newServing(o *Outlet, c *conn) *serving {
	return &serving{conn: c, o: o, entries: map[bulkhead.Room]*entry{}}
}

// read takes frames until the connection ends.
func (s *serving) read() error {
	for {
		f, err := s.rd.Next()
		if err != nil {
			return err
		}
		mine, err := s.aside(f)
		if err == nil && !mine {
			err = s.handle(f)
		}
		if err != nil {
			return err
		}
	}
}

// handle handles a frame about a room or the ring.
func (s *serving) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TypeEnter:
		claim, err := wire.ParseEnter(f)
		if err != nil {
			return err
		}
		return s.enter(f.Room, claim)
	case wire.TypePull:
		first, count, err := wire.ParsePull(f)
		if err != nil {
			return err
		}
		return s.pull(f.Room, first, count)
	case wire.TypeCommit:
		return s.end(handoff.Message{Room: f.Room, Kind: handoff.Commit})
	case wire.TypeAbandon:
		page, err := wire.ParseAbandon(f)
		if err != nil {
			return err
		}
		return s.end(handoff.Message{Room: f.Room, Kind: handoff.Abandon, Page: page})
	case wire.TypeRing:
		g, err := wire.ParseRing(f)
		if err != nil {
			return err
		}
		return s.useRing(g)
	case wire.TypeCredit:
		slot, err := wire.ParseCredit(f)
		if err != nil {
			return err
		}
		return s.credit(slot)
	}
	return unexpected(f)
}

func (s *serving) enter(id bulkhead.Room, claim handoff.Claim) error {
	o := s.o
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case s.entries[id] != nil:
		return wire.Errorf(wire.CodeProtocol, "ENTER of room %v for the second time", id)
	case len(s.entries) >= s.limits.ConnRooms:
		return wire.Errorf(wire.CodeLimit, "ENTER of more than %d rooms over one connection (ConnRooms)", s.limits.ConnRooms)
	}
	e := &entry{s: s, id: id, claim: claim}
	s.entries[id] = e
	if r := o.admitting(e); r != nil {
		o.bind(r, e)
		return nil
	}
	o.await(e)
	if n := o.waitingRooms(); n > o.cfg.Limits.Rooms {
		o.unwait(e)
		o.tally.Denied++
		e.stop(&bulkhead.End{Reason: bulkhead.Refused, Refusal: bulkhead.Refuse(bulkhead.CodeBusy, "",
			"%d rooms that were not opened are waited for at the prefill worker, which is its limit; try again", n-1)})
	}
	return nil
}

// admitting is the room that an ENTER is entitled to, open or stopped already.
func (o *Outlet) admitting(e *entry) *room {
	nobodys := &room{} // so that a name that is not known takes as long as a claim that is wrong
	r := o.rooms[e.id]
	if r == nil {
		for i := range o.stopped.len() {
			if t := o.stopped.at(i).room; t.id == e.id {
				r = t
			}
		}
	}
	if r == nil {
		r = nobodys
	}
	// A room that has ended without anybody in it is entered to hear why, which only a Stop says.
	if r.admits(e) && r != nobodys && (!r.ended || r.stop != nil) {
		return r
	}
	return nil
}

func (o *Outlet) waitingRooms() (n int) {
	for _, w := range o.waiting {
		n += len(w)
	}
	return n
}

func (s *serving) pull(id bulkhead.Room, first, count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, bytes := s.entries[id], int64(count)*int64(s.mine.PageBytes)
	l := s.limits
	switch {
	case e == nil || e.ending != nil:
		return wire.Errorf(wire.CodeProtocol, "PULL of room %v, which was not entered or has ended", id)
	case count > l.PullRun:
		return wire.Errorf(wire.CodeLimit, "PULL of %d pages, at most %d (PullRun)", count, l.PullRun)
	case s.pulls+count > l.Pulls:
		return wire.Errorf(wire.CodeLimit, "%d pages are pulled and have not gone out, at most %d (Pulls)", s.pulls+count, l.Pulls)
	case s.flight+bytes > l.InFlight:
		return wire.Errorf(wire.CodeLimit, "%d bytes are pulled and have not gone out, at most %d (InFlight)", s.flight+bytes, l.InFlight)
	}
	if err := e.pull(first, count); err != nil {
		return err
	}
	s.pulls, s.flight = s.pulls+count, s.flight+bytes
	s.o.tally.InFlight += bytes
	for i := first; i < first+count; i++ {
		s.sends.push(send{e: e, page: i, data: e.room.pages[i], slot: -1})
	}
	s.wake()
	return nil
}

// end takes a COMMIT or an ABANDON.
func (s *serving) end(m handoff.Message) error {
	defer s.o.wake()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[m.Room]
	if e == nil || e.ending != nil {
		return wire.Errorf(wire.CodeProtocol, "%v of room %v, which was not entered or has ended", m.Kind, m.Room)
	}
	return e.end(m)
}

// tick closes the connection of a target that does not answer a Stop. The lock is held.
func (s *serving) tick(now time.Time) {
	for id, e := range s.entries {
		if !e.stopped.IsZero() && e.ending == nil && now.Sub(e.stopped) > s.limits.AnswerTimeout {
			s.fail(wire.Errorf(wire.CodeTimeout, "room %v was stopped and not ended within %v (AnswerTimeout)", id, s.limits.AnswerTimeout))
		}
	}
}

// finish gives up what a connection had. Both of its goroutines have returned: nobody reads its rooms' pages any more.
func (o *Outlet) finish(s *serving, why *wire.Error) {
	defer o.wake()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, s)
	o.tally.Closed[why.Code]++
	o.tally.InFlight -= s.flight
	for _, e := range s.entries {
		o.unwait(e)
		switch {
		case e.room == nil:
		case e.ending != nil:
			o.end(e.room, *e.ending)
		default:
			o.lose(e.room, why.Error())
		}
	}
	o.log.Info("handoff: a target's connection has ended", "peer", s.peer.Name, "rooms", len(s.entries), "cause", why.Code.String(), "err", why)
}
