package handoff

import "github.com/bulkhead-llm/bulkhead"

// Claim is what a target shows to be served a room: knowing the room's name is not enough. It is a keyed hash over the
// room and every token of the request's prompt (kv.Identities.Claim), under the key of the tenant's trust domain, so whoever
// shows it has the request itself, and the two sides of a room that were given different prompts find out before a
// page moves.
type Claim [16]byte

// Peer is the other worker of a pair.
type Peer struct {
	Name string // as its certificate or its hello proves; at a source "" is whoever shows the claim first, and nobody after
	Addr string // host:port where a source listens; empty at a source
}

// Outlet carries the source side of rooms: what a prefill worker hands pages over through. Every method is safe for
// concurrent use and returns at once.
//
// For each room that was opened the source hears exactly one Commit, Abandon or Lost, with one exception: where it
// stopped before anything was offered it hears nothing. Until then its pages may be being read. A carrier says Lost only when it reads the room's
// pages no more: the connection is closed and whoever wrote to it has returned.
type Outlet interface {
	// Notify names the function that wakes the source's loop when there is something to receive. It is called once, before
	// anything else; the function does not block.
	Notify(wake func())
	// Open makes a room known. Only the peer may enter it, and only with the claim.
	Open(room bulkhead.Room, peer Peer, claim Claim)
	// Publish sends an Offer together with the pages that it speaks of: all of the room's that are sealed, in order. The
	// pages do not change and stay where they are until the room's end.
	Publish(offer Message, pages [][]byte)
	// Stop sends a Stop. A room that no target has entered is abandoned by it: nobody can enter it from now on.
	Stop(m Message)
	// Entered reports whether a target has entered the room, if only to leave it again.
	Entered(room bulkhead.Room) bool
	// Close forgets a room that the source has retired.
	Close(room bulkhead.Room)
	// Receive takes what has come since the last call: Commit, Abandon and Lost.
	Receive() []Message
}

// Inlet carries the target side of rooms: what a decode worker pulls through. Every method is safe for concurrent use and
// returns at once, Pull of an in-process carrier excepted, which copies.
type Inlet interface {
	// Notify names the function that wakes the target's loop.
	Notify(wake func())
	// Enter asks the source for a room. What follows is received: Offers, a Stop, or Lost.
	Enter(room bulkhead.Room, source Peer, claim Claim)
	// Pull asks for one page that was offered and writes it, seal included, into l. Exactly one Arrival follows, and until
	// it has come the carrier may be writing.
	Pull(room bulkhead.Room, page int, l Landing)
	// End sends the target's Commit or Abandon; the carrier forgets the room. Every Pull has arrived by then.
	End(m Message)
	// Receive takes what has come since the last call: messages in the order in which they came, and arrivals.
	Receive() ([]Message, []Arrival)
}

// Landing is where a page is written: a kv.Landing.
type Landing interface {
	// Bytes is the whole page, seal included.
	Bytes() []byte
	// Examine takes the sums of what was written, by whoever wrote it, while it is in cache: of the layers that lie within
	// the first so many bytes and were not examined before. The landing's owner judges.
	Examine(written int)
}

// Arrival is the end of one Pull: nothing writes into the landing any more.
type Arrival struct {
	Room bulkhead.Room
	Page int
	Err  error // nil: the page was written as a whole and examined
}
