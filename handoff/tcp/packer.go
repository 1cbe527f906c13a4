package tcp

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
)

const packBytes = 256 << 10

// packer is what lies below TLS, which writes and reads record by record, 16 KiB and a system call each. It gathers what is
// written until it is flushed, and reads ahead.
type packer struct {
	net.Conn
	in *bufio.Reader

	mu  sync.Mutex
	out []byte
	on  bool // gather; in the handshake nothing is
}

func newPacker(nc net.Conn) *packer { return &packer{Conn: nc, in: bufio.NewReaderSize(nc, packBytes)} }

func (p *packer) Read(b []byte) (int, error) { return p.in.Read(b) }

func (p *packer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return p.Conn.Write(b)
	}
	if len(p.out)+len(b) > packBytes {
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	p.out = append(p.out, b...)
	return len(b), nil
}

func (p *packer) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	_, err := p.Conn.Write(p.out)
	p.out = p.out[:0]
	return err
}

// packed is a TLS connection over a packer.
type packed struct {
	*tls.Conn
	p *packer
}

// writeAll writes buffers one after the other and sends them off together.
func (c *packed) writeAll(bufs [][]byte) error {
	c.p.mu.Lock()
	c.p.on = true
	c.p.mu.Unlock()
	for _, b := range bufs {
		if _, err := c.Conn.Write(b); err != nil {
			return err
		}
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.flush()
}

// CloseWrite says that nothing more comes.
func (c *packed) CloseWrite() error {
	err := c.Conn.CloseWrite()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if e := c.p.flush(); err == nil {
		err = e
	}
	return err
}
