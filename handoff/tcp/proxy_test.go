package tcp

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between an inlet and an outlet.
type proxy struct {
	addr string
	up   func(n int64, b []byte) int // to the source: the first byte's place and the bytes; how many of them may pass
	down func(n int64, b []byte) int // to the target

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

// newProxy passes everything on until up or down cuts: then both sides are reset.
func newProxy(t testing.TB, to string, set ...func(p *proxy)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := func(_ int64, b []byte) int { return len(b) }
	p := &proxy{addr: l.Addr().String(), up: all, down: all}
	for _, f := range set {
		f(p)
	}
	p.wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, a, b)
			p.mu.Unlock()
			p.wg.Go(func() { pass(b, a, p.up) })
			p.wg.Go(func() { pass(a, b, p.down) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.wg.Wait() })
	return p
}

func pass(to, from net.Conn, may func(int64, []byte) int) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 4096)
	for at := int64(0); ; {
		n, err := from.Read(buf)
		ok := may(at, buf[:n])
		if _, werr := to.Write(buf[:ok]); werr != nil || err != nil || ok < n {
			if err == io.EOF && werr == nil && ok == n {
				_ = to.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, from)
			}
			return
		}
		at += int64(n)
	}
}

// cut closes everything.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}
