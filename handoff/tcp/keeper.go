package tcp

import (
	"slices"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// keep looks after what has a time to wait, until the outlet is closed.
func (o *Outlet) keep() {
	l := o.cfg.Limits
	t := time.NewTicker(max(time.Millisecond, min(l.ClaimTimeout, l.EntryTimeout, time.Second)/8))
	defer t.Stop()
	for {
		select {
		case <-o.stop:
			return
		case now := <-t.C:
			if o.expire(now) {
				o.wake()
			}
		}
	}
}

// expire denies what has waited too long. It reports whether a room of the source's was lost.
func (o *Outlet) expire(now time.Time) (lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, waiting := range o.waiting {
		for _, e := range slices.Clone(waiting) {
			if now.After(e.until) {
				o.unwait(e)
				o.deny(e, id)
			}
		}
	}
	for o.stopped.len() > 0 && now.After(o.stopped.front().until) {
		o.stopped.pop()
	}
	for _, r := range o.rooms {
		if !r.ended && r.entry == nil && now.Sub(r.opened) > o.cfg.Limits.EntryTimeout {
			o.lose(r, "no target has entered within "+o.cfg.Limits.EntryTimeout.String())
			lost = true
		}
	}
	return lost
}

func (o *Outlet) deny(e *entry, id bulkhead.Room) {
	o.tally.Denied++
	r := o.rooms[id]
	o.log.Warn("handoff: a room was asked for and not served", "room", id.String(), "peer", e.s.peer.Name,
		"open", r != nil, "other peer", r != nil && r.peer != "" && r.peer != e.s.peer.Name, "taken", r != nil && r.entry != nil)
	e.stop(wire.Denied())
}

// await has an ENTER wait for its room. The lock is held.
func (o *Outlet) await(e *entry) {
	e.until = time.Now().Add(o.cfg.Limits.ClaimTimeout)
	o.waiting[e.id] = append(o.waiting[e.id], e)
	e.waits = true
}

// unwait ends the waiting of an ENTER. The lock is held.
func (o *Outlet) unwait(e *entry) {
	if !e.waits {
		return
	}
	e.waits = false
	rest := slices.DeleteFunc(o.waiting[e.id], func(x *entry) bool { return x == e })
	if o.waiting[e.id] = rest; len(rest) == 0 {
		delete(o.waiting, e.id)
	}
}
