package main

import (
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
)

// handoffFlags bound what a worker spends on the handoff, and how long it waits for its peers. None of the times frees a page: where one
// is over, the connection is closed, and pages are given back when nobody reads or writes them any more.
type handoffFlags struct {
	SharedMemory bool `default:"true" negatable:"" help:"Move pages between processes of one host through shared memory; --no-shared-memory moves them over TCP."`

	HandoffRooms            int           `default:"4096" help:"Handoffs at once."`
	HandoffPages            int           `default:"256" help:"Pages that are asked for and have not come, over one connection."`
	HandoffBatch            int           `default:"64" help:"Pages that one frame asks for."`
	HandoffBytes            int64         `default:"67108864" help:"Bytes that are asked for and have not come, over one connection."`
	HandoffRing             int           `default:"33554432" help:"Bytes of shared memory of one connection, two pages at least."`
	HandoffHandshakeTimeout time.Duration `default:"3s" help:"Time that a connection may take until both sides have proven themselves."`
	HandoffPingInterval     time.Duration `default:"1s" help:"How often peers hear of this worker at least."`
	HandoffPeerTimeout      time.Duration `default:"3s" help:"How long a peer may be silent."`
	HandoffWriteTimeout     time.Duration `default:"10s" help:"Time that one write may take."`
	HandoffStallTimeout     time.Duration `default:"10s" help:"Time that the next page may take, and the answer to an end."`
}

// sourceFlags are those of a prefill worker.
type sourceFlags struct {
	handoffFlags         `embed:""`
	HandoffPeers         int           `default:"256" help:"Decode workers that are connected at once."`
	HandoffTimeout       time.Duration `default:"30s" help:"How long a computed prompt waits for a decode worker to ask for it."`
	HandoffEntryTimeout  time.Duration `default:"30s" help:"How long a room waits for its decode worker."`
	HandoffAnswerTimeout time.Duration `default:"10s" help:"Time that decode has to end a room that was stopped."`
	HandoffClaimTimeout  time.Duration `default:"5s" help:"How long a decode worker that comes first waits for its room."`
}

// targetFlags are those of a decode worker.
type targetFlags struct {
	handoffFlags       `embed:""`
	HandoffDialTimeout time.Duration `default:"2s" help:"Time that a connection to a prefill worker may take."`
	HandoffBackoff     time.Duration `default:"500ms" help:"Time between two attempts at a prefill worker that does not answer."`
}

func (f handoffFlags) limits() tcp.Limits {
	l := tcp.DefaultLimits()
	l.Rooms, l.ConnRooms = f.HandoffRooms, f.HandoffRooms // there may be one peer only
	l.Queue = max(l.Queue, 2*l.ConnRooms+8)
	l.Pulls, l.PullRun, l.InFlight, l.RingBytes = f.HandoffPages, f.HandoffBatch, f.HandoffBytes, f.HandoffRing
	l.HandshakeTimeout, l.PingInterval, l.PeerTimeout = f.HandoffHandshakeTimeout, f.HandoffPingInterval, f.HandoffPeerTimeout
	l.WriteTimeout, l.StallTimeout = f.HandoffWriteTimeout, f.HandoffStallTimeout
	return l
}

func (f sourceFlags) limits() tcp.Limits {
	l := f.handoffFlags.limits()
	l.Connections, l.EntryTimeout, l.AnswerTimeout, l.ClaimTimeout = f.HandoffPeers, f.HandoffEntryTimeout, f.HandoffAnswerTimeout, f.HandoffClaimTimeout
	return l
}

func (f targetFlags) limits() tcp.Limits {
	l := f.handoffFlags.limits()
	l.DialTimeout, l.Backoff = f.HandoffDialTimeout, f.HandoffBackoff
	return l
}

// holds refuses fewer handoffs than the worker takes requests: those over it would be lost, and look like a broken connection.
func (f handoffFlags) holds(b boundFlags) error {
	if most := b.Queue + 2*b.Running; f.HandoffRooms < most {
		return fmt.Errorf("--handoff-rooms %d: must be at least %d, because with --queue %d and --running %d so many requests can be here at once",
			f.HandoffRooms, most, b.Queue, b.Running)
	}
	return nil
}

// check refuses what is out of range, by its name; how the limits relate is checked where they are used.
func (f handoffFlags) check(pageBytes int) error {
	for _, c := range []struct {
		name         string
		n, low, high int64
	}{
		{"handoff-rooms", int64(f.HandoffRooms), 1, 1 << 20}, {"handoff-pages", int64(f.HandoffPages), 1, 1 << 20},
		{"handoff-batch", int64(f.HandoffBatch), 1, min(int64(f.HandoffPages), 1<<16)},
		{"handoff-bytes", f.HandoffBytes, int64(pageBytes), 1 << 40},
		{"handoff-ring", int64(f.HandoffRing), 2 * int64(pageBytes), 1 << 32},
	} {
		if c.n < c.low || c.n > c.high {
			return fmt.Errorf("--%s %d: must be %d to %d", c.name, c.n, c.low, c.high)
		}
	}
	if f.HandoffPeerTimeout < 2*f.HandoffPingInterval {
		return fmt.Errorf("--handoff-peer-timeout %v: must be at least twice --handoff-ping-interval %v", f.HandoffPeerTimeout, f.HandoffPingInterval)
	}
	return checkTimes([]namedTime{{"handoff-handshake-timeout", f.HandoffHandshakeTimeout}, {"handoff-ping-interval", f.HandoffPingInterval},
		{"handoff-peer-timeout", f.HandoffPeerTimeout}, {"handoff-write-timeout", f.HandoffWriteTimeout}, {"handoff-stall-timeout", f.HandoffStallTimeout}})
}

func (f sourceFlags) check(pageBytes int) error {
	if f.HandoffPeers < 1 || f.HandoffPeers > 1<<16 {
		return fmt.Errorf("--handoff-peers %d: must be 1 to %d", f.HandoffPeers, 1<<16)
	}
	if err := f.handoffFlags.check(pageBytes); err != nil {
		return err
	}
	return checkTimes([]namedTime{{"handoff-timeout", f.HandoffTimeout}, {"handoff-entry-timeout", f.HandoffEntryTimeout}, {"handoff-answer-timeout", f.HandoffAnswerTimeout},
		{"handoff-claim-timeout", f.HandoffClaimTimeout}})
}

func (f targetFlags) check(pageBytes int) error {
	if err := f.handoffFlags.check(pageBytes); err != nil {
		return err
	}
	return checkTimes([]namedTime{{"handoff-dial-timeout", f.HandoffDialTimeout}, {"handoff-backoff", f.HandoffBackoff}})
}
