package tcp

import (
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// Limits bound what a worker spends on its peers and how long it waits for them. None of the times frees a page: where one
// is over, the connection is closed, and pages are given back when whoever read or wrote them has returned.
type Limits struct {
	Rooms       int   // rooms at once, of the whole worker
	ConnRooms   int   // of these, over one connection
	Connections int   // peers at once
	Handshakes  int   // connections that have not proven themselves yet; a source's
	Pulls       int   // pages that are pulled and have not come, over one connection
	PullRun     int   // pages of one PULL
	InFlight    int64 // bytes that are pulled and have not come, over one connection
	Queue       int   // control frames that wait to be written, of one connection
	RingBytes   int   // shared memory of one connection

	DialTimeout      time.Duration // until a connection stands
	HandshakeTimeout time.Duration // from there until both sides have proven themselves
	Backoff          time.Duration // between two attempts at a peer that does not answer
	PingInterval     time.Duration // how often this side is heard of at least
	PeerTimeout      time.Duration // how long a peer may be silent
	WriteTimeout     time.Duration // how long one write may take
	StallTimeout     time.Duration // how long the page whose turn it is may take, and the answer to an end
	AnswerTimeout    time.Duration // how long a target has to end a room that the source has stopped
	ClaimTimeout     time.Duration // how long an ENTER waits for its room to be opened, and a stop for its ENTER
	EntryTimeout     time.Duration // how long an open room waits for its target
	CloseGrace       time.Duration // how long a connection that is being closed may take to say why
}

// DefaultLimits suit a worker on a local network.
func DefaultLimits() Limits {
	return Limits{
		Rooms: 4096, ConnRooms: 1024, Connections: 256, Handshakes: 64,
		Pulls: 256, PullRun: 64, InFlight: 64 << 20, Queue: 4096, RingBytes: 32 << 20,
		DialTimeout: 2 * time.Second, HandshakeTimeout: 3 * time.Second, Backoff: 500 * time.Millisecond,
		PingInterval: time.Second, PeerTimeout: 3 * time.Second, WriteTimeout: 10 * time.Second,
		StallTimeout: 10 * time.Second, AnswerTimeout: 10 * time.Second, ClaimTimeout: 5 * time.Second,
		EntryTimeout: 30 * time.Second, CloseGrace: 250 * time.Millisecond,
	}
}

// Check refuses limits that are out of range or contradict each other or the size of a page. The message names both numbers.
func (l Limits) Check(pageBytes int) error {
	for _, b := range []struct {
		name         string
		n, low, high int64
	}{
		{"Rooms", int64(l.Rooms), 1, 1 << 24}, {"ConnRooms", int64(l.ConnRooms), 1, int64(l.Rooms)},
		{"Connections", int64(l.Connections), 1, 1 << 20}, {"Handshakes", int64(l.Handshakes), 1, 1 << 16},
		{"Pulls", int64(l.Pulls), 1, 1 << 24}, {"PullRun", int64(l.PullRun), 1, min(int64(l.Pulls), 1<<16)},
		{"InFlight", l.InFlight, int64(pageBytes), 1 << 48},
		{"Queue", int64(l.Queue), 2*int64(l.ConnRooms) + 8, 1 << 26}, // an ENTER and an end, or a STOP and a DONE, of every room
	} {
		if b.n < b.low || b.n > b.high {
			return fmt.Errorf("handoff limits: %s is %d, must be %d to %d", b.name, b.n, b.low, b.high)
		}
	}
	return l.checkTimes()
}

func (l Limits) checkTimes() error {
	for _, d := range []struct {
		name string
		d    time.Duration
		low  time.Duration
	}{
		{"DialTimeout", l.DialTimeout, time.Millisecond}, {"HandshakeTimeout", l.HandshakeTimeout, time.Millisecond},
		{"Backoff", l.Backoff, time.Millisecond}, {"PingInterval", l.PingInterval, time.Millisecond},
		{"PeerTimeout", l.PeerTimeout, 2 * l.PingInterval}, {"WriteTimeout", l.WriteTimeout, time.Millisecond},
		{"StallTimeout", l.StallTimeout, time.Millisecond}, {"AnswerTimeout", l.AnswerTimeout, time.Millisecond},
		{"ClaimTimeout", l.ClaimTimeout, time.Millisecond}, {"EntryTimeout", l.EntryTimeout, time.Millisecond},
		{"CloseGrace", l.CloseGrace, time.Millisecond},
	} {
		if d.d < d.low || d.d > time.Hour {
			return fmt.Errorf("handoff limits: %s is %v, must be %v to %v", d.name, d.d, d.low, time.Hour)
		}
	}
	return nil
}

// meet are the limits of one connection: the lesser of what both sides allow. It refuses a peer that would be taken for dead
// although it keeps to its own limits.
func (l Limits) meet(peer *wire.Hello) (Limits, *wire.Error) {
	if ping := time.Duration(peer.Ping) * time.Millisecond; 2*ping > l.PeerTimeout {
		return l, wire.Errorf(wire.CodeLimit, "the peer is heard of every %v, and this worker takes a peer for dead after %v: "+
			"give both the same ping interval", ping, l.PeerTimeout)
	}
	l.ConnRooms = min(l.ConnRooms, peer.Rooms)
	l.Pulls = min(l.Pulls, peer.Pulls)
	l.PullRun = min(l.PullRun, peer.PullRun)
	l.InFlight = min(l.InFlight, int64(peer.InFlight))
	return l, nil
}
