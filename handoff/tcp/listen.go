package tcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Serve takes connections until the listener or the outlet is closed; then it gives nil. It closes the listener. One that other
// hosts can reach is refused where there is neither TLS nor Plaintext.
func (o *Outlet) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }()
	if addr := l.Addr(); addr.Network() == "tcp" && !o.cfg.mayReach(addr.String()) {
		return fmt.Errorf("handoff: %v can be reached from other hosts, and this worker has no certificates: "+
			"listen on loopback, give it a TLS directory, or allow plaintext explicitly", addr)
	}
	if !o.listen(l) {
		return nil
	}
	defer func() {
		o.mu.Lock()
		delete(o.listeners, l)
		o.mu.Unlock()
	}()
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // no descriptors left, or a peer that is gone already
			o.log.Warn("handoff: accept", "err", err)
			select {
			case <-o.stop:
				return nil
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		o.accept(nc)
	}
}

func (o *Outlet) listen(l net.Listener) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.listeners[l] = struct{}{}
	return true
}

// accept starts a connection, where there is room for one.
func (o *Outlet) accept(nc net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.cfg.Limits
	switch {
	case o.closed:
		_ = nc.Close()
	case len(o.shaking) >= l.Handshakes:
		o.turnAway(nc, wire.Errorf(wire.CodeConnections, "%d connections are in their handshake (Handshakes)", l.Handshakes))
	case len(o.conns)+len(o.shaking) >= l.Connections:
		o.turnAway(nc, wire.Errorf(wire.CodeConnections, "%d peers are connected (Connections)", l.Connections))
	default:
		o.shaking[nc] = struct{}{}
		o.wg.Go(func() { o.connection(nc) })
	}
}

// turnAway closes a connection that there is no room for. In plaintext it says why; a fresh socket takes that much without
// waiting.
func (o *Outlet) turnAway(nc net.Conn, e *wire.Error) {
	o.tally.Refused[e.Code]++
	o.log.Warn("handoff: connection refused", "from", nc.RemoteAddr(), "err", e)
	if o.cfg.TLS == nil {
		_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = nc.Write(wire.AppendError(nil, e))
	}
	_ = nc.Close()
}

// connection is the life of one connection.
func (o *Outlet) connection(nc net.Conn) {
	p, err := o.cfg.asSource(nc, o.ring.socket(), o.ring.expect)
	defer func() { o.ring.forget(p) }() // after the connection has ended
	s, ok := o.shaken(nc, p, err)
	if !ok {
		return
	}
	why := s.run(s.read, s.next, s.written, s.tick)
	o.finish(s, why)
}

// shaken counts how a handshake ended, and makes what serves the connection.
func (o *Outlet) shaken(nc net.Conn, p *pair, err error) (*serving, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.shaking, nc)
	if err != nil {
		code := handshakeCode(err)
		o.tally.Refused[code]++
		if !o.closed {
			o.log.Warn("handoff: peer refused", "from", nc.RemoteAddr(), "cause", code.String(), "err", err)
		}
		return nil, false
	}
	if o.closed {
		_ = nc.Close()
		return nil, false
	}
	s := newServing(o, newConn(p, o.cfg, &o.mu))
	o.conns[s] = struct{}{}
	o.tally.Connected++
	noteKernels(o.log, p)
	o.log.Info("handoff: a target has connected", "peer", p.peer.Name, "from", nc.RemoteAddr(), "tls", o.cfg.TLS != nil)
	return s, true
}

// noteKernels logs where two workers compute with other kernels: pages are alike then, and their last bits need not be.
func noteKernels(log *slog.Logger, p *pair) {
	if p.peer.Kernels != p.mine.Kernels {
		log.Info("handoff: the peer computes with other kernels", "peer", p.peer.Name, "its", p.peer.Kernels, "own", p.mine.Kernels)
	}
}

func handshakeCode(err error) wire.Code {
	var e *wire.Error
	var n net.Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &n) && n.Timeout():
		return wire.CodeTimeout
	}
	return wire.CodeNetwork
}

// Addr is the address of a listener that is being served, or nil.
func (o *Outlet) Addr() net.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := range o.listeners {
		return l.Addr()
	}
	return nil
}

// Shutdown closes every connection, and returns when nobody reads a page any more. The rooms that were open are lost, and
// can still be received.
func (o *Outlet) Shutdown() {
	o.mu.Lock()
	first := !o.closed
	o.closed = true
	if first {
		close(o.stop)
	}
	for l := range o.listeners {
		_ = l.Close()
	}
	for nc := range o.shaking {
		_ = nc.Close()
	}
	for s := range o.conns {
		s.fail(wire.Errorf(wire.CodeClosing, "the worker %q is shutting down", o.cfg.Name))
	}
	o.mu.Unlock()
	o.ring.close()
	o.wg.Wait()
	o.mu.Lock()
	for _, r := range o.rooms {
		o.lose(r, "the worker is shutting down")
	}
	o.mu.Unlock()
	o.wake()
}
