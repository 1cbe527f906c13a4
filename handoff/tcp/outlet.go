package tcp

import (
	"crypto/subtle"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Outlet is the source side of rooms: a handoff.Outlet that listens.
//
// A room and the ENTER that asks for it come in either order, since both workers of a pair hear of a request at the same
// time. An ENTER that shows the right claim of an open room is bound to it, at once and for good. Every other one waits,
// whatever is wrong with it, and is denied when ClaimTimeout is over, in the same words: whoever guesses learns neither
// from the answer nor from its time whether there is such a room.
type Outlet struct {
	cfg  *Config
	log  *slog.Logger
	ring *ringServer // nil: no shared memory

	wake func() // set by Notify before anything else

	mu        sync.Mutex
	rooms     map[bulkhead.Room]*room
	waiting   map[bulkhead.Room][]*entry
	stopped   queue[tombstone] // in the order in which they expire
	conns     map[*serving]struct{}
	shaking   map[net.Conn]struct{}
	listeners map[net.Listener]struct{}
	inbox     []handoff.Message
	tally     tally
	closed    bool

	stop chan struct{}
	wg   sync.WaitGroup
}

// room is what the source has opened, until it closes it.
type room struct {
	id     bulkhead.Room
	peer   string
	claim  handoff.Claim
	opened time.Time

	pages     [][]byte // published
	published bool     // an Offer was made, if only of no pages
	stop      *handoff.Message
	entry     *entry // who has entered; stays when that is over: there is no second
	ended     bool   // the source has been told how, or need not be
}

// tombstone is a room that the source has stopped and that no target had entered. A target that is entitled to hear why,
// and comes late, does.
type tombstone struct {
	room  *room
	until time.Time
}

// NewOutlet makes the source side of a worker.
func NewOutlet(cfg Config) (*Outlet, error) {
	c, err := cfg.check()
	if err != nil {
		return nil, err
	}
	o := &Outlet{
		cfg: c, log: c.Log, wake: func() {}, tally: newTally(), stop: make(chan struct{}),
		rooms: map[bulkhead.Room]*room{}, waiting: map[bulkhead.Room][]*entry{}, conns: map[*serving]struct{}{},
		shaking: map[net.Conn]struct{}{}, listeners: map[net.Listener]struct{}{},
	}
	if c.SharedMemory {
		if o.ring, err = newRingServer(c); err != nil {
			c.Log.Warn("handoff: no shared memory with peers of this host", "err", err)
		}
	}
	o.wg.Go(o.keep)
	return o, nil
}

// Notify names the function that wakes the source's loop.
func (o *Outlet) Notify(wake func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake = wake
}

// Open makes a room known. The caller sees to it that no other room of the name is open.
func (o *Outlet) Open(id bulkhead.Room, peer handoff.Peer, claim handoff.Claim) {
	defer o.wake()
	o.mu.Lock()
	defer o.mu.Unlock()
	invariant.Check(o.rooms[id] == nil, "tcp: a room was opened twice")
	r := &room{id: id, peer: peer.Name, claim: claim, opened: time.Now()}
	switch {
	case o.closed:
		o.rooms[id] = r
		o.lose(r, "the worker is shutting down")
		return
	case len(o.rooms) >= o.cfg.Limits.Rooms:
		o.rooms[id] = r
		o.lose(r, "more than "+itoa(o.cfg.Limits.Rooms)+" rooms are open (Rooms)")
		return
	}
	o.rooms[id] = r
	for _, e := range o.waiting[id] {
		if r.admits(e) {
			o.unwait(e)
			o.bind(r, e)
			return
		}
	}
}

// admits reports whether an ENTER is the one that a room was opened for.
func (r *room) admits(e *entry) bool {
	named := r.peer == "" || r.peer == e.s.peer.Name
	return subtle.ConstantTimeCompare(r.claim[:], e.claim[:]) == 1 && named && r.entry == nil
}

// bind gives a room to the ENTER that is entitled to it.
func (o *Outlet) bind(r *room, e *entry) {
	e.room, r.entry = r, e
	o.tally.Entered++
	switch {
	case r.stop != nil:
		e.stop(r.stop.Why)
	case r.published:
		e.offer()
	}
}

// Publish offers pages.
func (o *Outlet) Publish(offer handoff.Message, pages [][]byte) {
	invariant.Check(offer.Kind == handoff.Offer && len(pages) == offer.Pages, "tcp: an offer and its pages differ")
	for _, p := range pages {
		invariant.Check(len(p) == o.cfg.Layout.PageBytes(), "tcp: a page is not of the layout's size")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rooms[offer.Room]
	if r == nil || r.ended || r.stop != nil || r.published && len(pages) <= len(r.pages) {
		return // the target has ended it meanwhile, or more was offered already
	}
	r.pages, r.published = slices.Clone(pages), true
	if r.entry != nil {
		r.entry.offer()
	}
}

// Stop sends a Stop.
func (o *Outlet) Stop(m handoff.Message) {
	defer o.wake()
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rooms[m.Room]
	if r == nil || r.stop != nil {
		return
	}
	r.stop = &m
	if !r.published { // the source hears of no outcome, and nobody reads
		r.ended = true
		o.inbox = slices.DeleteFunc(o.inbox, func(old handoff.Message) bool { return old.Room == m.Room })
	}
	if r.entry != nil {
		r.entry.stop(m.Why)
		return
	}
	o.end(r, handoff.Message{Room: m.Room, Kind: handoff.Abandon, Page: -1})
	if o.stopped.len() >= o.cfg.Limits.Rooms {
		o.stopped.pop()
	}
	o.stopped.push(tombstone{r, time.Now().Add(o.cfg.Limits.ClaimTimeout)})
}

// end tells the source how a room ended, once. The lock is held.
func (o *Outlet) end(r *room, m handoff.Message) {
	if r.ended {
		return
	}
	r.ended, r.pages = true, nil
	switch m.Kind {
	case handoff.Commit:
		o.tally.Committed++
	case handoff.Abandon:
		o.tally.Abandoned++
	case handoff.Lost:
		o.tally.Lost++
	}
	o.inbox = append(o.inbox, m)
}

func (o *Outlet) lose(r *room, text string) {
	o.end(r, handoff.Message{Room: r.id, Kind: handoff.Lost, Text: text})
}

// Close forgets a room that the source has retired.
func (o *Outlet) Close(id bulkhead.Room) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.rooms[id]; r != nil {
		invariant.Check(r.ended, "tcp: a room was closed while its pages could be read")
		delete(o.rooms, id)
	}
}

// Receive takes what targets have said, and which rooms were lost.
func (o *Outlet) Receive() []handoff.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.inbox
	o.inbox = nil
	return out
}

// Stats counts.
func (o *Outlet) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.tally.copy()
	s.Connections, s.Rooms = len(o.conns), len(o.rooms)
	for _, w := range o.waiting {
		s.Waiting += len(w)
	}
	return s
}
