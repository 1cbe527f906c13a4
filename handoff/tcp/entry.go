package tcp

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// entry is one ENTER over one connection, until its end has been answered. What it may pull is what it was offered.
type entry struct {
	s     *serving
	id    bulkhead.Room
	claim handoff.Claim
	until time.Time // while it waits
	waits bool      // for its room to be opened
	room  *room     // bound to; nil while it waits and where it was denied

	offered  int      // pages that the target was told of
	offering bool     // it is in the connection's list of offers to make
	pulled   []uint64 // a bit for every page
	queued   int      // pages that are pulled and not in the writer's hands
	writing  int      // pages that are in them
	stopped  time.Time
	ending   *handoff.Message // the target's end, while the writer has not returned from the last page
}

// offer has the writer tell of the pages that are published by then. The outlet's lock is held, for all methods here.
func (e *entry) offer() {
	if e.offering || !e.stopped.IsZero() {
		return
	}
	e.offering = true
	e.s.offers = append(e.s.offers, e)
	e.s.wake()
}

// stop tells the target that there will be no more.
func (e *entry) stop(why *bulkhead.End) {
	if !e.stopped.IsZero() || e.ending != nil {
		return
	}
	e.stopped = time.Now()
	e.s.control(func(b []byte) []byte { return wire.AppendStop(b, e.id, why) })
}

// pull takes note that the target asks for pages. Each can be asked for once.
func (e *entry) pull(first, count int) error {
	if first+count > e.offered {
		return wire.Errorf(wire.CodeProtocol, "PULL of pages %d to %d of room %v, and %d were offered", first, first+count-1, e.id, e.offered)
	}
	for len(e.pulled) < (e.offered+63)/64 {
		e.pulled = append(e.pulled, 0)
	}
	for i := first; i < first+count; i++ {
		if e.pulled[i/64]>>(i%64)&1 != 0 {
			return wire.Errorf(wire.CodeProtocol, "PULL of page %d of room %v for the second time", i, e.id)
		}
		e.pulled[i/64] |= 1 << (i % 64)
	}
	e.queued += count
	return nil
}

// end takes the target's end. It is told to the source when the writer has nothing of the room in hand: the target has the
// last page before the write of it has returned here.
func (e *entry) end(m handoff.Message) error {
	switch {
	case e.queued > 0:
		return wire.Errorf(wire.CodeProtocol, "%v of room %v, and %d pages that it has pulled have not gone out", m.Kind, e.id, e.queued)
	case m.Kind == handoff.Commit && e.room == nil:
		return wire.Errorf(wire.CodeProtocol, "commit of room %v, which was not served", e.id)
	case m.Kind == handoff.Abandon && m.Page >= e.offered:
		return wire.Errorf(wire.CodeProtocol, "ABANDON blames page %d of room %v, and %d were offered", m.Page, e.id, e.offered)
	}
	e.ending = &m
	e.settle()
	return nil
}

// settle tells the source of an end that nothing stands in the way of.
func (e *entry) settle() {
	if e.ending == nil || e.writing > 0 {
		return
	}
	o := e.s.o
	o.unwait(e)
	if e.room != nil {
		o.end(e.room, *e.ending)
	}
	delete(e.s.entries, e.id)
	e.s.control(func(b []byte) []byte { return wire.AppendDone(b, e.id) })
}
