package tcp

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// A room is served to whom it was opened for, and whoever else asks hears the same words after the same time, whether there
// is such a room or not.
func TestDenied(t *testing.T) {
	r := newRig(t, nil)
	p := pages(1, 2)
	r.out.Open(1, r.target(), claim)
	r.out.Publish(offer(1, 2), p)
	r.out.Open(2, handoff.Peer{}, claim) // of whoever shows the claim first
	r.out.Publish(offer(2, 2), p)
	first := r.rawTarget("decode-9")
	first.enter(2, claim)
	first.want(wire.TypeOffer)
	wrong := claim
	wrong[15]++
	var said []string
	for name, ask := range map[string]struct {
		peer  string
		room  bulkhead.Room
		claim handoff.Claim
	}{
		"wrong claim":     {"decode-1", 1, wrong},
		"wrong peer":      {"decode-2", 1, claim},
		"no such room":    {"decode-1", 99, claim},
		"taken":           {"decode-3", 2, claim},
		"taken, no claim": {"decode-3", 2, handoff.Claim{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := r.rawTarget(ask.peer)
			w.t = t
			start := time.Now()
			w.enter(ask.room, ask.claim)
			why := w.stopped(ask.room)
			if took := time.Since(start); took < r.out.cfg.Limits.ClaimTimeout {
				t.Errorf("denied after %v", took)
			}
			if why.Reason != bulkhead.Failed || !errors.Is(why.Err, handoff.ErrLost) {
				t.Errorf("%v, %v: a target that is denied does not know whose fault it is", why.Reason, why.Err)
			}
			said = append(said, why.Reason.String()+" "+why.Err.Error())
			w.send(wire.AppendPull(nil, ask.room, 0, 1)) // and nothing can be pulled
			w.refused(wire.CodeProtocol, "0 were offered")
		})
	}
	for _, s := range said {
		if s != said[0] {
			t.Errorf("%q and %q differ", s, said[0])
		}
	}
	if n := r.out.Stats().Denied; n != 5 {
		t.Errorf("%d denied", n)
	}
	r.in.Enter(1, r.source(), claim) // the room is still there for its own
	r.offered(1, 2)
}

// An ENTER comes before its room is opened: the right one is served then, others go on waiting.
func TestEnterBeforeOpen(t *testing.T) {
	r := newRig(t, nil)
	stranger := r.rawTarget("decode-2")
	stranger.enter(3, claim)
	r.in.Enter(3, r.source(), claim)
	if r.out.Entered(3) {
		t.Error("a room that is not open was entered")
	}
	r.await("both wait", func() bool { return r.out.Stats().Waiting == 2 })
	r.out.Open(3, r.target(), claim)
	r.out.Publish(offer(3, 1), pages(1, 1))
	r.offered(3, 1)
	if !r.out.Entered(3) {
		t.Error("nobody has entered the room")
	}
	if why := stranger.stopped(3); why.Err.Error() != wire.Denied().Err.Error() {
		t.Error(why.Err)
	}
	stranger.send(wire.AppendAbandon(nil, 3, -1))
	stranger.want(wire.TypeDone)
	if s := r.out.Stats(); s.Waiting != 0 || s.Rooms != 1 {
		t.Errorf("%+v", s)
	}
}

// A target hears why the source has stopped, whichever of the two comes first.
func TestStop(t *testing.T) {
	why := &bulkhead.End{Reason: bulkhead.Refused, Refusal: &bulkhead.Refusal{Code: bulkhead.CodeContextLength, Message: "too long",
		Param: "messages", Limit: 100, Count: 200}}
	stop := handoff.Message{Room: 4, Kind: handoff.Stop, Why: why}
	check := func(t *testing.T, r *rig) {
		t.Helper()
		m := r.awaitHeard(4, handoff.Stop)
		if m.Why == nil || m.Why.Reason != bulkhead.Refused || *m.Why.Refusal != *why.Refusal {
			t.Errorf("heard %+v", m.Why)
		}
		r.abandon(4)
	}
	t.Run("before ENTER", func(t *testing.T) {
		r := newRig(t, nil)
		r.out.Open(4, r.target(), claim)
		r.out.Stop(stop)
		r.out.Close(4) // at once: nothing was offered, so the source hears nothing
		r.in.Enter(4, r.source(), claim)
		check(t, r)
		r.await("DONE", func() bool { return r.in.Stats().Rooms == 0 })
		if len(r.ends) > 0 {
			t.Errorf("the source heard %v", r.ends)
		}
	})
	t.Run("before anything was offered", func(t *testing.T) {
		r := newRig(t, nil)
		r.out.Open(4, r.target(), claim)
		r.in.Enter(4, r.source(), claim)
		r.await("entry", func() bool { return r.out.Stats().Entered == 1 })
		r.out.Stop(stop)
		r.out.Close(4)
		check(t, r)
		if len(r.ends) > 0 {
			t.Errorf("the source heard %v", r.ends)
		}
	})
	t.Run("after an offer, before ENTER", func(t *testing.T) {
		r := newRig(t, nil)
		r.out.Open(4, r.target(), claim)
		r.out.Publish(offer(4, 1), pages(1, 1))
		r.out.Stop(stop)
		r.awaitEnded(4, handoff.Abandon)
		r.out.Close(4)
		r.in.Enter(4, r.source(), claim)
		check(t, r)
	})
	t.Run("in the middle", func(t *testing.T) {
		r := newRig(t, nil)
		r.open(4, pages(1, 3))
		l := newLanding()
		r.in.Pull(4, 0, l)
		r.out.Stop(stop)
		if a := r.arrived(4, 1); a[0].Err != nil {
			t.Error("what was pulled before the stop comes still:", a[0].Err)
		}
		check(t, r)
		r.awaitEnded(4, handoff.Abandon)
		r.out.Close(4)
	})
}

// What the target says of its end reaches the source: that a page could not be proven, and which.
func TestEnds(t *testing.T) {
	r := newRig(t, nil)
	r.open(1, pages(1, 3))
	r.in.End(handoff.Message{Room: 1, Kind: handoff.Abandon, Page: 2})
	if m := r.awaitEnded(1, handoff.Abandon); m.Page != 2 {
		t.Errorf("blames page %d", m.Page)
	}
	r.out.Close(1)
	r.out.Open(2, r.target(), claim)
	r.in.Enter(2, r.source(), claim)
	r.commit(2) // the target's own cache had every page
	r.awaitEnded(2, handoff.Commit)
	r.out.Publish(offer(2, 3), pages(1, 3)) // the two have crossed
	r.out.Stop(handoff.Message{Room: 2, Kind: handoff.Stop})
	r.out.Close(2)
	r.await("nothing is left", func() bool { return r.in.Stats().Rooms == 0 && r.out.Stats().Rooms == 0 })
	if len(r.ends) != 2 || len(r.messages) > 2 {
		t.Errorf("heard %v and %v", r.ends, r.messages)
	}
}

// A room that nobody enters is given up.
func TestNobodyEnters(t *testing.T) {
	r := newRig(t, func(out, _ *Config) { out.Limits.EntryTimeout = 100 * time.Millisecond })
	r.out.Open(1, r.target(), claim)
	r.out.Publish(offer(1, 1), pages(1, 1))
	if m := r.awaitEnded(1, handoff.Lost); !strings.Contains(m.Text, "100ms") {
		t.Error(m.Text)
	}
	r.out.Close(1)
}

// A target that does not answer a stop is hung up on: only then are its pages given back.
func TestStopNotAnswered(t *testing.T) {
	r := newRig(t, func(out, _ *Config) { out.Limits.AnswerTimeout = 150 * time.Millisecond })
	r.out.Open(1, handoff.Peer{}, claim)
	r.out.Publish(offer(1, 1), pages(1, 1))
	w := r.rawTarget("decode-1")
	w.enter(1, claim)
	w.want(wire.TypeOffer)
	r.out.Stop(handoff.Message{Room: 1, Kind: handoff.Stop})
	w.stopped(1)
	w.refused(wire.CodeTimeout, "AnswerTimeout", "150ms")
	r.awaitEnded(1, handoff.Lost)
}

func TestRoomLimits(t *testing.T) {
	t.Run("open", func(t *testing.T) {
		r := newRig(t, func(out, _ *Config) { out.Limits.Rooms, out.Limits.ConnRooms = 2, 2 })
		for room := bulkhead.Room(1); room <= 3; room++ {
			r.out.Open(room, r.target(), claim)
		}
		if m := r.awaitEnded(3, handoff.Lost); !strings.Contains(m.Text, "more than 2 rooms are open (Rooms)") {
			t.Error(m.Text)
		}
		r.out.Close(3)
	})
	t.Run("waiting", func(t *testing.T) {
		r := newRig(t, func(out, _ *Config) { out.Limits.Rooms, out.Limits.ConnRooms = 2, 2 })
		a, b := r.rawTarget("decode-1"), r.rawTarget("decode-2")
		a.enter(1, claim)
		a.enter(2, claim)
		r.await("two wait", func() bool { return r.out.Stats().Waiting == 2 })
		b.enter(3, claim)
		if why := b.stopped(3); why.Refusal == nil || why.Refusal.Code != bulkhead.CodeBusy || !strings.Contains(why.Refusal.Message, "2 rooms") {
			t.Errorf("%+v", why)
		}
		r.out.Open(4, handoff.Peer{}, claim) // what is open is served all the same
		b.enter(4, claim)
		r.await("entry", func() bool { return r.out.Stats().Entered == 1 })
	})
	t.Run("entered", func(t *testing.T) {
		r := newRig(t, func(_, in *Config) { in.Limits.Rooms, in.Limits.ConnRooms = 2, 2 })
		for room := bulkhead.Room(1); room <= 3; room++ {
			r.in.Enter(room, r.source(), claim)
		}
		if m := r.awaitHeard(3, handoff.Lost); !strings.Contains(m.Text, "3 rooms are entered, at most 2 (Rooms)") {
			t.Error(m.Text)
		}
	})
	t.Run("over one connection, the target's limit", func(t *testing.T) {
		r := newRig(t, func(_, in *Config) { in.Limits.ConnRooms = 1 })
		r.in.Enter(1, r.source(), claim)
		r.in.Enter(2, r.source(), claim)
		if m := r.awaitHeard(2, handoff.Lost); !strings.Contains(m.Text, "at most 1 (ConnRooms)") {
			t.Error(m.Text)
		}
	})
	t.Run("over one connection, the source's limit", func(t *testing.T) {
		r := newRig(t, func(out, _ *Config) { out.Limits.ConnRooms = 1 })
		r.in.Enter(1, r.source(), claim)
		r.in.Enter(2, r.source(), claim)
		r.await("one is lost", func() bool { return len(r.messages) == 1 })
		if m := r.messages[0]; m.Kind != handoff.Lost || !strings.Contains(m.Text, "takes 1 rooms over one connection (ConnRooms)") {
			t.Error(m)
		}
	})
}

// More is pulled than may be in flight: it waits its turn, and all of it comes.
func TestPullsWait(t *testing.T) {
	for name, edit := range map[string]func(l *Limits){
		"one byte short of two pages": func(l *Limits) { l.InFlight = int64(2*layout.PageBytes() - 1) },
		"three pages":                 func(l *Limits) { l.Pulls, l.PullRun = 3, 2 },
	} {
		for _, side := range []string{"source", "target"} {
			t.Run(name+" at the "+side, func(t *testing.T) {
				r := newRig(t, func(out, in *Config) { edit(&map[string]*Config{"source": out, "target": in}[side].Limits) })
				p := pages(3, 40)
				r.open(1, p)
				var lands []*landing
				for i := range p {
					lands = append(lands, newLanding())
					r.in.Pull(1, i, lands[i])
				}
				for _, a := range r.arrived(1, len(p)) {
					if a.Err != nil || !bytes.Equal(lands[a.Page].b, p[a.Page]) {
						t.Fatalf("%+v", a)
					}
				}
			})
		}
	}
}

// A pull of a room that was lost meanwhile arrives, with an error, and its end goes nowhere.
func TestPullOfLostRoom(t *testing.T) {
	r := newRig(t, nil)
	r.in.Pull(8, 0, newLanding())
	if a := r.arrived(8, 1); !errors.Is(a[0].Err, errNotEntered) {
		t.Error(a)
	}
	r.abandon(8)
}
