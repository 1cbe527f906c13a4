package handoff

import (
	"errors"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"pgregory.net/rapid"
)

func offer(n int) Message { return Message{Room: testRoom, Kind: Offer, Pages: n} }

// Events that do not fit the state are errors.
func TestOutOfOrder(t *testing.T) {
	none := func(int) bool { return false }
	all := func(int) bool { return true }
	for name, events := range map[string]func(s *Source, t *Target) error{
		"fewer pages sealed than before":   func(s *Source, _ *Target) error { _, _ = s.Sealed(2); _, err := s.Sealed(1); return err },
		"more pages sealed than there are": func(s *Source, _ *Target) error { _, err := s.Sealed(4); return err },
		"sealed after stop":                func(s *Source, _ *Target) error { _, _ = s.Sealed(1); s.Stop(); _, err := s.Sealed(2); return err },
		"commit of another room": func(s *Source, _ *Target) error {
			_, _ = s.Sealed(3)
			return s.Receive(Message{Room: testRoom + 1, Kind: Commit})
		},
		"two ends": func(s *Source, _ *Target) error {
			_, _ = s.Sealed(3)
			_ = s.Receive(Message{Room: testRoom, Kind: Commit})
			return s.Receive(Message{Room: testRoom, Kind: Abandon})
		},
		"lost after an end": func(s *Source, _ *Target) error {
			_, _ = s.Sealed(3)
			_ = s.Receive(Message{Room: testRoom, Kind: Commit})
			return s.Receive(Message{Room: testRoom, Kind: Lost})
		},
		"another room lost":                func(s *Source, _ *Target) error { return s.Receive(Message{Room: testRoom + 1, Kind: Lost}) },
		"another room lost, at the target": func(_ *Source, t *Target) error { return t.Receive(Message{Room: testRoom + 1, Kind: Lost}) },
		"an offer to the source":           func(s *Source, _ *Target) error { _, _ = s.Sealed(3); return s.Receive(offer(3)) },
		"an offer of more than is needed":  func(_ *Source, t *Target) error { return t.Receive(offer(4)) },
		"an offer of fewer than before":    func(_ *Source, t *Target) error { _ = t.Receive(offer(2)); return t.Receive(offer(1)) },
		"an offer of another room":         func(_ *Source, t *Target) error { return t.Receive(Message{Room: 8, Kind: Offer, Pages: 1}) },
		"a commit to the target":           func(_ *Source, t *Target) error { return t.Receive(Message{Room: testRoom, Kind: Commit}) },
		"reserved twice":                   func(_ *Source, t *Target) error { _ = t.Reserved(none); return t.Reserved(none) },
		"pulled before it is reserved":     func(_ *Source, t *Target) error { _ = t.Receive(offer(3)); return t.Pulling(0) },
		"pulled what was not offered":      func(_ *Source, t *Target) error { _ = t.Receive(offer(1)); _ = t.Reserved(none); return t.Pulling(1) },
		"pulled twice": func(_ *Source, t *Target) error {
			_ = t.Receive(offer(1))
			_ = t.Reserved(none)
			_ = t.Pulling(0)
			return t.Pulling(0)
		},
		"proven what was not pulled": func(_ *Source, t *Target) error { _ = t.Receive(offer(1)); _ = t.Reserved(none); return t.Proven(0) },
		"failed what was not pulled": func(_ *Source, t *Target) error { return t.Failed(0) },
		"fenced without having stopped": func(_ *Source, t *Target) error {
			_ = t.Receive(offer(1))
			_ = t.Reserved(none)
			_ = t.Pulling(0)
			return t.Fenced(0)
		},
		"pulled after its own cache had it": func(_ *Source, t *Target) error { _ = t.Receive(offer(3)); _ = t.Reserved(all); return t.Pulling(0) },
	} {
		err := events(NewSource(testRoom, 3), NewTarget(testRoom, 3))
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A connection that is lost ends a source in every state, and a target as a stop does: at once where nothing lands, and when
// what lands has been fenced.
func TestLost(t *testing.T) {
	lost := Message{Room: testRoom, Kind: Lost}
	for name, before := range map[string]func(s *Source){
		"before anything": func(*Source) {},
		"publishing":      func(s *Source) { _, _ = s.Sealed(1) },
		"whole":           func(s *Source) { _, _ = s.Sealed(3) },
		"stopping":        func(s *Source) { _, _ = s.Sealed(1); s.Stop() },
	} {
		s := NewSource(testRoom, 3)
		if before(s); s.Receive(lost) != nil || !s.Retired() || s.Publishing() || s.Outcome() != Broken {
			t.Errorf("%s: %+v", name, s)
		}
	}
	none := func(int) bool { return false }
	for name, c := range map[string]struct {
		before func(t *Target)
		lands  int
		want   Outcome
	}{
		"waiting":   {func(*Target) {}, 0, Abandoned},
		"offered":   {func(t *Target) { _ = t.Receive(offer(2)) }, 0, Abandoned},
		"pulling":   {func(t *Target) { _ = t.Receive(offer(2)); _ = t.Reserved(none); _ = t.Pulling(0); _ = t.Pulling(1) }, 2, Abandoned},
		"fencing":   {func(t *Target) { _ = t.Receive(offer(2)); _ = t.Reserved(none); _ = t.Pulling(1); t.Stop() }, 1, Abandoned},
		"committed": {func(t *Target) { _ = t.Reserved(func(int) bool { return true }) }, 0, Committed},
	} {
		target := NewTarget(testRoom, 3)
		c.before(target)
		if err := target.Receive(lost); err != nil || len(target.Landing()) != c.lands || target.Fencing() != (c.lands > 0) {
			t.Errorf("%s: %v, %+v", name, err, target)
		}
		for _, page := range target.Landing() {
			if target.Outcome() != Pending || target.Fenced(page) != nil {
				t.Errorf("%s: over while page %d lands", name, page)
			}
		}
		if out, _ := target.End(); out != c.want {
			t.Errorf("%s: %v, want %v", name, out, c.want)
		}
		if target.Receive(lost) != nil {
			t.Errorf("%s: a second time", name)
		}
	}
}

// Whatever arrives, in whatever order, a target commits only what it has proven, page by page, by its own count.
func TestHostileSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "pages")
		target := NewTarget(testRoom, n)
		proof := make(map[int]bool)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			page := rapid.IntRange(-1, 5).Draw(t, "page")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1:
				_ = target.Receive(Message{Room: bulkhead.Room(rapid.IntRange(6, 7).Draw(t, "room")),
					Kind: Kind(rapid.IntRange(0, 5).Draw(t, "kind")), Pages: page})
			case 2:
				_ = target.Reserved(func(int) bool { return false })
			case 3:
				_ = target.Pulling(page)
			case 4:
				if target.Proven(page) == nil {
					proof[page] = true
				}
			case 5:
				_ = target.Failed(page)
			case 6:
				_ = target.Fenced(page)
			}
			if target.Outcome() == Committed && len(proof) != n {
				t.Fatalf("committed with proof of %v of %d pages", proof, n)
			}
		}
	})
}

// A prompt of one token hands over nothing: the room is over as soon as it is entered.
func TestEmptyRoom(t *testing.T) {
	s, target := NewSource(testRoom, 0), NewTarget(testRoom, 0)
	m, err := s.Sealed(0)
	if err != nil || target.Receive(m) != nil || target.Reserved(nil) != nil {
		t.Fatal("refused")
	}
	out, end := target.End()
	if out != Committed || s.Receive(end) != nil || s.Outcome() != Committed {
		t.Errorf("outcome %v, source %v", out, s.Outcome())
	}
	if again, _ := target.End(); again != Pending {
		t.Error("a second end")
	}
}
