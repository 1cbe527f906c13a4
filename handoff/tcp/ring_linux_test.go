package tcp

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// logged is a log that a test looks at.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) says(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), s)
}

func shared(out, in *Config) { out.SharedMemory, in.SharedMemory = true, true }

// pullAll pulls all pages of a fresh room and checks them. It gives how many went through shared memory.
func (r *rig) pullAll(room bulkhead.Room, n int) uint64 {
	r.t.Helper()
	before := r.in.Stats().RingPages
	p := pages(int(room), n)
	r.open(room, p)
	lands := make([]*landing, n)
	for i := range lands {
		lands[i] = newLanding()
		r.in.Pull(room, i, lands[i])
	}
	for _, a := range r.arrived(room, n) {
		if a.Err != nil || !bytes.Equal(lands[a.Page].b, p[a.Page]) {
			r.t.Fatalf("%+v", a)
		}
	}
	r.commit(room)
	r.awaitEnded(room, handoff.Commit)
	r.out.Close(room)
	return r.in.Stats().RingPages - before
}

// Fewer slots than pages that are pulled: they go round.
func TestRingGoesRound(t *testing.T) {
	r := newRig(t, func(out, in *Config) {
		shared(out, in)
		out.Limits.RingBytes = 2 * slotBytes(layout.PageBytes())
		in.Limits.RingBytes = out.Limits.RingBytes
	})
	for room := bulkhead.Room(1); room < 4; room++ {
		if n := r.pullAll(room, 50); n != 50 {
			t.Errorf("%d of 50 pages through shared memory", n)
		}
	}
}

// Where either end does not offer it, or it cannot be had, pages go over TCP, and the log says why it could not.
func TestRingFallsBack(t *testing.T) {
	var log logged
	for name, x := range map[string]struct {
		edit  func(out, in *Config)
		spoil func(r *rig)
		says  string
	}{
		"the source does not":  {edit: func(out, in *Config) { shared(out, in); out.SharedMemory = false }},
		"the target does not":  {edit: func(out, in *Config) { shared(out, in); in.SharedMemory = false }},
		"another host":         {edit: shared, spoil: func(r *rig) { r.in.cfg.boot[0]++ }},
		"the socket is gone":   {edit: shared, spoil: func(r *rig) { r.out.ring.close() }, says: "pages go over TCP"},
		"a socket of somebody": {edit: shared, spoil: func(r *rig) { r.out.ring.name = "@somebody" }, says: "is none of a source's"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(out, in *Config) {
				x.edit(out, in)
				out.Log = slog.New(slog.NewTextHandler(&log, nil))
				in.Log = out.Log
			})
			if x.spoil != nil {
				x.spoil(r)
			}
			if n := r.pullAll(1, 5); n != 0 {
				t.Errorf("%d pages through shared memory", n)
			}
			if !log.says(x.says) {
				t.Errorf("the log does not say %q", x.says)
			}
		})
	}
}

// sharedTarget is a target in the test's hands that has mapped its ring.
func (r *rig) sharedTarget() (*raw, *ring, *Config) {
	r.t.Helper()
	cfg := config("decode-9")
	cfg.SharedMemory = true
	c, err := cfg.check()
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := c.asTarget(dial(r.t, r.addr), "", "")
	w := newRaw(r.t, p, err)
	g, err := fetchRing(c, p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(g.close)
	return w, g, c
}

func TestHostileTargetOfRing(t *testing.T) {
	for name, x := range map[string]struct {
		words string
		do    func(w *raw, g *ring)
	}{
		"another shape": {"were handed out", func(w *raw, g *ring) {
			w.send(wire.AppendRing(nil, wire.Ring{Slots: g.slots - 1, SlotBytes: uint64(g.size)}))
		}},
		"twice": {"no shared memory was handed out", func(w *raw, g *ring) { w.send(wire.AppendRing(nil, g.shape()), wire.AppendRing(nil, g.shape())) }},
		"a slot twice": {"does not have", func(w *raw, g *ring) {
			w.send(wire.AppendRing(nil, g.shape()))
			w.enter(1, claim)
			w.want(wire.TypeOffer)
			w.send(wire.AppendPull(nil, 1, 0, 1))
			p, _ := wire.ParsePage(w.want(wire.TypePage))
			slot, err := g.at(p.Offset)
			if err != nil || !bytes.Equal(g.slot(slot), pages(1, 3)[0]) {
				w.t.Errorf("%+v, %v", p, err)
			}
			w.send(wire.AppendCredit(nil, slot), wire.AppendCredit(nil, slot))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, shared)
			r.out.Open(1, handoff.Peer{Name: "decode-9"}, claim)
			r.out.Publish(offer(1, 3), pages(1, 3))
			w, g, _ := r.sharedTarget()
			x.do(w, g)
			w.refused(wire.CodeProtocol, x.words)
		})
	}
}

// The ring is handed to the target of its connection, once, and that one can only read.
func TestRingIsProven(t *testing.T) {
	r := newRig(t, shared)
	w, g, c := r.sharedTarget()
	if _, err := fetchRing(c, w.p); err == nil {
		t.Error("a ring was handed out twice")
	}
	cfg := config("decode-8")
	cfg.SharedMemory = true
	other, _ := cfg.check()
	p, err := other.asTarget(dial(t, r.addr), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.tcp.Close() }()
	thief := *other
	thief.Secret[5]++
	if _, err := fetchRing(&thief, p); err == nil {
		t.Error("a ring was handed to somebody without the secret")
	}
	forged := *p
	forged.transcript[0]++
	if _, err := fetchRing(other, &forged); err == nil {
		t.Error("a ring was handed to somebody with the proof of another connection")
	}
	mine, err := fetchRing(other, p)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.close()
	if &mine.mem[0] == &g.mem[0] {
		t.Error("two connections have one ring")
	}
	if err := unix.Mprotect(mine.mem, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("a target can write to the ring")
	}
}

// A target maps no memory that could become shorter, and none of another size than it was told.
func TestMapRing(t *testing.T) {
	page := layout.PageBytes()
	size := slotBytes(page)
	file := func(bytes, seals int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		if err := unix.Ftruncate(fd, int64(bytes)); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	const both = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	for name, x := range map[string]struct {
		fd          int
		slots, size uint64
	}{
		"not sealed":   {file(2*size, 0), 2, uint64(size)},
		"can shrink":   {file(2*size, unix.F_SEAL_GROW), 2, uint64(size)},
		"too short":    {file(2*size-1, both), 2, uint64(size)},
		"longer":       {file(3*size, both), 2, uint64(size)},
		"no slots":     {file(2*size, both), 0, uint64(size)},
		"other slots":  {file(2*size, both), 2 * uint64(size) / 4096, 4096 * 2},
		"overflowing":  {file(2*size, both), 1 << 63, uint64(size)},
		"not a memory": {0, 2, uint64(size)},
	} {
		if g, err := mapRing(x.fd, x.slots, x.size, page); err == nil {
			g.close()
			t.Errorf("%s: mapped", name)
		}
	}
	g, err := mapRing(file(2*size, both), 2, uint64(size), page)
	if err != nil {
		t.Fatal(err)
	}
	g.close()
}

// A source that names a place outside of the ring is hung up on.
func TestHostileSourceOfRing(t *testing.T) {
	for name, offset := range map[string]uint64{"outside": 1 << 40, "between": 64, "overflowing": 1<<64 - 4096} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, shared)
			cfg := config("prefill-1")
			cfg.SharedMemory = true
			c, _ := cfg.check()
			srv, err := newRingServer(c)
			if err != nil {
				t.Fatal(err)
			}
			defer srv.close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			r.in.Enter(1, handoff.Peer{Addr: l.Addr().String()}, claim)
			nc, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.asSource(nc, srv.socket(), srv.expect)
			w := newRaw(t, p, err)
			defer srv.forget(p)
			w.want(wire.TypeRing)
			w.want(wire.TypeEnter)
			w.send(wire.AppendOffer(nil, 1, 1))
			r.offered(1, 1)
			r.in.Pull(1, 0, newLanding())
			w.want(wire.TypePull)
			w.send(wire.AppendPage(nil, 1, wire.Page{Bytes: layout.PageBytes(), Ring: true, Offset: offset}))
			w.refused(wire.CodeProtocol, "of shared memory")
			r.oneArrivalEach(1, 1)
		})
	}
}
