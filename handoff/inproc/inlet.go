package inproc

import (
	"slices"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// Inlet is the target side of a link.
func (l *Link) Inlet() handoff.Inlet { return inlet{l} }

type inlet struct{ l *Link }

// Notify names the function that wakes the target's loop.
func (i inlet) Notify(wake func()) { i.l.wakeTarget = wake }

// Enter asks for a room; it waits where the room is not open yet. One that was stopped before is answered with the Stop.
func (i inlet) Enter(id bulkhead.Room, _ handoff.Peer, claim handoff.Claim) {
	l := i.l
	l.mu.Lock()
	r := l.rooms[id]
	at := slices.IndexFunc(l.stopped, func(m handoff.Message) bool { return m.Room == id })
	switch {
	case at >= 0:
		l.toTarget = append(l.toTarget, l.stopped[at])
		l.stopped = slices.Delete(l.stopped, at, at+1)
	case r == nil:
		l.waiting[id] = claim
	case r.entered || !same(r.claim, claim):
		l.lose(id)
	default:
		if r.entered = true; r.offer != nil {
			l.toTarget = append(l.toTarget, *r.offer)
		}
	}
	l.mu.Unlock()
	l.wakeTarget()
}

// Pull copies a page and examines it. Its Arrival is there at once.
func (i inlet) Pull(id bulkhead.Room, page int, land handoff.Landing) {
	err := i.l.copyPage(id, page, land.Bytes())
	if err == nil {
		land.Examine(len(land.Bytes()))
	}
	i.l.mu.Lock()
	defer i.l.mu.Unlock()
	i.l.arrivals = append(i.l.arrivals, handoff.Arrival{Room: id, Page: page, Err: err})
}

// End sends a target's Commit or Abandon. Nothing of the room can be copied after it, and nothing more of it arrives.
func (i inlet) End(m handoff.Message) {
	l := i.l
	l.mu.Lock()
	delete(l.waiting, m.Room)
	l.forget(m.Room)
	if r := l.rooms[m.Room]; r != nil && r.entered && !r.ended {
		r.pages, r.ended = nil, true
		l.toSource = append(l.toSource, m)
	}
	l.mu.Unlock()
	l.wakeSource()
}

// Receive takes what the source has sent, and the pages that have arrived.
func (i inlet) Receive() ([]handoff.Message, []handoff.Arrival) {
	i.l.mu.Lock()
	defer i.l.mu.Unlock()
	messages, arrivals := i.l.toTarget, i.l.arrivals
	i.l.toTarget, i.l.arrivals = nil, nil
	return messages, arrivals
}
