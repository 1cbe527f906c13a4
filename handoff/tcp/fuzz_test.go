package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// script turns bytes into frames that are in order, of any content, with what is left as raw bytes: a fuzzer that had to
// guess checksums would never get past the reader.
func script(data []byte, size int) (out []byte) {
	for len(data) >= 4 {
		op, a, b, n := data[0], int(data[1]), int(data[2]), int(data[3])
		data = data[4:]
		room := bulkhead.Room(1 + a%3)
		switch op % 18 {
		case 0:
			c := claim
			c[0] ^= byte(b & 1)
			out = wire.AppendEnter(out, room, c)
		case 1:
			out = wire.AppendPull(out, room, b%6, 1+n%4)
		case 2:
			out = wire.AppendCommit(out, room)
		case 3:
			out = wire.AppendAbandon(out, room, b%6-1)
		case 4:
			out = wire.AppendPing(out, uint64(b))
		case 5:
			out = wire.AppendPong(out, uint64(b))
		case 6:
			out = wire.AppendOffer(out, room, b%6)
		case 7:
			out = wire.AppendPage(out, room, wire.Page{Page: b % 6, Bytes: size})
			out = append(out, make([]byte, size)...)
		case 8:
			out = wire.AppendPage(out, room, wire.Page{Page: b % 6, Bytes: 1 + n*10})
		case 9:
			out = wire.AppendPage(out, room, wire.Page{Page: b % 6, Bytes: size, Ring: true, Offset: uint64(n) * 4096})
		case 10:
			out = wire.AppendStop(out, room, &bulkhead.End{Reason: bulkhead.Reason(b % 9)})
		case 11:
			out = wire.AppendDone(out, room)
		case 12:
			out = wire.AppendRing(out, wire.Ring{Slots: 1 + b, SlotBytes: 4096})
		case 13:
			out = wire.AppendCredit(out, b)
		case 14:
			out = wire.AppendError(out, wire.Errorf(wire.Code(b), "fuzz"))
		case 15:
			out = wire.AppendAuth(out, wire.Proof{byte(b)})
		case 16:
			k := min(n, len(data))
			out, data = append(out, data[:k]...), data[k:]
		case 17:
			if len(out) > 0 {
				out[(a<<8|b)%len(out)] ^= byte(1 << (n % 8))
			}
		}
	}
	return append(out, data...)
}

func seeds(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 2, 2, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 2, 1, 0, 2, 0, 3, 1, 0, 0, 2, 0, 0, 0})
	f.Add([]byte{6, 0, 3, 0, 7, 0, 0, 0, 7, 0, 1, 0, 7, 0, 2, 0, 10, 0, 3, 0, 11, 0, 0, 0})
	f.Add([]byte{6, 0, 3, 0, 8, 0, 0, 3, 4, 0, 0, 0, 14, 0, 0, 0})
	f.Add([]byte{16, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 17, 0, 3, 1})
}

// FuzzTarget has a target that has proven itself send anything: the outlet never panics and never hangs, and each room has
// at most one outcome, exactly one where the target had entered.
func FuzzTarget(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, nil)
		for room := bulkhead.Room(1); room <= 2; room++ {
			r.out.Open(room, handoff.Peer{}, claim)
			r.out.Publish(offer(room, 4), pages(1, 4))
		}
		w := r.rawTarget("decode-1")
		_, _ = w.p.Write(script(data, layout.PageBytes()))
		_ = w.p.CloseWrite()
		drainAll(t, w.p)
		r.await("the connection's end", func() bool { return r.out.Stats().Connections == 0 })
		r.ends = append(r.ends, r.out.Receive()...)
		seen := map[bulkhead.Room]int{}
		for _, m := range r.ends {
			if seen[m.Room]++; seen[m.Room] > 1 {
				t.Fatalf("room %v has two outcomes: %v", m.Room, r.ends)
			}
		}
		if s := r.out.Stats(); s.InFlight != 0 || int(s.Entered) != len(r.ends) || s.Waiting != 0 {
			t.Fatalf("left: %+v, heard %v", s, r.ends)
		}
	})
}

// FuzzSource has a source that has proven itself send anything while three pages are pulled.
func FuzzSource(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, nil)
		w := r.rawSource(1)
		w.send(wire.AppendOffer(nil, 1, 3))
		r.offered(1, 3)
		for i := range 3 {
			r.in.Pull(1, i, newLanding())
		}
		w.want(wire.TypePull)
		_, _ = w.p.Write(script(data, layout.PageBytes()))
		_ = w.p.CloseWrite()
		drainAll(t, w.p)
		r.awaitHeard(1, handoff.Lost)
		r.oneArrivalEach(1, 3)
	})
}

// FuzzHandshake has a stranger send anything to both ends.
func FuzzHandshake(f *testing.F) {
	c, err := config("x").check()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(wire.AppendHello(nil, c.hello(wire.Target, "")))
	f.Add(wire.AppendAuth(wire.AppendHello(nil, c.hello(wire.Source, "")), wire.Proof{}))
	f.Add(wire.AppendError(nil, wire.Errorf(wire.CodeModel, "no")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, shake := range []func(nc net.Conn) error{
			func(nc net.Conn) error { _, err := c.asSource(nc, "", func(*pair) {}); return err },
			func(nc net.Conn) error { _, err := c.asTarget(nc, "", ""); return err },
		} {
			a, b := socketPair(t)
			done := make(chan error)
			go func() { done <- shake(a) }()
			_, _ = b.Write(data)
			_ = b.CloseWrite()
			drainAll(t, b)
			if err := <-done; err == nil {
				t.Fatal("a stranger was taken for a peer")
			}
		}
	})
}

func socketPair(t *testing.T) (a net.Conn, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b = dial(t, l.Addr().String()).(*net.TCPConn)
	if a, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// drainAll reads until the other end has closed, which it must.
func drainAll(t *testing.T, nc net.Conn) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	for buf := make([]byte, 4096); ; {
		if _, err := nc.Read(buf); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Fatal("the other end hangs")
			}
			return
		}
	}
}
