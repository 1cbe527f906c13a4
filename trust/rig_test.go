package trust

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a directory with one authority's nodes.
type place struct {
	t   *testing.T
	dir string
	a   *Authority
}

func newPlace(t *testing.T) *place {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &place{t, t.TempDir(), a}
}

func grant(role Role, name string) Grant {
	now := time.Now()
	return Grant{Subject: Subject{role, name}, Hosts: []string{"127.0.0.1", "localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * 24 * time.Hour)}
}

// issue makes a node's directory.
func (p *place) issue(g Grant) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, g.Name)
	if err := p.a.Issue(dir, g); err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// node makes a node's directory and loads it.
func (p *place) node(role Role, name string) *Node { return p.load(p.issue(grant(role, name)), nil) }

func (p *place) load(dir string, log *slog.Logger) *Node {
	p.t.Helper()
	n, err := Load(dir, log)
	if err != nil {
		p.t.Fatal(err)
	}
	n.every = 0
	return n
}

// lines is a log that a test can read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// meet joins two ends over a connection and sends one byte each way, because a TLS 1.3 client learns only with the first read
// that it was refused.
func meet(t *testing.T, server, client *tls.Config) (s tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	return join(t, func(c net.Conn) (tls.ConnectionState, error) { return exchange(tls.Server(c, server)) },
		func(c net.Conn) error { _, err := exchange(tls.Client(c, client)); return err })
}

func join(t *testing.T, server func(net.Conn) (tls.ConnectionState, error), client func(net.Conn) error) (s tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wait sync.WaitGroup
	wait.Go(func() {
		c, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		s, serverErr = server(c)
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(10 * time.Second))
	clientErr = client(c)
	c.Close()
	wait.Wait()
	return s, serverErr, clientErr
}

func exchange(c *tls.Conn) (tls.ConnectionState, error) {
	if err := c.Handshake(); err != nil {
		return tls.ConnectionState{}, err
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return tls.ConnectionState{}, err
	}
	_, err := c.Read(make([]byte, 1))
	return c.ConnectionState(), err
}

func write(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
