package inproc

import (
	"bytes"
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

func offer(room bulkhead.Room, n int) handoff.Message {
	return handoff.Message{Room: room, Kind: handoff.Offer, Pages: n}
}

// land is a landing that counts how often it was examined.
type land struct {
	b        []byte
	examined int
}

func (l *land) Bytes() []byte { return l.b }
func (l *land) Examine(int)   { l.examined++ }

func newLink() (l *Link, woken map[string]int) {
	woken = map[string]int{}
	l = New()
	l.Outlet().Notify(func() { woken["source"]++ })
	l.Inlet().Notify(func() { woken["target"]++ })
	return l, woken
}

// hears takes what has come for the target and demands that it is this.
func hears(t *testing.T, l *Link, want ...handoff.Kind) []handoff.Message {
	t.Helper()
	m, arrivals := l.Inlet().Receive()
	if len(arrivals) > 0 {
		t.Errorf("arrivals %v", arrivals)
	}
	kinds(t, "target", m, want)
	return m
}

func kinds(t *testing.T, who string, m []handoff.Message, want []handoff.Kind) {
	t.Helper()
	ok := len(m) == len(want)
	for i := range want {
		ok = ok && m[i].Kind == want[i]
	}
	if !ok {
		t.Errorf("the %s hears %v, want %v", who, m, want)
	}
}

// pull pulls a page and gives its arrival.
func pull(t *testing.T, l *Link, room bulkhead.Room, page, size int) (*land, error) {
	t.Helper()
	dst := &land{b: make([]byte, size)}
	l.Inlet().Pull(room, page, dst)
	_, arrivals := l.Inlet().Receive()
	if len(arrivals) != 1 || arrivals[0].Room != room || arrivals[0].Page != page {
		t.Fatalf("arrivals %v", arrivals)
	}
	if err := arrivals[0].Err; (err == nil) != (dst.examined == 1) {
		t.Errorf("arrived with %v and was examined %d times", err, dst.examined)
	}
	return dst, arrivals[0].Err
}

var claim = handoff.Claim{1, 2, 3}

func TestLink(t *testing.T) {
	l, woken := newLink()
	o, in := l.Outlet(), l.Inlet()
	pages := [][]byte{[]byte("page one"), []byte("page two")}
	o.Open(1, handoff.Peer{}, claim)
	if o.Entered(1) {
		t.Error("entered by nobody")
	}
	o.Publish(offer(1, 1), pages[:1])
	if _, err := pull(t, l, 1, 0, 8); err == nil {
		t.Error("pulled from a room that was not entered")
	}
	in.Enter(1, handoff.Peer{}, claim)
	o.Publish(offer(1, 2), pages)
	o.Publish(offer(1, 1), pages[:1])
	if m := hears(t, l, handoff.Offer); m[0].Pages != 2 || !o.Entered(1) {
		t.Errorf("offers do not replace each other: %v", m)
	}
	if dst, err := pull(t, l, 1, 1, 8); err != nil || !bytes.Equal(dst.b, pages[1]) {
		t.Errorf("copied %q, %v", dst.b, err)
	}
	for _, bad := range []struct {
		room       bulkhead.Room
		page, size int
	}{{1, 2, 8}, {1, -1, 8}, {2, 0, 8}, {1, 0, 7}, {1, 0, 9}} {
		if _, err := pull(t, l, bad.room, bad.page, bad.size); err == nil {
			t.Errorf("copied page %d of room %v into %d bytes", bad.page, bad.room, bad.size)
		}
	}
	o.Stop(handoff.Message{Room: 1, Kind: handoff.Stop})
	in.End(handoff.Message{Room: 1, Kind: handoff.Commit})
	if _, err := pull(t, l, 1, 0, 8); err == nil {
		t.Error("copied after the end")
	}
	o.Publish(offer(1, 2), pages)
	hears(t, l)
	kinds(t, "source", o.Receive(), []handoff.Kind{handoff.Commit})
	in.End(handoff.Message{Room: 1, Kind: handoff.Abandon})
	kinds(t, "source", o.Receive(), nil)
	o.Close(1)
	if l.Rooms() != 0 || woken["source"] == 0 || woken["target"] == 0 {
		t.Errorf("%d rooms open, woken %v", l.Rooms(), woken)
	}
}

// The two sides may come in any order, and only the right claim enters, once.
func TestEnter(t *testing.T) {
	l, _ := newLink()
	o, in := l.Outlet(), l.Inlet()
	in.Enter(1, handoff.Peer{}, claim)
	hears(t, l)
	o.Open(1, handoff.Peer{}, claim)
	o.Publish(offer(1, 0), nil)
	hears(t, l, handoff.Offer)
	in.Enter(1, handoff.Peer{}, claim) // again
	hears(t, l, handoff.Lost)

	o.Open(2, handoff.Peer{}, claim)
	o.Publish(offer(2, 0), nil)
	in.Enter(2, handoff.Peer{}, handoff.Claim{9})
	hears(t, l, handoff.Lost)
	in.End(handoff.Message{Room: 2, Kind: handoff.Abandon}) // who is not in it ends nothing
	if kinds(t, "source", o.Receive(), nil); o.Entered(2) {
		t.Error("entered with another claim")
	}
	in.Enter(3, handoff.Peer{}, handoff.Claim{9})
	o.Open(3, handoff.Peer{}, claim)
	if hears(t, l, handoff.Lost); o.Entered(3) {
		t.Error("entered with another claim, early")
	}
	in.Enter(4, handoff.Peer{}, claim)
	in.End(handoff.Message{Room: 4, Kind: handoff.Abandon}) // gives up waiting
	for room := range bulkhead.Room(4) {
		o.Close(room)
	}
	if l.Rooms() != 0 {
		t.Errorf("%d rooms are left", l.Rooms())
	}
}

// A room that is stopped and that nobody has entered is abandoned, unless nothing was offered; who comes later hears why. One
// that was entered waits for its target.
func TestStop(t *testing.T) {
	l, _ := newLink()
	o, in := l.Outlet(), l.Inlet()
	why := &bulkhead.End{Reason: bulkhead.Aborted}
	stop := func(room bulkhead.Room) {
		o.Stop(handoff.Message{Room: room, Kind: handoff.Stop, Why: why})
	}
	o.Open(1, handoff.Peer{}, claim)
	stop(1)
	kinds(t, "source", o.Receive(), nil)
	o.Open(2, handoff.Peer{}, claim)
	o.Publish(offer(2, 0), nil)
	stop(2)
	kinds(t, "source", o.Receive(), []handoff.Kind{handoff.Abandon})
	for room := bulkhead.Room(1); room <= 2; room++ {
		o.Close(room)
		in.Enter(room, handoff.Peer{}, claim)
		if m := hears(t, l, handoff.Stop); m[0].Why != why {
			t.Errorf("stopped for %v", m[0].Why)
		}
		in.End(handoff.Message{Room: room, Kind: handoff.Abandon})
	}
	o.Open(3, handoff.Peer{}, claim)
	in.Enter(3, handoff.Peer{}, claim)
	o.Publish(offer(3, 0), nil)
	stop(3)
	kinds(t, "source", o.Receive(), nil)
	hears(t, l, handoff.Offer, handoff.Stop)
	in.End(handoff.Message{Room: 3, Kind: handoff.Abandon})
	kinds(t, "source", o.Receive(), []handoff.Kind{handoff.Abandon})
	o.Close(3)
	for room := bulkhead.Room(10); room < 10+2*mostStopped; room++ {
		o.Open(room, handoff.Peer{}, claim)
		stop(room)
		o.Close(room)
	}
	if len(l.stopped) != mostStopped || l.Rooms() != 0 {
		t.Errorf("%d rooms are remembered, %d open", len(l.stopped), l.Rooms())
	}
}

// Two loops, many rooms, every page pulled while the source goes on publishing: nothing torn, nothing left.
func TestLinkConcurrent(t *testing.T) {
	const rooms, pages = 50, 8
	toSource, toTarget := make(chan struct{}, 1), make(chan struct{}, 1)
	wake := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	l := New()
	o, in := l.Outlet(), l.Inlet()
	o.Notify(wake(toSource))
	in.Notify(wake(toTarget))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ended := 0; ended < rooms; {
			<-toTarget
			messages, _ := in.Receive()
			for _, m := range messages {
				for i := range m.Pages {
					dst := &land{b: make([]byte, 64)}
					if in.Pull(m.Room, i, dst); !bytes.Equal(dst.b, content(m.Room, i)) {
						t.Errorf("page %d of room %v: %q", i, m.Room, dst.b)
					}
				}
				if m.Pages == pages {
					in.End(handoff.Message{Room: m.Room, Kind: handoff.Commit})
					ended++
				}
			}
		}
	})
	for room := bulkhead.Room(1); room <= rooms; room++ {
		var views [][]byte
		o.Open(room, handoff.Peer{}, claim)
		in.Enter(room, handoff.Peer{}, claim)
		for i := range pages {
			views = append(views, content(room, i))
			o.Publish(offer(room, i+1), views)
		}
	}
	for ended := 0; ended < rooms; {
		<-toSource
		for _, m := range o.Receive() {
			o.Close(m.Room)
			ended++
		}
	}
	wg.Wait()
	if l.Rooms() != 0 {
		t.Errorf("%d rooms are left", l.Rooms())
	}
}

func content(room bulkhead.Room, page int) []byte {
	return bytes.Repeat([]byte{byte(room), byte(page)}, 32)
}
