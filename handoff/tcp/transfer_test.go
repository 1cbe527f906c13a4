package tcp

import (
	"bytes"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// A room from the first page to the commit, with real pools, by every way.
func TestTransfer(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig) {
		const room = 77
		ids := kv.NewIdentities([32]byte{4}, "tenant", [32]byte{7}, layout)
		tokens := prompt(100, 1)
		from, to := newPool(t, 10), newPool(t, 10)
		seq := prefill(t, from, ids, tokens)
		r.out.Open(room, r.target(), claim)
		r.in.Enter(room, r.source(), claim)
		res, ok := to.Reserve(ids, tokens)
		if !ok {
			t.Fatal("no pages")
		}
		landings := map[int]*kv.Landing{}
		pull := func(n int) {
			r.out.Publish(offer(room, n), seq.Pages()[:n])
			r.offered(room, n)
			for i := len(landings); i < n; i++ {
				landings[i] = res.Land(i)
				r.in.Pull(room, i, kvLanding{landings[i]})
			}
		}
		pull(3) // while the rest is being computed
		pull(7)
		for i, a := range r.arrived(room, 7) {
			if a.Err != nil || a.Page != i {
				t.Fatalf("arrived %+v", a)
			}
			if v := landings[a.Page].Prove(); v != nil {
				t.Fatal(v)
			}
		}
		got, err := res.Commit()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range got.Pages() {
			if !bytes.Equal(p, seq.Pages()[i]) {
				t.Errorf("page %d differs", i)
			}
		}
		r.commit(room)
		r.awaitEnded(room, handoff.Commit)
		r.out.Close(room)
		sent, come := r.out.Stats(), r.in.Stats()
		if sent.Pages != 7 || come.Pages != 7 || sent.InFlight != 0 || come.InFlight != 0 || sent.Rooms != 0 || come.Rooms != 0 ||
			sent.Committed != 1 || come.Committed != 1 || come.Bytes != uint64(7*layout.PageBytes()) {
			t.Errorf("source %+v\ntarget %+v", sent, come)
		}
		if ring := come.RingPages > 0; ring != r.in.cfg.SharedMemory || come.RingPages != sent.RingPages {
			t.Errorf("%d pages went through shared memory, which is %v", come.RingPages, r.in.cfg.SharedMemory)
		}
	})
}

// Many rooms at once, each with pages of its own.
func TestManyRooms(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig) {
		const rooms, each = 60, 9
		sources, lands := map[bulkhead.Room][][]byte{}, map[bulkhead.Room][]*landing{}
		for room := bulkhead.Room(1); room <= rooms; room++ {
			sources[room] = pages(int(room), each)
			if room%2 == 0 {
				r.in.Enter(room, r.source(), claim) // before it is opened
			}
			r.out.Open(room, r.target(), claim)
			if room%2 == 1 {
				r.in.Enter(room, r.source(), claim)
			}
		}
		for n := 1; n <= each; n++ {
			for room, p := range sources {
				r.out.Publish(offer(room, n), p[:n])
			}
		}
		for room := range sources {
			r.offered(room, each)
			for i := range each {
				l := newLanding()
				lands[room] = append(lands[room], l)
				r.in.Pull(room, i, l)
			}
		}
		for room, p := range sources {
			for _, a := range r.arrived(room, each) {
				if l := lands[room][a.Page]; a.Err != nil || !bytes.Equal(l.b, p[a.Page]) || l.examined != len(l.b) {
					t.Fatalf("room %v: %+v, examined to %d", room, a, l.examined)
				}
			}
			r.commit(room)
		}
		for room := range sources {
			r.awaitEnded(room, handoff.Commit)
			r.out.Close(room)
		}
		r.await("the last DONE", func() bool {
			r.in.mu.Lock()
			defer r.in.mu.Unlock()
			for _, l := range r.in.links {
				if len(l.rooms) > 0 {
					return false
				}
			}
			return true
		})
		if s := r.in.Stats(); s.Rooms != 0 || s.InFlight != 0 || s.Connections != 1 || s.Connected != 1 {
			t.Errorf("target %+v", s)
		}
	})
}
