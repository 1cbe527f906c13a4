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

func TestLink(t *testing.T) {
	woken := map[string]int{}
	l := New(func() { woken["source"]++ }, func() { woken["target"]++ })
	pages := [][]byte{[]byte("page one"), []byte("page two")}
	l.Open(1)
	l.Publish(offer(1, 1), pages[:1])
	l.Publish(offer(1, 2), pages)
	l.Publish(offer(1, 1), pages[:1])
	if m := l.ForTarget(); len(m) != 1 || m[0] != offer(1, 2) {
		t.Errorf("offers do not replace each other: %v", m)
	}
	dst := make([]byte, 8)
	if err := l.Copy(1, 1, dst); err != nil || !bytes.Equal(dst, pages[1]) {
		t.Errorf("copied %q, %v", dst, err)
	}
	for _, bad := range []struct {
		room bulkhead.Room
		page int
		dst  []byte
	}{{1, 2, dst}, {1, -1, dst}, {2, 0, dst}, {1, 0, dst[:7]}, {1, 0, make([]byte, 9)}} {
		if l.Copy(bad.room, bad.page, bad.dst) == nil {
			t.Errorf("copied page %d of room %v into %d bytes", bad.page, bad.room, len(bad.dst))
		}
	}
	l.Stop(handoff.Message{Room: 1, Kind: handoff.Stop})
	l.End(handoff.Message{Room: 1, Kind: handoff.Commit})
	if l.Copy(1, 0, dst) == nil {
		t.Error("copied after the end")
	}
	l.Publish(offer(1, 2), pages)
	if m := l.ForTarget(); len(m) != 0 {
		t.Errorf("the target hears of a room that it has ended: %v", m)
	}
	if m := l.ForSource(); len(m) != 1 || m[0].Kind != handoff.Commit {
		t.Errorf("the source hears %v", m)
	}
	l.Close(1)
	l.End(handoff.Message{Room: 1, Kind: handoff.Abandon})
	if m := l.ForSource(); len(m) != 0 {
		t.Errorf("the source hears of a room that it has closed: %v", m)
	}
	if l.Rooms() != 0 || woken["source"] == 0 || woken["target"] == 0 {
		t.Errorf("%d rooms open, woken %v", l.Rooms(), woken)
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
	l := New(wake(toSource), wake(toTarget))
	var wg sync.WaitGroup
	wg.Go(func() {
		for ended := 0; ended < rooms; {
			<-toTarget
			for _, m := range l.ForTarget() {
				dst := make([]byte, 64)
				for i := range m.Pages {
					if err := l.Copy(m.Room, i, dst); err != nil || !bytes.Equal(dst, content(m.Room, i)) {
						t.Errorf("page %d of room %v: %q, %v", i, m.Room, dst, err)
					}
				}
				if m.Pages == pages {
					l.End(handoff.Message{Room: m.Room, Kind: handoff.Commit})
					ended++
				}
			}
		}
	})
	for room := bulkhead.Room(1); room <= rooms; room++ {
		var views [][]byte
		l.Open(room)
		for i := range pages {
			views = append(views, content(room, i))
			l.Publish(offer(room, i+1), views)
		}
	}
	for ended := 0; ended < rooms; {
		<-toSource
		for _, m := range l.ForSource() {
			l.Close(m.Room)
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
