// Package handoff is one room, from the first page that is published to the commit, as a state machine for each side. It
// is pure: no goroutine, lock, clock or I/O. A carrier, an [Outlet] and an [Inlet] ([github.com/bulkhead-llm/bulkhead/handoff/inproc]
// within one process), takes the messages and the bytes from one side to the other; a worker's loop does what the machines
// say.
//
//	source (prefill)                          target (decode)
//	Sealed(n)  -- Offer n ------------------> Receive; Next: which page to pull now
//	Sealed(n)  -- Offer n ------------------> ...
//	                                          Reserved: pages are reserved, some are its own
//	             <....... bytes of page i ... Pulling(i); when it has arrived Proven(i) or Failed(i)
//	                                          all proven: Commit
//	Receive    <------------------ Commit --- committed: the reservation is a sequence
//	unpin
//
// The target counts by itself how many pages there must be, and what each must hold; an offer says only what may be pulled
// already. There is no message by which a source could say that a transfer is complete.
//
// Either side can stop. A source that stops says so and keeps its pages pinned until the target has answered, because the
// target may be reading them; only where nothing was offered yet it lets go at once, and hears of no outcome. A target that stops first fences
// what is landing, then abandons, then says so. So each room has exactly one outcome, the target's, and the source
// hears it; both can be asked for it.
//
// An event that the state does not allow is an error and changes nothing: it is never taken for something else. The loop
// then stops its side.
package handoff

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// Kind is what a message says.
type Kind uint8

// The messages.
const (
	Offer   Kind = iota + 1 // source: pages [0, Pages) are sealed, pinned and can be pulled
	Stop                    // source: there will be no more; answer with an end
	Commit                  // target: every page is proven
	Abandon                 // target: everything is fenced; Page is one that could not be proven, or -1
	Lost                    // the carrier, to either side: the connection is closed and nothing of the room is read or written any more
)

func (k Kind) String() string {
	switch k {
	case Offer:
		return "offer"
	case Stop:
		return "stop"
	case Commit:
		return "commit"
	case Abandon:
		return "abandon"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Message is what one side tells the other about a room.
type Message struct {
	Room  bulkhead.Room
	Kind  Kind
	Pages int // with Offer
	Page  int // with Abandon

	Why  *bulkhead.End // with Stop: how the request ended at the source
	Text string        // with Lost: what happened, for logs
}

// Outcome is how a room ended.
type Outcome uint8

// The outcomes.
const (
	Pending   Outcome = iota
	Committed         // the target has a sequence of proven pages
	Abandoned         // it has nothing
	Broken            // at a source alone: the carrier has lost the target, whose own outcome nobody will tell
)

func (o Outcome) String() string { return [...]string{"pending", "committed", "abandoned", "lost"}[o] }

// Error is an event that does not fit the state of a room.
type Error struct {
	Room  bulkhead.Room
	Event string
	State string
}

func (e *Error) Error() string {
	return fmt.Sprintf("handoff: room %v: %s while %s", e.Room, e.Event, e.State)
}
