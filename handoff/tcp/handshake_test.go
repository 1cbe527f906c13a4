package tcp

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// A peer that pages cannot go to is refused at the first frame, and both sides say what differs, with both values.
func TestRefusedPeers(t *testing.T) {
	for name, x := range map[string]struct {
		code  wire.Code
		edit  func(out, in *Config)
		words []string
	}{
		"model":         {wire.CodeModel, func(_, in *Config) { in.Fingerprint[0] = 8 }, []string{"08000000", "07000000"}},
		"layers":        {wire.CodeLayout, func(_, in *Config) { in.Layout.Layers = 3 }, []string{"3 ", "2 "}},
		"heads":         {wire.CodeLayout, func(_, in *Config) { in.Layout.KVHeads = 1 }, []string{"1 ", "2 "}},
		"head size":     {wire.CodeLayout, func(_, in *Config) { in.Layout.HeadSize = 8 }, []string{"8", "4"}},
		"page size":     {wire.CodePageSize, func(_, in *Config) { in.Layout.PageTokens = 32 }, []string{"32", "16"}},
		"secret":        {wire.CodeSecret, func(_, in *Config) { in.Secret[0] = 9 }, []string{"same secret"}},
		"ping interval": {wire.CodeLimit, func(_, in *Config) { in.Limits.PingInterval, in.Limits.PeerTimeout = time.Second, 3*time.Second }, []string{"1s", "400ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, x.edit)
			r.in.Enter(5, r.source(), claim)
			m := r.awaitHeard(5, handoff.Lost)
			for _, w := range append(x.words, x.code.String()) {
				if !strings.Contains(m.Text, w) {
					t.Errorf("%q does not say %q", m.Text, w)
				}
			}
			r.await("both counts", func() bool { return r.out.Stats().Refused[x.code] == 1 && r.in.Stats().Refused[x.code] == 1 })
		})
	}
}

func TestNames(t *testing.T) {
	t.Run("dialled", func(t *testing.T) {
		r := newRig(t, nil)
		r.in.Enter(5, handoff.Peer{Name: "prefill-2", Addr: r.addr}, claim)
		if m := r.awaitHeard(5, handoff.Lost); !strings.Contains(m.Text, "prefill-1") || !strings.Contains(m.Text, "prefill-2") {
			t.Error(m.Text)
		}
	})
	for _, side := range []string{"source", "target"} {
		t.Run("certificate of another "+side, func(t *testing.T) {
			r := newRig(t, func(out, in *Config) {
				withTLS(t, out)
				withTLS(t, in)
				c := map[string]*Config{"source": out, "target": in}[side]
				c.TLS = certified(t, "somebody")
			})
			r.in.Enter(5, handoff.Peer{Addr: r.addr}, claim)
			if m := r.awaitHeard(5, handoff.Lost); !strings.Contains(m.Text, "somebody") || !strings.Contains(m.Text, "name") {
				t.Error(m.Text)
			}
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		r := newRig(t, func(out, in *Config) { withTLS(t, out); withTLS(t, in); in.TLS.Certificates = nil })
		r.in.Enter(5, r.source(), claim)
		r.awaitHeard(5, handoff.Lost)
		if s := r.out.Stats(); s.Connected != 0 {
			t.Errorf("connected: %+v", s)
		}
	})
	t.Run("plaintext to TLS", func(t *testing.T) {
		r := newRig(t, func(out, _ *Config) { withTLS(t, out) })
		r.in.Enter(5, r.source(), claim)
		r.awaitHeard(5, handoff.Lost)
	})
	t.Run("TLS to plaintext", func(t *testing.T) {
		r := newRig(t, func(_, in *Config) { withTLS(t, in) })
		r.in.Enter(5, r.source(), claim)
		r.awaitHeard(5, handoff.Lost)
	})
}

// A peer of another version hears which versions there are, in an ERROR that every version can read, and who said so.
func TestVersions(t *testing.T) {
	r := newRig(t, nil)
	for name, lohi := range map[string][2]uint16{"newer": {2, 3}, "much newer": {900, 900}} {
		t.Run(name, func(t *testing.T) {
			c, _ := config("decode-1").check()
			h := c.hello(wire.Target, "")
			h.Min, h.Max = lohi[0], lohi[1]
			nc := dial(t, r.addr)
			if _, err := nc.Write(wire.AppendHello(nil, h)); err != nil {
				t.Fatal(err)
			}
			rd := wire.NewReader(nc)
			f, err := rd.Next()
			if err != nil || f.Type != wire.TypeHello {
				t.Fatalf("%v, %v", f.Type, err)
			}
			if lo, hi, err := wire.Versions(f); lo != 1 || hi != 1 || err != nil {
				t.Errorf("versions %d to %d, %v", lo, hi, err)
			}
			if f, err = rd.Next(); err != nil || f.Type != wire.TypeError {
				t.Fatalf("%v, %v", f.Type, err)
			}
			if e, err := wire.ParseError(f); err != nil || e.Code != wire.CodeVersion || !strings.Contains(e.Text, itoa(int(lohi[1]))) {
				t.Errorf("%v, %v", e, err)
			}
		})
	}
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// A proof cannot be sent back to who made it, nor used again on another connection, and nothing comes before it.
func TestProofsOnTheWire(t *testing.T) {
	r := newRig(t, nil)
	c, _ := config("decode-1").check()
	attempt := func(t *testing.T, code wire.Code, answer func(mine, source []byte) []byte) {
		nc := dial(t, r.addr)
		mine := wire.AppendHello(nil, c.hello(wire.Target, ""))
		_, _ = nc.Write(mine)
		rd := wire.NewReader(nc)
		if _, err := rd.Next(); err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write(answer(mine, append([]byte(nil), rd.Raw()...)))
		f, err := rd.Next()
		if err != nil || f.Type != wire.TypeError {
			t.Fatalf("%v, %v", f.Type, err)
		}
		if e, err := wire.ParseError(f); err != nil || e.Code != code {
			t.Errorf("%v, %v, want %v", e, err, code)
		}
	}
	var old []byte
	t.Run("wrong use", func(t *testing.T) {
		attempt(t, wire.CodeSecret, func(mine, source []byte) []byte {
			old = wire.AppendAuth(nil, wire.NewTranscript(mine, source, nil).Prove(&c.Secret, wire.ProofTarget))
			return wire.AppendAuth(nil, wire.NewTranscript(mine, source, nil).Prove(&c.Secret, wire.ProofSource))
		})
	})
	t.Run("used again", func(t *testing.T) { attempt(t, wire.CodeSecret, func(_, _ []byte) []byte { return old }) })
	t.Run("left out", func(t *testing.T) {
		attempt(t, wire.CodeProtocol, func(_, _ []byte) []byte { return wire.AppendEnter(nil, 5, claim) })
	})
}

// Whoever speaks something else learns nothing, and whoever says nothing is hung up on.
func TestStrangers(t *testing.T) {
	r := newRig(t, func(out, _ *Config) { out.Limits.HandshakeTimeout = 150 * time.Millisecond })
	t.Run("http", func(t *testing.T) {
		nc := dial(t, r.addr)
		_, _ = io.WriteString(nc, "GET /metrics HTTP/1.1\r\nHost: prefill\r\n\r\n")
		got, _ := io.ReadAll(nc)
		f, err := wire.NewReader(strings.NewReader(string(got))).Next()
		if err != nil || f.Type != wire.TypeError {
			t.Errorf("heard %q, %v", got, err)
		}
	})
	t.Run("no HELLO first", func(t *testing.T) {
		nc := dial(t, r.addr)
		_, _ = nc.Write(wire.AppendEnter(nil, 5, claim))
		if f, err := wire.NewReader(nc).Next(); err != nil || f.Type != wire.TypeError {
			t.Errorf("heard %v, %v; want nothing but an ERROR", f.Type, err)
		}
	})
	t.Run("silence", func(t *testing.T) {
		nc := dial(t, r.addr)
		start := time.Now()
		if got, err := io.ReadAll(nc); len(got) != 0 || err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("heard %q, %v, after %v", got, err, time.Since(start))
		}
	})
	r.await("all counts", func() bool {
		s := r.out.Stats()
		return s.Refused[wire.CodeMalformed] == 1 && s.Refused[wire.CodeProtocol] == 1 && s.Refused[wire.CodeTimeout] == 1
	})
}

func TestConfigCheck(t *testing.T) {
	for name, edit := range map[string]func(c *Config){
		"name of 0 bytes":   func(c *Config) { c.Name = "" },
		"name of 300 bytes": func(c *Config) { c.Name = strings.Repeat("n", 300) },
		"no secret":         func(c *Config) { c.Secret = [32]byte{} },
		"PeerName":          func(c *Config) { c.TLS = &tls.Config{} },
		"layers":            func(c *Config) { c.Layout.Layers = 0 },
		"InFlight is 100":   func(c *Config) { c.Limits.InFlight = 100 },
		"Rooms is 0":        func(c *Config) { c.Limits.Rooms = 0 },
		"ConnRooms is 9000": func(c *Config) { c.Limits.ConnRooms = 9000 },
		"PullRun is 900":    func(c *Config) { c.Limits.PullRun = 900 },
		"Queue is 100":      func(c *Config) { c.Limits.Queue = 100 },
		"PeerTimeout is":    func(c *Config) { c.Limits.PeerTimeout = c.Limits.PingInterval },
		"StallTimeout is":   func(c *Config) { c.Limits.StallTimeout = 0 },
		"DialTimeout is":    func(c *Config) { c.Limits.DialTimeout = 2 * time.Hour },
		"RingBytes is 1":    func(c *Config) { c.SharedMemory, c.Limits.RingBytes = true, 1 },
	} {
		c := config("x")
		edit(&c)
		_, err := NewOutlet(c)
		if _, err2 := NewInlet(c); err == nil || err2 == nil || !strings.Contains(err.Error(), name) || err.Error() != err2.Error() {
			t.Errorf("%s: %v, %v", name, err, err2)
		}
	}
}

// A peer that is not there is said so at once, and is not dialled more often than the backoff allows.
func TestUnreachable(t *testing.T) {
	r := newRig(t, func(_, in *Config) { in.Limits.Backoff = 100 * time.Millisecond })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := handoff.Peer{Addr: l.Addr().String()}
	_ = l.Close()
	start := time.Now()
	for room := bulkhead.Room(1); room <= 5; room++ {
		r.in.Enter(room, gone, claim)
		if m := r.awaitHeard(room, handoff.Lost); !strings.Contains(m.Text, gone.Addr) {
			t.Error(m.Text)
		}
	}
	if took := time.Since(start); took < 350*time.Millisecond || took > 3*time.Second {
		t.Errorf("5 attempts took %v", took)
	}
	if s := r.in.Stats(); s.Unreachable != 5 || s.Lost != 5 || s.Rooms != 0 {
		t.Errorf("%+v", s)
	}
	r.in.Enter(9, handoff.Peer{Addr: "no port"}, claim)
	if m := r.awaitHeard(9, handoff.Lost); !strings.Contains(m.Text, "no port") {
		t.Error(m.Text)
	}
}

func TestTooManyConnections(t *testing.T) {
	r := newRig(t, func(out, _ *Config) { out.Limits.Connections = 2 })
	r.rawTarget("decode-1")
	r.rawTarget("decode-2")
	r.in.Enter(5, r.source(), claim)
	if m := r.awaitHeard(5, handoff.Lost); !strings.Contains(m.Text, "2 peers are connected (Connections)") {
		t.Error(m.Text)
	}
	if n := r.out.Stats().Refused[wire.CodeConnections]; n != 1 {
		t.Errorf("%d refused", n)
	}
}

func TestTooManyHandshakes(t *testing.T) {
	r := newRig(t, func(out, _ *Config) { out.Limits.Handshakes = 1 })
	dial(t, r.addr)
	r.await("the first", func() bool { r.out.mu.Lock(); defer r.out.mu.Unlock(); return len(r.out.shaking) == 1 })
	nc := dial(t, r.addr)
	f, err := wire.NewReader(nc).Next()
	if err != nil || f.Type != wire.TypeError {
		t.Fatalf("%v, %v", f.Type, err)
	}
	if e, _ := wire.ParseError(f); e.Code != wire.CodeConnections || !strings.Contains(e.Text, "Handshakes") {
		t.Error(e)
	}
}

// An inlet makes room for another peer by closing a connection without rooms, and not one that is in use.
func TestTooManyPeers(t *testing.T) {
	r := newRig(t, func(_, in *Config) { in.Limits.Connections = 1 })
	r.out.Open(1, r.target(), claim)
	r.in.Enter(1, r.source(), claim)
	r.await("entry", func() bool { return r.out.Stats().Entered == 1 })
	other := handoff.Peer{Addr: r.addr}
	r.in.Enter(2, other, claim)
	if m := r.awaitHeard(2, handoff.Lost); !strings.Contains(m.Text, "at most 1 (Connections)") {
		t.Error(m.Text)
	}
	r.abandon(1)
	r.awaitEnded(1, handoff.Abandon)
	r.await("DONE", func() bool { r.in.mu.Lock(); defer r.in.mu.Unlock(); return len(r.in.links[r.source()].rooms) == 0 })
	r.out.Open(3, r.target(), claim)
	r.in.Enter(3, other, claim)
	r.await("entry", func() bool { return r.out.Stats().Entered == 2 })
}
