package tcp

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// link is the target's end of one connection, from the first attempt on.
type link struct {
	in     *Inlet
	source handoff.Peer

	// Guarded by the inlet's lock.
	conn    *conn                      // nil until both sides have proven themselves
	rooms   map[bulkhead.Room]*entered // until the source has answered their end
	pulls   queue[*pull]               // not asked for yet
	sent    queue[*pull]               // asked for, in the order in which they must come
	flight  int64                      // bytes of these
	turn    time.Time                  // since when the first of them is the first
	credits []int                      // slots of the ring to give back
	ring    *ring                      // nil: none
}

// pull is one page that the target wants. It is in one queue until it arrives.
type pull struct {
	room    *entered
	page    int
	landing handoff.Landing
	dst     []byte
}

// mostRooms is how many rooms may be entered. The lock is held.
func (l *link) mostRooms() int {
	if l.conn != nil {
		return l.conn.limits.ConnRooms
	}
	return l.in.cfg.Limits.ConnRooms
}

// dying reports whether the connection is being closed. The lock is held.
func (l *link) dying() bool { return l.conn != nil && l.conn.cause != nil }

// live is the life of a connection: wait for its turn, dial, shake hands, read until the end, and give up what it had.
func (l *link) live(wait time.Duration) {
	in := l.in
	p, err := l.connect(wait)
	var why *wire.Error
	if err == nil && l.ready(p) {
		why = l.conn.run(l.read, l.next, func(bool) {}, l.tick)
	} else if why = l.cause(err); p != nil {
		_ = p.tcp.Close()
	}
	in.mu.Lock()
	l.finish(why, err != nil)
	in.mu.Unlock()
	in.wake()
}

// connect dials and shakes hands.
func (l *link) connect(wait time.Duration) (*pair, error) {
	in := l.in
	if wait > 0 {
		select {
		case <-in.ctx.Done():
			return nil, in.ctx.Err()
		case <-time.After(wait):
		}
	}
	host, _, err := net.SplitHostPort(l.source.Addr)
	if err != nil {
		return nil, wire.Errorf(wire.CodeNetwork, "the address of the prefill worker: %v", err)
	}
	d := net.Dialer{Timeout: in.cfg.Limits.DialTimeout}
	nc, err := d.DialContext(in.ctx, "tcp", l.source.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(in.ctx, func() { _ = nc.Close() })
	defer stop()
	p, err := in.cfg.asTarget(nc, l.source.Name, host)
	if err != nil {
		return nil, err
	}
	l.openRing(p)
	return p, nil
}

// ready takes the connection into use and enters the rooms that have waited for it.
func (l *link) ready(p *pair) bool {
	in := l.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	delete(in.failed, l.source)
	in.tally.Connected++
	l.conn = newConn(p, in.cfg, &in.mu)
	noteKernels(in.log, p)
	in.log.Info("handoff: connected", "peer", p.peer.Name, "addr", l.source.Addr, "tls", in.cfg.TLS != nil, "shared memory", l.ring != nil)
	if l.ring != nil {
		l.conn.control(func(b []byte) []byte { return wire.AppendRing(b, l.ring.shape()) })
	}
	n := 0
	for id, r := range l.rooms {
		if n++; n > l.conn.limits.ConnRooms {
			delete(l.rooms, id)
			delete(in.rooms, id)
			in.lose(id, wire.Errorf(wire.CodeLimit, "the source takes %d rooms over one connection (ConnRooms)", l.conn.limits.ConnRooms))
			continue
		}
		l.enter(r)
	}
	in.wake()
	return true
}

// enter asks for a room. The lock is held.
func (l *link) enter(r *entered) {
	l.conn.control(func(b []byte) []byte { return wire.AppendEnter(b, r.id, r.claim) })
}

// ended tells the source how a room ended; it answers with DONE. A room that was never asked for is forgotten at once.
func (l *link) ended(r *entered, m handoff.Message) {
	if l.conn == nil {
		delete(l.rooms, r.id)
		return
	}
	l.conn.control(func(b []byte) []byte {
		if m.Kind == handoff.Commit {
			return wire.AppendCommit(b, r.id)
		}
		return wire.AppendAbandon(b, r.id, m.Page)
	})
}

// cause is why there is no connection.
func (l *link) cause(err error) *wire.Error {
	var e *wire.Error
	switch {
	case l.in.ctx.Err() != nil:
		return wire.Errorf(wire.CodeClosing, "the worker is shutting down")
	case errors.As(err, &e):
		return e
	}
	return wire.Errorf(handshakeCode(err), "no connection to the prefill worker at %s: %v", l.source.Addr, err)
}

// finish gives up what the connection had: first the landings, into which nobody writes any more, then the rooms. The lock
// is held.
func (l *link) finish(why *wire.Error, attempt bool) {
	in := l.in
	if in.links[l.source] == l {
		delete(in.links, l.source)
	}
	switch {
	case l.conn != nil:
		in.tally.Closed[why.Code]++
	case attempt:
		in.note(l.source, why)
	}
	in.log.Info("handoff: the connection has ended", "addr", l.source.Addr, "rooms", len(l.rooms), "cause", why.Code.String(), "err", why)
	in.tally.InFlight -= l.flight
	for _, q := range []*queue[*pull]{&l.sent, &l.pulls} {
		for q.len() > 0 {
			p := q.pop()
			in.arrivals = append(in.arrivals, handoff.Arrival{Room: p.room.id, Page: p.page, Err: why})
		}
	}
	for id, r := range l.rooms {
		if r.ended.IsZero() {
			delete(in.rooms, id)
			in.lose(id, why)
		}
	}
	if l.ring != nil {
		l.ring.close()
	}
}

// note takes down an attempt that failed, so that the next one waits a moment. The lock is held.
func (in *Inlet) note(source handoff.Peer, why *wire.Error) {
	now := time.Now()
	if why.Code == wire.CodeNetwork || why.Code == wire.CodeTimeout {
		in.tally.Unreachable++
	} else {
		in.tally.Refused[why.Code]++
	}
	for peer, at := range in.failed {
		if now.Sub(at) > in.cfg.Limits.Backoff {
			delete(in.failed, peer)
		}
	}
	if len(in.failed) < in.cfg.Limits.Connections {
		in.failed[source] = now
	}
}
