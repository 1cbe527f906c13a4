package tcp

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// read takes frames until the connection ends.
func (l *link) read() error {
	for {
		f, err := l.conn.rd.Next()
		if err != nil {
			return err
		}
		mine, err := l.conn.aside(f)
		if err == nil && !mine {
			err = l.handle(f)
		}
		if err != nil {
			return err
		}
	}
}

func (l *link) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TypePage:
		p, err := wire.ParsePage(f)
		if err != nil {
			return err
		}
		return l.page(f.Room, p)
	case wire.TypeOffer:
		pages, err := wire.ParseOffer(f)
		if err != nil {
			return err
		}
		return l.offer(f.Room, pages)
	case wire.TypeStop:
		why, err := wire.ParseStop(f)
		if err != nil {
			return err
		}
		return l.stop(f.Room, why)
	case wire.TypeDone:
		return l.done(f.Room)
	}
	return unexpected(f)
}

// room is the room that a frame is about. The lock is held.
func (l *link) room(t wire.Type, id bulkhead.Room) (*entered, error) {
	r := l.rooms[id]
	if r == nil {
		return nil, wire.Errorf(wire.CodeProtocol, "%v of room %v, which was not entered", t, id)
	}
	return r, nil
}

func (l *link) offer(id bulkhead.Room, pages int) error {
	in := l.in
	defer in.wake()
	in.mu.Lock()
	defer in.mu.Unlock()
	r, err := l.room(wire.TypeOffer, id)
	switch {
	case err != nil:
		return err
	case pages < r.offered || r.stopped:
		return wire.Errorf(wire.CodeProtocol, "OFFER of %d pages of room %v after %d (stopped: %v)", pages, id, r.offered, r.stopped)
	}
	r.offered = pages
	if !r.ended.IsZero() {
		return nil // the two have crossed
	}
	for i, m := range in.inbox { // a newer offer takes the place of one that nobody has seen
		if m.Room == id && m.Kind == handoff.Offer {
			in.inbox[i].Pages = pages
			return nil
		}
	}
	in.inbox = append(in.inbox, handoff.Message{Room: id, Kind: handoff.Offer, Pages: pages})
	return nil
}

func (l *link) stop(id bulkhead.Room, why *bulkhead.End) error {
	in := l.in
	defer in.wake()
	in.mu.Lock()
	defer in.mu.Unlock()
	r, err := l.room(wire.TypeStop, id)
	switch {
	case err != nil:
		return err
	case r.stopped:
		return wire.Errorf(wire.CodeProtocol, "STOP of room %v for the second time", id)
	}
	r.stopped = true
	if r.ended.IsZero() {
		in.inbox = append(in.inbox, handoff.Message{Room: id, Kind: handoff.Stop, Why: why})
	}
	return nil
}

func (l *link) done(id bulkhead.Room) error {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	r, err := l.room(wire.TypeDone, id)
	switch {
	case err != nil:
		return err
	case r.ended.IsZero():
		return wire.Errorf(wire.CodeProtocol, "DONE of room %v, which has not ended", id)
	}
	delete(l.rooms, id)
	return nil
}

// page takes the page whose turn it is: from the socket, or the ring, straight into its landing, and sums it while it is in
// cache.
func (l *link) page(id bulkhead.Room, p wire.Page) error {
	in := l.in
	in.mu.Lock()
	var x *pull
	if l.sent.len() > 0 {
		x = l.sent.front()
	}
	in.mu.Unlock()
	switch {
	case x == nil:
		return wire.Errorf(wire.CodeProtocol, "page %d of room %v, and none was pulled", p.Page, id)
	case x.room.id != id || x.page != p.Page:
		return wire.Errorf(wire.CodeProtocol, "page %d of room %v, and page %d of room %v was pulled before it", p.Page, id, x.page, x.room.id)
	case p.Bytes != len(x.dst):
		return wire.Errorf(wire.CodeProtocol, "page %d of room %v has %d bytes, must have %d", p.Page, id, p.Bytes, len(x.dst))
	}
	if err := l.fill(x, p); err != nil {
		return err
	}
	in.mu.Lock()
	l.arrived(x, p)
	in.mu.Unlock()
	in.wake()
	return nil
}

// arrived hands a page over. The lock is held.
func (l *link) arrived(x *pull, p wire.Page) {
	in := l.in
	l.sent.pop()
	l.flight -= int64(len(x.dst))
	l.turn = time.Now()
	x.room.open--
	in.arrivals = append(in.arrivals, handoff.Arrival{Room: x.room.id, Page: x.page})
	in.tally.page(len(x.dst), p.Ring, true)
	l.wakeToAsk()
}

// lowWater is how many bytes on their way are enough for now: with so many, pulls and slots are gathered, and asked for and
// given back together. Pages come in order, so one that is asked for later does not come later.
const lowWater = 4 << 20

// wakeToAsk wakes the writer where the source would soon have nothing to send, or no slot to put it. The lock is held.
func (l *link) wakeToAsk() {
	few := l.flight < lowWater && l.pulls.len() > 0
	if few || l.ring != nil && len(l.credits) > l.ring.slots/4 {
		l.conn.wake()
	}
}

// piece is how much of a page is copied out of the ring before it is examined: little enough to be still in the second cache,
// where it is summed for much less than from the third. A socket gives whole pages faster than pieces.
const piece = 128 << 10

// fill writes the page's bytes and examines them.
func (l *link) fill(x *pull, p wire.Page) error {
	if !p.Ring {
		if err := l.conn.receive(x.dst); err != nil {
			return err
		}
		x.landing.Examine(len(x.dst))
		return nil
	}
	if l.ring == nil {
		return wire.Errorf(wire.CodeProtocol, "a page by shared memory, and there is none")
	}
	slot, err := l.ring.at(p.Offset)
	if err != nil {
		return err
	}
	src := l.ring.slot(slot)
	for at := 0; at < len(x.dst); at += piece {
		end := min(at+piece, len(x.dst))
		copy(x.dst[at:end], src[at:end])
		x.landing.Examine(end)
	}
	l.in.mu.Lock()
	l.credits = append(l.credits, slot)
	l.in.mu.Unlock()
	return nil
}

// next is what to write now: control frames, slots given back, and as many pulls as may be in flight.
func (l *link) next() [][]byte {
	c := l.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return nil
	}
	for _, slot := range l.credits {
		c.out = wire.AppendCredit(c.out, slot)
	}
	l.credits = l.credits[:0]
	for l.ask() {
	}
	c.iov = c.iov[:0]
	if out := c.take(); len(out) > 0 {
		c.iov = append(c.iov, out)
	}
	return c.iov
}

// ask makes one PULL of the next run of pages, if any may be asked for. The lock is held.
func (l *link) ask() bool {
	c := l.conn
	var first *pull
	n := 0
	for l.pulls.len() > 0 && n < c.limits.PullRun && l.sent.len() < c.limits.Pulls {
		x := l.pulls.front()
		if l.flight+int64(len(x.dst)) > c.limits.InFlight || n > 0 && (x.room != first.room || x.page != first.page+n) {
			break
		}
		if n++; n == 1 {
			first = x
		}
		if l.sent.len() == 0 {
			l.turn = time.Now()
		}
		l.pulls.pop()
		l.sent.push(x)
		l.flight += int64(len(x.dst))
		l.in.tally.InFlight += int64(len(x.dst))
	}
	if n == 0 {
		return false
	}
	c.out = wire.AppendPull(c.out, first.room.id, first.page, n)
	return true
}

// tick closes the connection to a source that stalls. The lock is held.
func (l *link) tick(now time.Time) {
	stall := l.conn.limits.StallTimeout
	if l.sent.len() > 0 && now.Sub(l.turn) > stall {
		x := l.sent.front()
		l.conn.fail(wire.Errorf(wire.CodeTimeout, "page %d of room %v was pulled and did not come within %v (StallTimeout)", x.page, x.room.id, stall))
	}
	for id, r := range l.rooms {
		if !r.ended.IsZero() && now.Sub(r.ended) > stall {
			l.conn.fail(wire.Errorf(wire.CodeTimeout, "the end of room %v was not answered within %v (StallTimeout)", id, stall))
		}
	}
}
