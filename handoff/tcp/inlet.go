package tcp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Inlet is the target side of rooms: a handoff.Inlet that dials. All rooms of one source go over one connection, which is
// made when the first of them is entered and kept. A room whose connection breaks, or cannot be made, is lost: there is no
// second try within a room, because the gateway has a better one, with a new room and perhaps another source.
type Inlet struct {
	cfg *Config
	log *slog.Logger

	wake func() // set by Notify before anything else

	mu       sync.Mutex
	links    map[handoff.Peer]*link
	failed   map[handoff.Peer]time.Time // when the last attempt at a peer failed
	rooms    map[bulkhead.Room]*entered // all links together, until they end
	inbox    []handoff.Message
	arrivals []handoff.Arrival
	tally    tally
	closed   bool

	ctx    context.Context // ends attempts to dial
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// entered is a room that the target has asked for. When the target has ended it, it is remembered until the source has
// answered, since until then frames of it may be on their way.
type entered struct {
	id    bulkhead.Room
	link  *link
	claim handoff.Claim

	offered int
	stopped bool
	pulled  map[int]struct{}
	open    int       // pulls that have not arrived
	ended   time.Time // zero: not yet
}

// NewInlet makes the target side of a worker.
func NewInlet(cfg Config) (*Inlet, error) {
	c, err := cfg.check()
	if err != nil {
		return nil, err
	}
	in := &Inlet{
		cfg: c, log: c.Log, wake: func() {}, tally: newTally(),
		links: map[handoff.Peer]*link{}, failed: map[handoff.Peer]time.Time{}, rooms: map[bulkhead.Room]*entered{},
	}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	return in, nil
}

// Notify names the function that wakes the target's loop.
func (in *Inlet) Notify(wake func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wake = wake
}

// Enter asks a source for a room. The caller sees to it that it has entered no other room of the name.
func (in *Inlet) Enter(id bulkhead.Room, source handoff.Peer, claim handoff.Claim) {
	defer in.wake()
	in.mu.Lock()
	defer in.mu.Unlock()
	invariant.Check(in.rooms[id] == nil, "tcp: a room was entered twice")
	l, why := in.linkTo(source, id)
	if why != nil {
		in.lose(id, why)
		return
	}
	r := &entered{id: id, link: l, claim: claim, pulled: map[int]struct{}{}}
	in.rooms[id], l.rooms[id] = r, r
	in.tally.Entered++
	if l.conn != nil {
		l.enter(r)
	}
}

// linkTo is the connection for a room, made where there is none. The lock is held.
func (in *Inlet) linkTo(source handoff.Peer, id bulkhead.Room) (*link, *wire.Error) {
	limits := in.cfg.Limits
	switch {
	case in.closed:
		return nil, wire.Errorf(wire.CodeClosing, "the worker is shutting down")
	case !in.cfg.mayReach(source.Addr):
		return nil, wire.Errorf(wire.CodeNetwork, "the prefill worker at %s is not on loopback, and this worker has no certificates: "+
			"give both a TLS directory, or allow plaintext explicitly", source.Addr)
	case len(in.rooms) >= limits.Rooms:
		return nil, wire.Errorf(wire.CodeLimit, "%d rooms are entered, at most %d (Rooms)", len(in.rooms)+1, limits.Rooms)
	}
	if l := in.links[source]; l != nil && !l.dying() {
		if most := l.mostRooms(); len(l.rooms) >= most {
			return nil, wire.Errorf(wire.CodeLimit, "%d rooms are entered over the connection to %s, at most %d (ConnRooms)",
				len(l.rooms)+1, source.Addr, most)
		}
		if l.rooms[id] != nil {
			return nil, wire.Errorf(wire.CodeProtocol, "room %v was entered before", id)
		}
		return l, nil
	}
	delete(in.links, source) // one that is being closed gives up its own rooms; this room is for a new one
	if len(in.links) >= limits.Connections && !in.closeIdle() {
		return nil, wire.Errorf(wire.CodeLimit, "%d prefill workers are connected, at most %d (Connections)", len(in.links)+1, limits.Connections)
	}
	l := &link{in: in, source: source, rooms: map[bulkhead.Room]*entered{}}
	in.links[source] = l
	wait := time.Until(in.failed[source].Add(limits.Backoff))
	in.wg.Go(func() { l.live(wait) })
	return l, nil
}

// closeIdle closes a connection that has no rooms, to make room for another peer's. The lock is held.
func (in *Inlet) closeIdle() bool {
	for source, l := range in.links {
		if len(l.rooms) == 0 && l.conn != nil {
			delete(in.links, source)
			l.conn.fail(wire.Errorf(wire.CodeClosing, "no room is open, and another peer needs the connection"))
			return true
		}
	}
	return false
}

// lose tells the target that a room is over. The lock is held.
func (in *Inlet) lose(id bulkhead.Room, why *wire.Error) {
	in.tally.Lost++
	in.inbox = append(in.inbox, handoff.Message{Room: id, Kind: handoff.Lost, Text: why.Error()})
}

var errNotEntered = errors.New("handoff: the page's room is not entered, or was lost")

// Pull asks for a page.
func (in *Inlet) Pull(id bulkhead.Room, page int, l handoff.Landing) {
	dst := l.Bytes()
	invariant.Check(len(dst) == in.cfg.Layout.PageBytes(), "tcp: a landing is not of the layout's size")
	in.mu.Lock()
	r := in.rooms[id]
	if r == nil {
		in.arrivals = append(in.arrivals, handoff.Arrival{Room: id, Page: page, Err: errNotEntered})
		in.mu.Unlock()
		in.wake()
		return
	}
	defer in.mu.Unlock()
	_, again := r.pulled[page]
	invariant.Check(page >= 0 && page < r.offered && !again, "tcp: a page was pulled that was not offered, or twice")
	r.pulled[page] = struct{}{}
	r.open++
	r.link.pulls.push(&pull{room: r, page: page, landing: l, dst: dst})
	r.link.wakeToAsk()
}

// End sends the target's end.
func (in *Inlet) End(m handoff.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r := in.rooms[m.Room]
	if r == nil {
		return // lost
	}
	invariant.Check(r.open == 0, "tcp: a room was ended while a page was landing")
	invariant.Check(m.Kind == handoff.Commit || m.Kind == handoff.Abandon, "tcp: a room's end is a commit or an abandon")
	delete(in.rooms, m.Room)
	in.inbox = slices.DeleteFunc(in.inbox, func(old handoff.Message) bool { return old.Room == m.Room })
	if m.Kind == handoff.Commit {
		in.tally.Committed++
	} else {
		in.tally.Abandoned++
	}
	r.ended = time.Now()
	r.link.ended(r, m)
}

// Receive takes what has come since the last call.
func (in *Inlet) Receive() ([]handoff.Message, []handoff.Arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	messages, arrivals := in.inbox, in.arrivals
	in.inbox, in.arrivals = nil, nil
	return messages, arrivals
}

// Stats counts.
func (in *Inlet) Stats() Stats {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.tally.copy()
	s.Rooms = len(in.rooms)
	for _, l := range in.links {
		if l.conn != nil {
			s.Connections++
		}
	}
	return s
}

// Shutdown closes every connection, and returns when nobody writes into a landing any more. What was lost by it can still
// be received.
func (in *Inlet) Shutdown() {
	in.mu.Lock()
	in.closed = true
	for _, l := range in.links {
		if l.conn != nil {
			l.conn.fail(wire.Errorf(wire.CodeClosing, "the worker %q is shutting down", in.cfg.Name))
		}
	}
	in.mu.Unlock()
	in.cancel()
	in.wg.Wait()
}
