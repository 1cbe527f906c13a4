package kv

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Landing is one open write into one page of a reservation. Whoever copies may do so in another goroutine, and must have
// stopped before the landing is closed, by Prove or by Fence. After its reservation was abandoned only Fence is left.
type Landing struct {
	r    *Reservation
	at   int
	done bool
}

// Land opens a write into page i, which is not there, not proven, and not open. A page that was evicted for the reservation
// is cleared here and not all at once in Reserve: 256 pages of SmolLM2-135M take 14 ms, and other requests' tokens wait.
func (r *Reservation) Land(i int) *Landing {
	r.held()
	s := &r.slots[i]
	invariant.Check(!s.proven, "kv: a landing on a page that is there")
	invariant.Check(!s.failed, "kv: a landing on a page that had a violation")
	invariant.Check(s.landing == nil, "kv: a second landing on a page")
	r.pool.wash(s.page)
	r.pool.openWrite(s.page)
	s.landing = &Landing{r: r, at: i}
	r.pool.landings[s.landing] = struct{}{}
	return s.landing
}

// Bytes is the whole page, seal included, to copy into.
func (l *Landing) Bytes() []byte {
	invariant.Check(!l.done, "kv: a landing was used after it was closed")
	return l.r.pool.view(l.r.slots[l.at].page)
}

// Prove closes the write and proves the page: its identity and count against what the reservation expects, and every sum
// in its seal against the bytes. A page that is proven is then written by nobody but its sequence's own appends: its
// seal is written anew from what was proven, and what lies behind its tokens is cleared.
//
// After a violation the reservation can only be abandoned. Most likely the source is to blame, or the way, and this page, which
// was written here and is cleared on its way back, is as good as before: if it were set aside at once, one bad source
// could drain the pool. So it goes back and is doubted; where the next landing on it fails as well, it is set aside.
func (l *Landing) Prove() *bulkhead.Violation {
	l.r.held()
	l.close()
	r := l.r
	s := &r.slots[l.at]
	pg, n := &r.pool.pages[s.page], filled(len(r.tokens), l.at, r.pool.layout.PageTokens)
	if v := r.pool.prove(s.page, l.at, s.id, n); v != nil {
		s.failed = true
		if pg.doubted {
			r.pool.setAside(s.page)
		}
		pg.doubted = true
		return v
	}
	pg.doubted = false
	r.pool.tidy(s.page, s.id, n)
	s.proven = true
	return nil
}

// Fence closes the write without a proof. A second landing on the page starts from a clear page again.
func (l *Landing) Fence() {
	invariant.Check(!l.done, "kv: a landing was used after it was closed")
	l.r.pool.pages[l.r.slots[l.at].page].dirty = true
	l.close()
}

func (l *Landing) close() {
	invariant.Check(!l.done, "kv: a landing was used after it was closed")
	l.done = true
	s := &l.r.slots[l.at]
	s.landing = nil
	delete(l.r.pool.landings, l)
	l.r.pool.closeWrite(s.page)
}
