package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
)

// conns are the open connections to one worker. The transport closes those that are idle; one that was dialled for a request
// that is gone can become idle after that, and would outlive its client.
type conns struct {
	dialer net.Dialer

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

type conn struct {
	net.Conn
	all *conns
}

var errClientClosed = errors.New("cluster: the client of this worker was closed")

// dial makes a connection that close closes.
func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := c.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
		return nil, errClientClosed
	}
	k := &conn{nc, c}
	c.open[k] = struct{}{}
	return k, nil
}

// Close closes the connection and forgets it.
func (k *conn) Close() error {
	k.all.mu.Lock()
	delete(k.all.open, k)
	k.all.mu.Unlock()
	return k.Conn.Close()
}

// close closes every connection, now and later.
func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	all := c.open
	c.open = map[*conn]struct{}{}
	c.mu.Unlock()
	for k := range all {
		k.Conn.Close()
	}
}
