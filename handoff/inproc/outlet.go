package inproc

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// Outlet is the source side of a link.
func (l *Link) Outlet() handoff.Outlet { return outlet{l} }

type outlet struct{ l *Link }

// Notify names the function that wakes the source's loop.
func (o outlet) Notify(wake func()) { o.l.wakeSource = wake }

// Open makes a room known. Peers are not looked at: within a process there is one.
func (o outlet) Open(id bulkhead.Room, _ handoff.Peer, claim handoff.Claim) {
	l := o.l
	l.mu.Lock()
	r := &room{claim: claim}
	l.rooms[id] = r
	if shown, ok := l.waiting[id]; ok {
		delete(l.waiting, id)
		if r.entered = same(shown, claim); !r.entered {
			l.lose(id)
		}
	}
	l.mu.Unlock()
	l.wakeTarget()
}

// Publish sends an Offer. It does nothing where the target has ended the room meanwhile, the source has stopped it, or more
// was offered already: an offer that is out of date must not take the place of a newer one.
func (o outlet) Publish(m handoff.Message, pages [][]byte) {
	if m.Kind != handoff.Offer || len(pages) != m.Pages {
		panic("inproc: an offer and its pages differ")
	}
	l := o.l
	l.mu.Lock()
	if r := l.rooms[m.Room]; r != nil && !r.ended && r.stop == nil && len(pages) >= len(r.pages) {
		r.pages, r.published, r.offer = append([][]byte(nil), pages...), true, &m
		if r.entered {
			l.forget(m.Room, handoff.Offer)
			l.toTarget = append(l.toTarget, m)
		}
	}
	l.mu.Unlock()
	l.wakeTarget()
}

// Stop sends a Stop. Where nobody has entered it abandons the room, and a target that comes later is told why.
func (o outlet) Stop(m handoff.Message) {
	l := o.l
	l.mu.Lock()
	r := l.rooms[m.Room]
	switch {
	case r == nil || r.ended || r.stop != nil:
	case r.entered:
		r.stop = &m
		l.toTarget = append(l.toTarget, m)
	default:
		r.stop, r.ended, r.pages = &m, true, nil
		if r.published { // else the source hears of no outcome
			l.toSource = append(l.toSource, handoff.Message{Room: m.Room, Kind: handoff.Abandon, Page: -1})
		}
		if len(l.stopped) >= mostStopped {
			l.stopped = l.stopped[1:]
		}
		l.stopped = append(l.stopped, m)
	}
	l.mu.Unlock()
	l.wakeSource()
	l.wakeTarget()
}

// Entered reports whether a target has entered the room.
func (o outlet) Entered(id bulkhead.Room) bool {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	r := o.l.rooms[id]
	return r != nil && r.entered
}

// Close forgets a room that the source has retired.
func (o outlet) Close(id bulkhead.Room) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	delete(o.l.rooms, id)
}

// Receive takes what the target has sent.
func (o outlet) Receive() []handoff.Message {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	out := o.l.toSource
	o.l.toSource = nil
	return out
}
