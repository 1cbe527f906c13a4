package worker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/inproc"
)

// cable is a carrier between two workers apart, with faults to order: pages take their time and arrive out of order, and
// rooms can be lost in any state. It holds the promises of handoff.Outlet and handoff.Inlet.
type cable struct {
	link  *inproc.Link
	delay func() time.Duration // of one page; nil: none

	mu       sync.Mutex
	open     map[bulkhead.Room]bool // at the source and not ended; true: published
	entered  map[bulkhead.Room]bool // at the target and not ended
	lost     map[bulkhead.Room]bool
	down     bool // every room is lost, and every new one
	toSource []handoff.Message
	toTarget []handoff.Message
	arrivals []handoff.Arrival
	landing  int
	wakes    [2]func()
}

func newCable() *cable {
	return &cable{link: inproc.New(), open: map[bulkhead.Room]bool{}, entered: map[bulkhead.Room]bool{}, lost: map[bulkhead.Room]bool{}}
}

// cut loses a room now; 0: all rooms, and those to come.
func (c *cable) cut(id bulkhead.Room) {
	c.mu.Lock()
	for room := range c.open {
		if id == 0 || room == id {
			c.loseSource(room)
		}
	}
	for room := range c.entered {
		if id == 0 || room == id {
			c.loseTarget(room)
		}
	}
	c.down = c.down || id == 0
	if id != 0 {
		c.lost[id] = true
	}
	c.mu.Unlock()
	c.wake()
}

func (c *cable) wake() {
	for _, wake := range c.wakes {
		wake()
	}
}

func (c *cable) loseSource(id bulkhead.Room) {
	delete(c.open, id)
	c.lost[id] = true
	c.toSource = append(c.toSource, handoff.Message{Room: id, Kind: handoff.Lost, Text: "cut"})
}

func (c *cable) loseTarget(id bulkhead.Room) {
	delete(c.entered, id)
	c.lost[id] = true
	c.toTarget = append(c.toTarget, handoff.Message{Room: id, Kind: handoff.Lost, Text: "cut"})
}

func (c *cable) isLost(id bulkhead.Room) bool { return c.down || c.lost[id] }

// left is how much of the carrier's books is not settled.
func (c *cable) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) + len(c.entered) + c.landing
}

type cableOut struct {
	*cable
	handoff.Outlet
}

type cableIn struct {
	*cable
	handoff.Inlet
}

func (c *cable) outlet() handoff.Outlet { return cableOut{c, c.link.Outlet()} }
func (c *cable) inlet() handoff.Inlet   { return cableIn{c, c.link.Inlet()} }

func (o cableOut) Notify(wake func()) { o.wakes[0] = wake; o.Outlet.Notify(wake) }
func (i cableIn) Notify(wake func())  { i.wakes[1] = wake; i.Inlet.Notify(wake) }

func (o cableOut) Open(id bulkhead.Room, p handoff.Peer, claim handoff.Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[id] = false; o.isLost(id) {
		o.loseSource(id)
		return
	}
	o.Outlet.Open(id, p, claim)
}

func (o cableOut) Publish(m handoff.Message, pages [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.open[m.Room]; ok {
		o.open[m.Room] = true
		o.Outlet.Publish(m, pages)
	}
}

func (o cableOut) Stop(m handoff.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	published, ok := o.open[m.Room]
	if !published {
		delete(o.open, m.Room)
		o.toSource = slices.DeleteFunc(o.toSource, func(old handoff.Message) bool { return old.Room == m.Room })
	}
	if ok {
		o.Outlet.Stop(m)
	}
}

func (o cableOut) Receive() []handoff.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.toSource
	o.toSource = nil
	for _, m := range o.Outlet.Receive() {
		if _, ok := o.open[m.Room]; ok {
			delete(o.open, m.Room)
			out = append(out, m)
		}
	}
	return out
}

func (i cableIn) Enter(id bulkhead.Room, p handoff.Peer, claim handoff.Claim) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.entered[id] = true; i.isLost(id) {
		i.loseTarget(id)
		return
	}
	i.Inlet.Enter(id, p, claim)
}

var errCut = errors.New("cut")

func (i cableIn) Pull(id bulkhead.Room, page int, l handoff.Landing) {
	i.mu.Lock()
	i.landing++
	i.mu.Unlock()
	land := func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		defer i.wakes[1]()
		i.landing--
		if i.isLost(id) {
			i.arrivals = append(i.arrivals, handoff.Arrival{Room: id, Page: page, Err: errCut})
			return
		}
		i.Inlet.Pull(id, page, l)
	}
	if i.delay == nil {
		land()
		return
	}
	time.AfterFunc(i.delay(), land)
}

func (i cableIn) End(m handoff.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.entered[m.Room]; ok {
		delete(i.entered, m.Room)
		i.Inlet.End(m)
	}
}

func (i cableIn) Receive() ([]handoff.Message, []handoff.Arrival) {
	i.mu.Lock()
	defer i.mu.Unlock()
	messages, arrivals := i.toTarget, i.arrivals
	i.toTarget, i.arrivals = nil, nil
	more, arrived := i.Inlet.Receive()
	for _, m := range more {
		if i.entered[m.Room] {
			messages = append(messages, m)
		}
		if m.Kind == handoff.Lost {
			delete(i.entered, m.Room)
		}
	}
	return messages, append(arrivals, arrived...)
}
