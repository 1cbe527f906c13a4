package kv

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Landing is one open write into one page of a reservation. Whoever copies may do so in another goroutine, and must have
// stopped before the landing is closed, by Prove or by Fence. After its reservation was abandoned only Fence is left.
//
// Bytes and Examine are for whoever copies, and use nothing of the pool that changes; everything else is the owner's.
type Landing struct {
	r      *Reservation
	at     int
	done   bool
	page   []byte
	filled int            // that the reservation expects
	sums   []bulkhead.Sum // in each layer K, then V, as Examine found them: of so many layers as it was called for
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
	s.landing = &Landing{r: r, at: i, page: r.pool.view(s.page), filled: filled(len(r.tokens), i, r.pool.layout.PageTokens)}
	r.pool.landings[s.landing] = struct{}{}
	return s.landing
}

// Bytes is the whole page, seal included, to copy into.
func (l *Landing) Bytes() []byte {
	invariant.Check(!l.done, "kv: a landing was used after it was closed")
	return l.page
}

// Examine takes the sums of what was written, while it is in the cache of whoever wrote it: of those layers that lie within
// the first so many bytes of the page and were not examined before, so a copy that goes piece by piece is followed piece by piece.
// It judges nothing: Prove does, and saves its own pass over the page. Of what was not examined Prove takes the sums itself.
//
// There is no gap between Examine and Prove that the proof would not cover. While the landing is open its page is read by
// nobody and written by the one who copies, who has returned before the owner closes it: no append is open on it, since it
// is no sequence's yet, and no second landing. What writes all the same is a fault, and whatever it does, before or after
// Prove, meets the books: they take over the sums of Examine, which every attention step compares with the bytes that it reads.
func (l *Landing) Examine(written int) {
	invariant.Check(!l.done, "kv: a landing was used after it was closed")
	p := l.r.pool
	layout := &p.layout
	if l.sums == nil {
		l.sums = make([]bulkhead.Sum, 0, 2*layout.Layers)
	}
	whole := min(layout.Layers, max(0, written-layout.SealBytes())/layout.LayerBytes())
	for layer := len(l.sums) / 2; layer < whole; layer++ {
		l.sums = append(l.sums, p.summer.SumK(layout, l.page, layer, l.filled), p.summer.SumV(layout, l.page, layer, l.filled))
	}
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
	l.Examine(len(l.page))
	l.close()
	r := l.r
	s := &r.slots[l.at]
	pg, n := &r.pool.pages[s.page], filled(len(r.tokens), l.at, r.pool.layout.PageTokens)
	if v := r.pool.proveExamined(s.page, l.at, s.id, n, l.sums); v != nil {
		s.failed = true
		if pg.doubted {
			r.pool.setAside(s.page)
		}
		pg.doubted = true
		return v
	}
	pg.doubted = false
	r.pool.tidy(s.page, s.id, n, l.sums)
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
