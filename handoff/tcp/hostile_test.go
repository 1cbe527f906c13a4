package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// A target that has proven itself and then does what no target does is hung up on, and hears why. The source's rooms over
// that connection are lost, the others are not.
func TestHostileTarget(t *testing.T) {
	for name, x := range map[string]struct {
		code  wire.Code
		words string
		do    func(r *rig, w *raw)
	}{
		"pulls another's room":        {wire.CodeProtocol, "not entered", func(_ *rig, w *raw) { w.send(wire.AppendPull(nil, 2, 0, 1)) }},
		"pulls what was not offered":  {wire.CodeProtocol, "3 were offered", func(_ *rig, w *raw) { w.send(wire.AppendPull(nil, 1, 2, 2)) }},
		"pulls at the end of numbers": {wire.CodeProtocol, "3 were offered", func(_ *rig, w *raw) { w.send(wire.AppendPull(nil, 1, wire.MaxPages-1, 64)) }},
		"pulls twice": {wire.CodeProtocol, "second time", func(_ *rig, w *raw) {
			w.send(wire.AppendPull(nil, 1, 1, 1))
			w.page()
			w.send(wire.AppendPull(nil, 1, 0, 2))
		}},
		"pulls a run that is too long": {wire.CodeLimit, "at most 64 (PullRun)", func(_ *rig, w *raw) { w.send(wire.AppendPull(nil, 1, 0, 65)) }},
		"enters twice":                 {wire.CodeProtocol, "second time", func(_ *rig, w *raw) { w.enter(1, claim) }},
		"ends twice": {wire.CodeProtocol, "has ended", func(_ *rig, w *raw) {
			w.send(wire.AppendAbandon(nil, 1, -1))
			w.want(wire.TypeDone)
			w.send(wire.AppendCommit(nil, 1))
		}},
		"ends another's room":     {wire.CodeProtocol, "not entered", func(_ *rig, w *raw) { w.send(wire.AppendCommit(nil, 2)) }},
		"blames another's page":   {wire.CodeProtocol, "blames page 7", func(_ *rig, w *raw) { w.send(wire.AppendAbandon(nil, 1, 7)) }},
		"offers":                  {wire.CodeProtocol, "does not belong", func(_ *rig, w *raw) { w.send(wire.AppendOffer(nil, 1, 1)) }},
		"sends a page":            {wire.CodeProtocol, "does not belong", func(_ *rig, w *raw) { w.send(wire.AppendPage(nil, 1, wire.Page{Bytes: 64})) }},
		"says HELLO again":        {wire.CodeProtocol, "does not belong", func(_ *rig, w *raw) { w.send(wire.AppendHello(nil, w.p.mine)) }},
		"answers no ping":         {wire.CodeProtocol, "PONG", func(_ *rig, w *raw) { w.send(wire.AppendPong(nil, 1<<40)) }},
		"takes a ring":            {wire.CodeProtocol, "no shared memory", func(_ *rig, w *raw) { w.send(wire.AppendRing(nil, wire.Ring{Slots: 2, SlotBytes: 4096})) }},
		"gives a slot back":       {wire.CodeProtocol, "does not have", func(_ *rig, w *raw) { w.send(wire.AppendCredit(nil, 0)) }},
		"sends half a frame":      {wire.CodeMalformed, "", func(_ *rig, w *raw) { w.send([]byte("bhofXXXXXXXXXXXXXXXXXXXXXXXXXXXX")) }},
		"sends a damaged frame":   {wire.CodeMalformed, "checksum", func(_ *rig, w *raw) { b := wire.AppendPull(nil, 1, 0, 1); b[24] ^= 1; w.send(b) }},
		"commits what was denied": {wire.CodeProtocol, "not served", func(_ *rig, w *raw) { w.enter(50, claim); w.stopped(50); w.send(wire.AppendCommit(nil, 50)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.out.Open(1, handoff.Peer{Name: "decode-9"}, claim)
			r.out.Publish(offer(1, 3), pages(1, 3))
			r.open(2, pages(2, 3)) // another target's
			w := r.rawTarget("decode-9")
			w.enter(1, claim)
			w.want(wire.TypeOffer)
			x.do(r, w)
			w.refused(x.code, x.words)
			r.await("the room's end", func() bool { return len(r.ends) == 1 && r.ends[0].Room == 1 })
			l := newLanding()
			r.in.Pull(2, 1, l)
			if a := r.arrived(2, 1); a[0].Err != nil || !bytes.Equal(l.b, pages(2, 3)[1]) {
				t.Errorf("the other room: %+v", a)
			}
		})
	}
}

// Limits that a target of its own would keep, and one that lies about its own does not.
func TestTargetOverLimits(t *testing.T) {
	setup := func(t *testing.T, edit func(l *Limits)) (*rig, *raw) {
		r := newRig(t, func(out, _ *Config) { edit(&out.Limits) })
		r.out.Open(1, handoff.Peer{Name: "decode-9"}, claim)
		r.out.Publish(offer(1, 60), pages(1, 60))
		w := r.rawTarget("decode-9")
		w.enter(1, claim)
		w.want(wire.TypeOffer)
		return r, w
	}
	many := func() (b []byte) {
		for i := range 12 {
			b = wire.AppendPull(b, 1, 5*i, 5)
		}
		return b
	}
	t.Run("Pulls", func(t *testing.T) {
		_, w := setup(t, func(l *Limits) { l.Pulls, l.PullRun = 4, 4 })
		w.send(wire.AppendPull(nil, 1, 0, 5))
		w.refused(wire.CodeLimit, "5 pages", "at most 4 (PullRun)")
	})
	t.Run("InFlight", func(t *testing.T) {
		_, w := setup(t, func(l *Limits) { l.InFlight = int64(4 * layout.PageBytes()) })
		w.send(wire.AppendPull(nil, 1, 0, 5))
		w.refused(wire.CodeLimit, "at most "+itoa(4*layout.PageBytes())+" (InFlight)")
	})
	t.Run("ConnRooms", func(t *testing.T) {
		_, w := setup(t, func(l *Limits) { l.ConnRooms = 2 })
		w.enter(2, claim)
		w.enter(3, claim)
		w.refused(wire.CodeLimit, "more than 2 rooms over one connection (ConnRooms)")
	})
	t.Run("Queue", func(t *testing.T) {
		r, w := setup(t, func(l *Limits) { l.ConnRooms, l.Queue, l.PeerTimeout, l.WriteTimeout = 4, 16, time.Minute, time.Minute })
		r.t = t
		var pings []byte
		for i := range 1000 {
			pings = wire.AppendPing(pings, uint64(i))
		}
		_ = w.p.SetWriteDeadline(time.Now().Add(patience))
		for range 4000 { // until the answers stand in the way of each other
			if _, err := w.p.Write(pings); err != nil {
				break
			}
		}
		r.await("the connection is closed", func() bool { return r.out.Stats().Closed[wire.CodeLimit] == 1 })
	})
	t.Run("within", func(t *testing.T) {
		_, w := setup(t, func(*Limits) {})
		w.send(many())
		for i := range 60 {
			if p, b := w.page(); p.Page != i || !bytes.Equal(b, pages(1, 60)[i]) {
				t.Fatalf("page %d came as %d", i, p.Page)
			}
		}
	})
}

// A source that has proven itself and then does what no source does is hung up on: every landing arrives, once and with an
// error, every room is lost.
func TestHostileSource(t *testing.T) {
	size := layout.PageBytes()
	good := func(page int) []byte {
		return append(wire.AppendPage(nil, 1, wire.Page{Page: page, Bytes: size}), pages(1, 4)[page]...)
	}
	for name, x := range map[string]struct {
		code   wire.Code
		words  string
		frames []byte
	}{
		"a page of another length": {wire.CodeProtocol, "must have", append(wire.AppendPage(nil, 1, wire.Page{Page: 0, Bytes: size - 64}), make([]byte, size)...)},
		"a page that is longer":    {wire.CodeProtocol, "must have", wire.AppendPage(nil, 1, wire.Page{Page: 0, Bytes: 1 << 30})},
		"pages in another order":   {wire.CodeProtocol, "before it", good(1)},
		"a page of another room":   {wire.CodeProtocol, "before it", wire.AppendPage(nil, 2, wire.Page{Page: 0, Bytes: size})},
		"a page twice":             {wire.CodeProtocol, "before it", append(good(0), good(0)...)},
		"a page too many":          {wire.CodeProtocol, "none was pulled", append(append(append(good(0), good(1)...), good(2)...), good(3)...)},
		"a page by no ring":        {wire.CodeProtocol, "there is none", wire.AppendPage(nil, 1, wire.Page{Page: 0, Bytes: size, Ring: true})},
		"fewer pages than before":  {wire.CodeProtocol, "after 4", wire.AppendOffer(nil, 1, 3)},
		"an offer of no room":      {wire.CodeProtocol, "not entered", wire.AppendOffer(nil, 9, 3)},
		"a stop of no room":        {wire.CodeProtocol, "not entered", wire.AppendStop(nil, 9, nil)},
		"two stops":                {wire.CodeProtocol, "second time", append(wire.AppendStop(nil, 1, nil), wire.AppendStop(nil, 1, nil)...)},
		"an offer after a stop":    {wire.CodeProtocol, "stopped: true", append(wire.AppendStop(nil, 1, nil), wire.AppendOffer(nil, 1, 4)...)},
		"a DONE that comes early":  {wire.CodeProtocol, "has not ended", wire.AppendDone(nil, 1)},
		"an ENTER":                 {wire.CodeProtocol, "does not belong", wire.AppendEnter(nil, 1, claim)},
		"a commit":                 {wire.CodeProtocol, "does not belong", wire.AppendCommit(nil, 1)},
		"a damaged frame":          {wire.CodeMalformed, "checksum", flipped(good(0), 9)},
		"a damaged page number":    {wire.CodeMalformed, "checksum", flipped(good(0), 24)},
		"no frame":                 {wire.CodeMalformed, "no handoff", bytes.Repeat([]byte{0xaa}, 64)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			w := r.rawSource(1)
			w.send(wire.AppendOffer(nil, 1, 4))
			r.offered(1, 4)
			for i := range 3 {
				r.in.Pull(1, i, newLanding())
			}
			w.want(wire.TypePull)
			w.send(x.frames)
			w.refused(x.code, x.words)
			r.awaitHeard(1, handoff.Lost)
			r.oneArrivalEach(1, 3)
		})
	}
}

func flipped(b []byte, at int) []byte {
	b[at] ^= 1
	return b
}

// oneArrivalEach checks that each of the first n pages of a room has arrived once, and that nothing more comes.
func (r *rig) oneArrivalEach(room bulkhead.Room, n int) {
	r.t.Helper()
	seen := map[int]int{}
	for _, a := range r.arrived(room, n) {
		seen[a.Page]++
	}
	if len(seen) != n {
		r.t.Errorf("arrived: %v", seen)
	}
	for page, times := range seen {
		if times != 1 || page >= n {
			r.t.Errorf("page %d arrived %d times", page, times)
		}
	}
	if s := r.in.Stats(); s.InFlight != 0 || s.Rooms != 0 {
		r.t.Errorf("left: %+v", s)
	}
}
