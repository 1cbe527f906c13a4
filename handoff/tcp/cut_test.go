package tcp

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// session runs two rooms of three pages through a proxy that cuts the connection, to whatever end. It checks what must hold
// wherever the cut was: one arrival for every pull, with the whole page or an error; one outcome on each side, and never a
// commit at the source that the target has not made; nothing left over.
func session(t *testing.T, r *rig, addr string) {
	const each = 3
	sources := map[int][][]byte{1: pages(1, each), 2: pages(2, each)}
	lands := map[int][]*landing{}
	peer := handoff.Peer{Name: "prefill-1", Addr: addr}
	for room, p := range sources {
		r.out.Open(roomOf(room), r.target(), claim)
		r.in.Enter(roomOf(room), peer, claim)
		r.out.Publish(offer(roomOf(room), each), p)
	}
	committed := map[int]bool{}
	over := func(room int) bool { return committed[room] || r.heard(roomOf(room), handoff.Lost) != nil }
	r.await("both rooms are over at the target", func() bool {
		for room := range sources {
			id := roomOf(room)
			if over(room) {
				continue
			}
			if lands[room] == nil && r.heard(id, handoff.Offer) != nil {
				for i := range each {
					lands[room] = append(lands[room], newLanding())
					r.in.Pull(id, i, lands[room][i])
				}
			}
			whole := 0
			for _, a := range r.arrivals {
				if a.Room == id && a.Err == nil {
					whole++
				}
			}
			if whole == each {
				committed[room] = true
				r.commit(id)
			}
		}
		return over(1) && over(2)
	})
	for room, p := range sources {
		id := roomOf(room)
		r.await("the room's end at the source", func() bool { return find(r.ends, id, handoff.Commit) != nil || find(r.ends, id, handoff.Lost) != nil })
		if find(r.ends, id, handoff.Commit) != nil && !committed[room] {
			t.Errorf("room %d: the source hears of a commit that was not made", room)
		}
		if lands[room] != nil {
			for _, a := range r.arrived(id, each) {
				if l := lands[room][a.Page]; a.Err == nil && (!bytes.Equal(l.b, p[a.Page]) || l.examined != len(l.b)) {
					t.Errorf("room %d page %d is not whole", room, a.Page)
				}
			}
		}
		r.out.Close(id)
	}
	if n := len(r.arrivals); n != each*len(lands) {
		t.Errorf("%d arrivals of %d pulls", n, each*len(lands))
	}
	if len(r.ends) != 2 {
		t.Errorf("the source heard %v", r.ends)
	}
	if a, b := r.out.Stats(), r.in.Stats(); a.InFlight != 0 || b.InFlight != 0 || a.Rooms != 0 || b.Rooms != 0 {
		t.Errorf("left over: source %+v\ntarget %+v", a, b)
	}
}

// The connection is cut after each possible number of bytes from the target, and at many from the source: at every frame's
// border, within frames, and within pages.
func TestCut(t *testing.T) {
	for _, way := range transports[:2] {
		t.Run(way.name, func(t *testing.T) {
			up, down := int64(600), int64(700+6*(layout.PageBytes()+48))
			step := int64(23)
			if testing.Short() {
				step = 211
			}
			cut := func(t *testing.T, set func(p *proxy)) {
				r := newRig(t, func(out, in *Config) {
					way.set(t, out)
					way.set(t, in)
					out.Limits.EntryTimeout = 60 * time.Millisecond // of rooms that nobody can enter
				})
				p := newProxy(t, r.addr, set)
				session(t, r, p.addr)
				r.in.Shutdown()
				r.out.Shutdown()
			}
			for at := int64(0); at < up; at += step / 2 {
				cut(t, func(p *proxy) { p.up = upTo(at) })
			}
			if way.name == "shared" {
				down = 1200
			}
			for at := int64(0); at < down; at += step {
				cut(t, func(p *proxy) { p.down = upTo(at) })
			}
		})
	}
}

func upTo(most int64) func(int64, []byte) int {
	return func(at int64, b []byte) int { return int(max(0, min(int64(len(b)), most-at))) }
}

// One bit of a page is changed on the way: the frame is in order, the page comes, and its proof fails.
func TestDamagedPage(t *testing.T) {
	r := newRig(t, nil)
	var hit atomic.Bool
	ids := kv.NewIdentities([32]byte{4}, "tenant", [32]byte{7}, layout)
	tokens := prompt(16, 1)
	from, to := newPool(t, 2), newPool(t, 2)
	seq := prefill(t, from, ids, tokens)
	needle := seq.Pages()[0][layout.KOffset(1, 0) : layout.KOffset(1, 0)+16]
	p := newProxy(t, r.addr, func(p *proxy) {
		p.down = func(_ int64, b []byte) int {
			if i := bytes.Index(b, needle); i >= 0 {
				b[i+3] ^= 0x10
				hit.Store(true)
			}
			return len(b)
		}
	})
	r.out.Open(1, r.target(), claim)
	r.in.Enter(1, handoff.Peer{Addr: p.addr}, claim)
	r.out.Publish(offer(1, 1), seq.Pages())
	r.offered(1, 1)
	res, _ := to.Reserve(ids, tokens)
	l := res.Land(0)
	r.in.Pull(1, 0, kvLanding{l})
	if a := r.arrived(1, 1); a[0].Err != nil {
		t.Fatal(a)
	}
	if v := l.Prove(); !hit.Load() || v == nil || v.Layer != 1 {
		t.Errorf("damaged: %v, found %v", hit.Load(), v)
	}
	res.Abandon()
	r.in.End(handoff.Message{Room: 1, Kind: handoff.Abandon, Page: 0})
	if m := r.awaitEnded(1, handoff.Abandon); m.Page != 0 {
		t.Errorf("blames %d", m.Page)
	}
}

// A peer that is stopped (SIGSTOP, a host that is gone) is noticed by both sides within PeerTimeout or so.
func TestSilence(t *testing.T) {
	for name, of := range map[string]func(p *proxy, quiet func(int64, []byte) int){
		"source": func(p *proxy, quiet func(int64, []byte) int) { p.down = quiet },
		"target": func(p *proxy, quiet func(int64, []byte) int) { p.up = quiet },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			var silent atomic.Bool
			stop := make(chan struct{})
			p := newProxy(t, r.addr, func(p *proxy) {
				of(p, func(_ int64, b []byte) int {
					if silent.Load() {
						<-stop
					}
					return len(b)
				})
			})
			t.Cleanup(func() { close(stop) }) // before the proxy waits for what is stuck
			r.out.Open(1, r.target(), claim)
			r.in.Enter(1, handoff.Peer{Addr: p.addr}, claim)
			r.out.Publish(offer(1, 3), pages(1, 3))
			r.offered(1, 3)
			time.Sleep(2 * r.in.cfg.Limits.PeerTimeout) // idle is not silent
			if s := r.in.Stats(); s.Connections != 1 {
				t.Fatalf("an idle connection was closed: %+v", s)
			}
			silent.Store(true)
			start := time.Now()
			r.in.Pull(1, 0, newLanding())
			r.awaitHeard(1, handoff.Lost)
			r.awaitEnded(1, handoff.Lost)
			if took := time.Since(start); took > 3*r.in.cfg.Limits.PeerTimeout {
				t.Errorf("noticed after %v", took)
			}
		})
	}
}
