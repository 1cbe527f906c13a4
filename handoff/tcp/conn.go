package tcp

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// conn is a live connection: one goroutine reads, one writes, and nobody else touches the socket. What either has in hand
// of a page, it has until it returns, so when run has returned nothing is read from a page or written into one any more:
// that is the fence.
//
// A connection ends by fail, whoever calls it. The writer then says why, if it is not in the middle of a page that the peer
// does not take, and after CloseGrace the socket is closed under both.
type conn struct {
	*pair
	cfg  *Config
	kick chan struct{} // wakes the writer

	mu     *sync.Mutex // of the outlet or inlet; guards what follows
	out    []byte      // control frames that wait
	queued int         // how many
	cause  *wire.Error // why it is being closed
	told   bool        // the writer has said so, or need not
	killer *time.Timer
	pinged uint64 // last ping sent
	ponged uint64 // last pong heard

	failing atomic.Bool // cause is set
	source  *watched    // the reader's
	written time.Time   // the writer's: when its last write began
	spare   []byte      // the writer's: memory for the next out
	iov     [][]byte    // the writer's
	batch   net.Buffers // the writer's
}

func newConn(p *pair, cfg *Config, mu *sync.Mutex) *conn {
	return &conn{pair: p, cfg: cfg, mu: mu, kick: make(chan struct{}, 1), written: time.Now()}
}

// wake has the writer look for what there is to write.
func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// control queues a frame: add appends it. The lock is held. A queue that is full is the fault of a peer that asks and does
// not read the answers.
func (c *conn) control(add func([]byte) []byte) {
	if c.cause != nil {
		return
	}
	if c.queued >= c.limits.Queue {
		c.fail(wire.Errorf(wire.CodeLimit, "more than %d control frames wait to be written (Queue): the peer does not read", c.limits.Queue))
		return
	}
	c.queued++
	c.out = add(c.out)
	c.wake()
}

// fail ends the connection; the first cause stays. The lock is held.
func (c *conn) fail(e *wire.Error) {
	if c.cause != nil {
		return
	}
	c.cause = e
	c.failing.Store(true)
	grace := c.limits.CloseGrace
	if e.Code == wire.CodeNetwork || e.Peer {
		c.told, grace = true, 0
	}
	c.killer = time.AfterFunc(grace, func() { _ = c.tcp.Close() })
	c.wake()
}

// lockedFail is fail for those who do not hold the lock. Errors of the network and of the clock get their codes here.
func (c *conn) lockedFail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(c.classify(err))
}

func (c *conn) classify(err error) *wire.Error {
	var e *wire.Error
	var n net.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &n) && n.Timeout():
		return wire.Errorf(wire.CodeTimeout, "nothing was heard from %q for %v", c.peer.Name, c.limits.PeerTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wire.Errorf(wire.CodeNetwork, "%q closed the connection", c.peer.Name)
	}
	return wire.Errorf(wire.CodeNetwork, "the connection to %q: %v", c.peer.Name, err)
}

// run reads and writes until the connection has ended, and gives the cause. read runs until an error; next gives the writer
// what to write now, and done is told when it was written; tick is called each half ping interval, with the lock.
func (c *conn) run(read func() error, next func() [][]byte, done func(well bool), tick func(time.Time)) *wire.Error {
	c.source = &watched{c: c}
	c.rd.Reset(c.source)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.writeLoop(next, done, tick); err != nil {
			c.lockedFail(err)
		}
	})
	c.lockedFail(read())
	c.drain()
	wg.Wait()
	_ = c.tcp.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killer.Stop()
	return c.cause
}

// drain reads on for nothing until the connection is closed, so that the peer gets the ERROR that it is sent.
func (c *conn) drain() {
	for buf := make([]byte, 16<<10); ; {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

func (c *conn) writeLoop(next func() [][]byte, done func(well bool), tick func(time.Time)) error {
	ticker := time.NewTicker(c.limits.PingInterval / 2)
	defer ticker.Stop()
	for {
		select {
		case <-c.kick:
		case now := <-ticker.C:
			c.mu.Lock()
			c.ping(now)
			tick(now)
			c.mu.Unlock()
		}
		for {
			if c.failing.Load() {
				return c.lastWords()
			}
			bufs := next()
			if len(bufs) == 0 {
				break
			}
			err := c.write(bufs)
			done(err == nil)
			if err != nil {
				return err
			}
		}
	}
}

// ping queues a PING where nothing was written for a while. The lock is held.
func (c *conn) ping(now time.Time) {
	if now.Sub(c.written) >= c.limits.PingInterval/2 && c.queued == 0 {
		c.pinged++
		c.control(func(b []byte) []byte { return wire.AppendPing(b, c.pinged) })
	}
}

// take gives the control frames that wait. The lock is held; the writer calls it once for each write.
func (c *conn) take() []byte {
	out := c.out
	c.out, c.spare, c.queued = c.spare[:0], out, 0
	return out
}

// write writes all buffers, with one time-out.
func (c *conn) write(bufs [][]byte) error {
	c.written = time.Now()
	if err := c.tcp.SetWriteDeadline(c.written.Add(c.limits.WriteTimeout)); err != nil {
		return err
	}
	var err error
	if p, ok := c.stream.(*packed); ok {
		err = p.writeAll(bufs)
	} else {
		c.batch = bufs
		_, err = c.batch.WriteTo(c.stream)
	}
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return wire.Errorf(wire.CodeTimeout, "%q took nothing for %v", c.peer.Name, c.limits.WriteTimeout)
	}
	return err
}

// lastWords says why the connection is being closed.
func (c *conn) lastWords() error {
	c.mu.Lock()
	told, cause := c.told, c.cause
	c.told = true
	c.mu.Unlock()
	if told {
		return nil
	}
	if err := c.write([][]byte{wire.AppendError(nil, cause)}); err != nil {
		return err
	}
	return c.CloseWrite()
}

// aside handles the frames that are about the connection. It reports whether this was one.
func (c *conn) aside(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypePing:
		n, err := wire.ParsePing(f)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.control(func(b []byte) []byte { return wire.AppendPong(b, n) })
		return true, err
	case wire.TypePong:
		n, err := wire.ParsePong(f)
		c.mu.Lock()
		defer c.mu.Unlock()
		if n <= c.ponged || n > c.pinged {
			return true, wire.Errorf(wire.CodeProtocol, "PONG %d after %d, and PING %d was the last", n, c.ponged, c.pinged)
		}
		c.ponged = n
		return true, err
	case wire.TypeError:
		e, err := wire.ParseError(f)
		if err != nil {
			return true, err
		}
		return true, e
	}
	return false, nil
}

// unexpected is the error for a frame that the other side sends, or that has its time in the handshake.
func unexpected(f wire.Frame) error {
	return wire.Errorf(wire.CodeProtocol, "%v does not belong here", f.Type)
}

// watched reads with the time-out for a peer that is silent.
type watched struct {
	c   *conn
	set time.Time
}

func (w *watched) Read(b []byte) (int, error) {
	if err := w.extend(); err != nil {
		return 0, err
	}
	return w.c.stream.Read(b)
}

// extend moves the deadline, and not for every read: it is at most an eighth late.
func (w *watched) extend() error {
	now, timeout := time.Now(), w.c.limits.PeerTimeout
	if now.Sub(w.set) < timeout/8 {
		return nil
	}
	w.set = now
	return w.c.tcp.SetReadDeadline(now.Add(timeout + timeout/8))
}
