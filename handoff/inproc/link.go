// Package inproc carries handoffs within one process: messages through two mailboxes, and pages by copying their bytes from
// the source's pinned, immutable pages into the target's landings.
//
// Pull copies and examines at once, in the target's own goroutine: it is the only writer of its own pool, and between two
// calls of Pull nothing of it is being written. The source keeps what it has published pinned until the target has said
// that the room is over (see package handoff), so a copy never meets a page that is being reused; and were it to, the seal
// that comes along would be the wrong one. No connection can break, so nobody is told Lost but a target that shows the
// wrong claim.
package inproc

import (
	"crypto/subtle"
	"fmt"
	"slices"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// mostStopped bounds how many rooms are remembered that were stopped before a target entered them.
const mostStopped = 256

// Link joins one source loop and one target loop. Its mailboxes are bounded by the rooms that are open: a room has at most
// one Offer (a newer one replaces it), one Stop and one end in them, and an Arrival for each page that was pulled.
type Link struct {
	wakeSource, wakeTarget func() // called without the lock; must not block

	mu       sync.Mutex
	rooms    map[bulkhead.Room]*room
	waiting  map[bulkhead.Room]handoff.Claim // entered before they were opened
	stopped  []handoff.Message               // of rooms that nobody had entered; the oldest first
	toTarget []handoff.Message
	toSource []handoff.Message
	arrivals []handoff.Arrival
}

// room is what the source has published, until the target ends it. It is known from Open to Close, both the source's.
type room struct {
	claim     handoff.Claim
	offer     *handoff.Message // the last
	pages     [][]byte
	entered   bool
	published bool
	stop      *handoff.Message
	ended     bool
}

// New makes a link. Each side names what wakes it by Notify, before anything else.
func New() *Link {
	return &Link{wakeSource: func() {}, wakeTarget: func() {},
		rooms: make(map[bulkhead.Room]*room), waiting: make(map[bulkhead.Room]handoff.Claim)}
}

// Rooms is how many rooms are known.
func (l *Link) Rooms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rooms) + len(l.waiting)
}

// lose tells the target that a room is not for it. The lock is held.
func (l *Link) lose(id bulkhead.Room) {
	l.toTarget = append(l.toTarget, handoff.Message{Room: id, Kind: handoff.Lost, Text: "no such room was opened with this claim"})
}

// same compares claims without telling by its time where they differ.
func same(a, b handoff.Claim) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// forget takes what is on its way to the target of a room out of the mailbox. The lock is held.
func (l *Link) forget(id bulkhead.Room, kinds ...handoff.Kind) {
	l.toTarget = slices.DeleteFunc(l.toTarget, func(m handoff.Message) bool {
		return m.Room == id && (len(kinds) == 0 || slices.Contains(kinds, m.Kind))
	})
}

// copyPage writes a page that was published into dst. The lock is not held: published pages do not change.
func (l *Link) copyPage(id bulkhead.Room, page int, dst []byte) error {
	l.mu.Lock()
	var pages [][]byte
	if r := l.rooms[id]; r != nil && r.entered {
		pages = r.pages
	}
	l.mu.Unlock()
	if page < 0 || page >= len(pages) {
		return fmt.Errorf("inproc: page %d of room %v was not published", page, id)
	}
	if len(dst) != len(pages[page]) {
		return fmt.Errorf("inproc: page %d of room %v has %d bytes, the landing %d", page, id, len(pages[page]), len(dst))
	}
	copy(dst, pages[page])
	return nil
}
