// Package inproc carries handoffs within one process: messages through two mailboxes, and pages by copying their bytes from
// the source's pinned, immutable pages into the target's landings.
//
// There is no message for a pull. The source's loop publishes where the pages lie, and the target's loop copies them when
// it likes; it is the only writer of its own pool, and between two calls of Copy nothing of it is being written. The source
// keeps what it has published pinned until the target has said that the room is over (see package handoff), so a copy never
// meets a page that is being reused; and were it to, the seal that comes along would be the wrong one.
package inproc

import (
	"fmt"
	"slices"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// Link joins one source loop and one target loop. Its mailboxes are bounded by the rooms that are open: a room has at most
// one Offer (a newer one replaces it), one Stop and one end in them.
type Link struct {
	wakeSource, wakeTarget func() // called without the lock; must not block

	mu       sync.Mutex
	rooms    map[bulkhead.Room]*room
	toTarget []handoff.Message
	toSource []handoff.Message
}

// room is what the source has published, until the target ends it. It is known from Open to Close, both the source's.
type room struct {
	pages [][]byte
	ended bool
}

// New makes a link; the functions wake the loop that has something to receive.
func New(wakeSource, wakeTarget func()) *Link {
	return &Link{wakeSource: wakeSource, wakeTarget: wakeTarget, rooms: make(map[bulkhead.Room]*room)}
}

// Open makes a room known, before the target hears of it by any way.
func (l *Link) Open(id bulkhead.Room) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rooms[id] = &room{}
}

// Publish sends an Offer together with the pages that it speaks of: all of the room's that are sealed, in order. It does
// nothing where the target has ended the room meanwhile, or more was offered already: an offer that is out of date must not
// take the place of a newer one.
func (l *Link) Publish(m handoff.Message, pages [][]byte) {
	if m.Kind != handoff.Offer || len(pages) != m.Pages {
		panic("inproc: an offer and its pages differ")
	}
	l.mu.Lock()
	if r := l.rooms[m.Room]; r != nil && !r.ended && len(pages) >= len(r.pages) {
		r.pages = append([][]byte(nil), pages...)
		l.toTarget = slices.DeleteFunc(l.toTarget, func(old handoff.Message) bool {
			return old.Room == m.Room && old.Kind == handoff.Offer
		})
		l.toTarget = append(l.toTarget, m)
	}
	l.mu.Unlock()
	l.wakeTarget()
}

// Stop sends a source's Stop.
func (l *Link) Stop(m handoff.Message) {
	l.mu.Lock()
	if r := l.rooms[m.Room]; r != nil && !r.ended {
		l.toTarget = append(l.toTarget, m)
	}
	l.mu.Unlock()
	l.wakeTarget()
}

// End sends a target's Commit or Abandon. Nothing of the room can be copied after it, and nothing more of it arrives.
func (l *Link) End(m handoff.Message) {
	l.mu.Lock()
	if r := l.rooms[m.Room]; r != nil {
		r.pages, r.ended = nil, true
		l.toTarget = slices.DeleteFunc(l.toTarget, func(old handoff.Message) bool { return old.Room == m.Room })
		l.toSource = append(l.toSource, m)
	}
	l.mu.Unlock()
	l.wakeSource()
}

// Close forgets a room that the source has retired.
func (l *Link) Close(id bulkhead.Room) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rooms, id)
}

// ForTarget takes what the source has sent.
func (l *Link) ForTarget() []handoff.Message { return l.drain(&l.toTarget) }

// ForSource takes what the target has sent.
func (l *Link) ForSource() []handoff.Message { return l.drain(&l.toSource) }

func (l *Link) drain(box *[]handoff.Message) []handoff.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := *box
	*box = nil
	return out
}

// Copy pulls one page, seal included, into dst. It fails where the page was not published.
func (l *Link) Copy(id bulkhead.Room, page int, dst []byte) error {
	l.mu.Lock()
	var pages [][]byte
	if r := l.rooms[id]; r != nil {
		pages = r.pages
	}
	l.mu.Unlock()
	if page < 0 || page >= len(pages) {
		return fmt.Errorf("inproc: page %d of room %v was not published", page, id)
	}
	if n := copy(dst, pages[page]); n != len(dst) || n != len(pages[page]) {
		return fmt.Errorf("inproc: page %d of room %v has %d bytes, the landing %d", page, id, len(pages[page]), len(dst))
	}
	return nil
}

// Rooms is how many rooms are known.
func (l *Link) Rooms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rooms)
}
