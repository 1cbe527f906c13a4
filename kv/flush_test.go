package kv

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// A flush frees what is cached and nothing that is held; what was flushed is not found again, and its bytes are gone.
func TestFlush(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, small, 8, Options{KeepOnFree: keep})
		ids := domain("a", small)
		held := r.compute(ids, someTokens(40, 1), 40)
		cached := someTokens(33, 2)
		r.compute(ids, cached, 33).Release()
		if got := r.Stats(); got.Cached != 2 || got.Live != 3 {
			t.Fatalf("%+v", got)
		}
		if n := r.Flush(); n != 2 {
			t.Errorf("%d pages were freed, want the 2 that were cached", n)
		}
		r.audit()
		if got := r.Stats(); got.Cached != 0 || got.Live != 3 || got.Free != 5 || r.Flush() != 0 {
			t.Errorf("after the flush: %+v", got)
		}
		again := r.Begin(ids, cached)
		if again.Len() != 0 {
			t.Errorf("%v were found after the flush", again.Len())
		}
		again.Release()
		if v := r.step(held, oneMore(r, held)); v != nil {
			t.Errorf("what was held is damaged: %v", v)
		}
		held.Release()
		shared := r.Begin(ids, someTokens(40, 1))
		if shared.Len() != 32 {
			t.Errorf("%v of what was held are found, want both full pages", shared.Len())
		}
		shared.Release()
		r.audit()
	}
}

// oneMore makes room for one more token, and gives it.
func oneMore(r *rig, s *Sequence) []bulkhead.Token {
	if !r.Grow(s, s.Len()+1) {
		r.t.Fatal("no room")
	}
	return someTokens(1, 3)
}

// Flush is the model's: what is cached is free, and no longer found.
func (m *model) Flush(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "flush") > 0 {
		t.Skip("seldom") // else no cache would ever fill
	}
	if n := m.rig.Flush(); n != len(m.lru) {
		t.Fatalf("%d pages were flushed, and %d are cached", n, len(m.lru))
	}
	for _, p := range m.lru {
		delete(m.find, p.key)
	}
	m.free += len(m.lru)
	m.lru = nil
}
