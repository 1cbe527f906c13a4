package tcp

import (
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// answerPings keeps a raw end alive that does nothing else, until it is hung up on.
func (w *raw) answerPings(last chan<- wire.Frame) {
	for {
		f, err := w.next()
		if err != nil {
			close(last)
			return
		}
		if f.Type == wire.TypeError {
			f.Body = append([]byte(nil), f.Body...)
			last <- f
		}
	}
}

// A source that is alive and sends no page is hung up on; so is one that does not answer an end.
func TestStall(t *testing.T) {
	stall := func(out, in *Config) { in.Limits.StallTimeout = 150 * time.Millisecond }
	t.Run("no page", func(t *testing.T) {
		r := newRig(t, stall)
		w := r.rawSource(1)
		w.send(wire.AppendOffer(nil, 1, 2))
		r.offered(1, 2)
		r.in.Pull(1, 0, newLanding())
		r.in.Pull(1, 1, newLanding())
		last := make(chan wire.Frame, 1)
		go w.answerPings(last)
		if m := r.awaitHeard(1, handoff.Lost); !strings.Contains(m.Text, "page 0 of room") || !strings.Contains(m.Text, "150ms (StallTimeout)") {
			t.Error(m.Text)
		}
		r.oneArrivalEach(1, 2)
		for range last {
		}
	})
	t.Run("no answer", func(t *testing.T) {
		r := newRig(t, stall)
		w := r.rawSource(1)
		r.abandon(1)
		last := make(chan wire.Frame, 1)
		go w.answerPings(last)
		f := <-last
		if e, _ := wire.ParseError(f); e.Code != wire.CodeTimeout || !strings.Contains(e.Text, "was not answered") {
			t.Error(e)
		}
		for range last {
		}
		if len(r.messages) != 0 {
			t.Errorf("heard of a room that was over: %v", r.messages)
		}
	})
}

// A target that pulls and does not read is hung up on, and its room is lost only then.
func TestTargetDoesNotRead(t *testing.T) {
	r := newRig(t, func(out, _ *Config) {
		out.Limits.WriteTimeout, out.Limits.PeerTimeout = 150*time.Millisecond, time.Minute
		out.Limits.Pulls = 1 << 16
	})
	const n = 60000 // more than the sockets hold
	p := pages(1, 1)
	all := make([][]byte, n)
	for i := range all {
		all[i] = p[0]
	}
	r.out.Open(1, handoff.Peer{}, claim)
	r.out.Publish(offer(1, n), all)
	w := r.rawTarget("decode-1", func(c *Config) { c.Limits.Pulls = 1 << 16 })
	w.enter(1, claim)
	w.want(wire.TypeOffer)
	for i := 0; i+64 <= 20000; i += 64 {
		w.send(wire.AppendPull(nil, 1, i, 64))
	}
	if m := r.awaitEnded(1, handoff.Lost); !strings.Contains(m.Text, "took nothing for 150ms") {
		t.Error(m.Text)
	}
}

// A new room makes a new connection after the last one has ended.
func TestConnectsAgain(t *testing.T) {
	r := newRig(t, nil)
	p := newProxy(t, r.addr)
	peer := handoff.Peer{Addr: p.addr}
	for room := bulkhead.Room(1); room <= 3; room++ {
		r.out.Open(room, r.target(), claim)
		r.in.Enter(room, peer, claim)
		r.out.Publish(offer(room, 1), pages(1, 1))
		r.offered(room, 1)
		p.cut()
		r.awaitHeard(room, handoff.Lost)
		r.awaitEnded(room, handoff.Lost)
		r.out.Close(room)
	}
	if s := r.in.Stats(); s.Connected != 3 || s.Lost != 3 {
		t.Errorf("%+v", s)
	}
}

// A worker that shuts down says so; what it had open is lost on both sides, and nothing runs on.
func TestShutdown(t *testing.T) {
	for name, stop := range map[string]func(r *rig){
		"source": func(r *rig) { r.out.Shutdown() },
		"target": func(r *rig) { r.in.Shutdown() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.open(1, pages(1, 2))
			start := time.Now()
			stop(r)
			if took := time.Since(start); took > 2*r.in.cfg.Limits.CloseGrace {
				t.Errorf("took %v", took)
			}
			for _, m := range []*handoff.Message{r.awaitHeard(1, handoff.Lost), r.awaitEnded(1, handoff.Lost)} {
				if !strings.Contains(m.Text, "shutting down") {
					t.Error(m.Text)
				}
			}
			r.in.Shutdown()
			r.out.Shutdown()
			r.out.Open(2, r.target(), claim)
			r.in.Enter(2, r.source(), claim)
			r.awaitHeard(2, handoff.Lost)
			r.awaitEnded(2, handoff.Lost)
		})
	}
	t.Run("while dialling", func(t *testing.T) {
		r := newRig(t, func(_, in *Config) { in.Limits.HandshakeTimeout = time.Minute })
		l := listener(t) // takes connections and says nothing
		r.in.Enter(1, handoff.Peer{Addr: l}, claim)
		start := time.Now()
		r.in.Shutdown()
		r.awaitHeard(1, handoff.Lost)
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}
