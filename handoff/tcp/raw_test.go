package tcp

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// raw is one end of a connection in a test's own hands: after a handshake in order it does as it likes.
type raw struct {
	t  testing.TB
	p  *pair
	rd *wire.Reader
}

func newRaw(t testing.TB, p *pair, err error) *raw {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.tcp.Close() })
	return &raw{t: t, p: p, rd: p.rd}
}

// rawTarget is a target that has connected to the rig's outlet.
func (r *rig) rawTarget(name string, edits ...func(*Config)) *raw {
	r.t.Helper()
	cfg := config(name)
	for _, edit := range edits {
		edit(&cfg)
	}
	c, err := cfg.check()
	if err != nil {
		r.t.Fatal(err)
	}
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := c.asTarget(nc, "", "")
	return newRaw(r.t, p, err)
}

// rawSource is a source that the rig's inlet has connected to and entered a room at.
func (r *rig) rawSource(room bulkhead.Room) *raw {
	r.t.Helper()
	c, err := config("prefill-1").check()
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r.in.Enter(room, handoff.Peer{Name: "prefill-1", Addr: l.Addr().String()}, claim)
	nc, err := l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := c.asSource(nc, "", func(*pair) {})
	w := newRaw(r.t, p, err)
	w.want(wire.TypeEnter)
	return w
}

func (w *raw) send(frames ...[]byte) {
	w.t.Helper()
	for _, b := range frames {
		if _, err := w.p.Write(b); err != nil {
			w.t.Fatal(err)
		}
	}
}

// want is the next frame that is not a ping, and of the type.
func (w *raw) want(typ wire.Type) wire.Frame {
	w.t.Helper()
	f, err := w.next()
	if err != nil || f.Type != typ {
		w.t.Fatalf("got %v %q, %v; want %v", f.Type, f.Body, err, typ)
	}
	return f
}

func (w *raw) next() (wire.Frame, error) {
	_ = w.p.SetReadDeadline(time.Now().Add(patience))
	for {
		f, err := w.rd.Next()
		if err == nil && f.Type == wire.TypePing {
			n, _ := wire.ParsePing(f)
			w.send(wire.AppendPong(nil, n))
			continue
		}
		return f, err
	}
}

// refused awaits that the other end closes the connection with a code and words, and then nothing more.
func (w *raw) refused(code wire.Code, words ...string) {
	w.t.Helper()
	for {
		f, err := w.next()
		if err != nil {
			w.t.Fatalf("%v; want an ERROR with %v", err, code)
		}
		if f.Type != wire.TypeError {
			continue
		}
		e, err := wire.ParseError(f)
		if err != nil || e.Code != code {
			w.t.Fatalf("%v, %v; want %v", e, err, code)
		}
		for _, s := range words {
			if !strings.Contains(e.Text, s) {
				w.t.Errorf("%q does not say %q", e.Text, s)
			}
		}
		if _, err := w.next(); !errors.Is(err, io.EOF) {
			w.t.Errorf("after the ERROR: %v", err)
		}
		return
	}
}

func (w *raw) enter(room bulkhead.Room, c handoff.Claim) {
	w.t.Helper()
	w.send(wire.AppendEnter(nil, room, c))
}

// stopped awaits a STOP and gives what it says.
func (w *raw) stopped(room bulkhead.Room) *bulkhead.End {
	w.t.Helper()
	f := w.want(wire.TypeStop)
	if f.Room != room {
		w.t.Fatalf("STOP of room %v, want %v", f.Room, room)
	}
	why, err := wire.ParseStop(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return why
}

// page reads one page, the frame and what follows it.
func (w *raw) page() (wire.Page, []byte) {
	w.t.Helper()
	f := w.want(wire.TypePage)
	p, err := wire.ParsePage(f)
	if err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, p.Bytes)
	n := w.rd.Buffered(b)
	if _, err := io.ReadFull(w.p, b[n:]); err != nil {
		w.t.Fatal(err)
	}
	return p, b
}

// listener is the address of somebody who takes connections and says nothing.
func listener(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
