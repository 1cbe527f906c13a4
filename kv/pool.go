// Package kv is the pages of one worker: who holds them, what they must hold, and when they may be used again.
//
// It is a state machine without goroutine, lock, clock or I/O, owned by one worker's loop. Three types are the way of a
// page from memory to attention, and only the last can be read:
//
//   - A [Pool] cuts an arena into pages and keeps the books: free, live, cached, in quarantine, set aside.
//   - A [Reservation] is pages that another worker's KV is written into. Nothing in its API reads; [Reservation.Land] opens
//     a write into one page, [Landing.Prove] closes it with a proof, and [Reservation.Commit] turns the reservation into
//     a sequence when every page is proven.
//   - A [Sequence] is pages that a request may attend over. It comes from Begin, which starts on cached pages and computes
//     the rest, or from Commit. [Sequence.Check] compares before every step what the pages say they are with what the
//     sequence's own tokens call for; an [Append] takes the tokens of the step, and its Compare compares what attention
//     read with the seals. What does not agree is a violation: that sequence is dead and the page is set aside.
//
// One step of one sequence:
//
//	if v := seq.Check(); v != nil { ... }        // dead; only Release is left
//	a := seq.Append(tokens)                      // after Pool.Grow made room
//	for each layer:
//	    page, slot := a.Slot(i); store; a.ExtendK(layer, i, sum); a.ExtendV(layer, i, sum)
//	    attention over seq.Pages(); for each page: v := a.Compare(layer, page, k, v)
//	a.Done()                                     // or a.Fail(v)
//
// Cached pages are found by [Identities]: a keyed hash, so two trust domains in one pool never meet.
package kv

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Summer takes the sums of a whole layer of a page as it stands. Results equal those of bulkhead.Layout's methods, which
// are the default; kernels have faster ones.
type Summer interface {
	SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum
	SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum
}

type reference struct{}

func (reference) SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	return l.SumK(page, layer, filled)
}

func (reference) SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	return l.SumV(page, layer, filled)
}

// Options are what a pool is made of.
type Options struct {
	Layout bulkhead.Layout
	Arena  []byte // whole pages, zero; the pool is its only owner
	Summer Summer // nil: the reference

	// KeepOnFree leaves what a page held in it until the page is handed out again, and clears it then. A page is never
	// handed out dirty either way.
	KeepOnFree bool
}

// Pool is the pages of one worker.
//
// A page has two lifetimes. Readers are the sequences that attend over it, and the reservations that will; writers are open
// writes: a landing, or the append of a sequence that has been released meanwhile. Where it is follows from them:
//
//	readers > 0                        live
//	readers = 0, writers > 0           in quarantine
//	readers = 0, writers = 0, indexed  cached: found by its identity, and evicted when a page is needed
//	otherwise                          free, cleared on its way there
//	bad                                set aside until restart, whatever else holds
//
// So no page is handed out while anybody may still read or write it, and there is no timer that says otherwise. The cost
// is that a writer that never closes keeps its page: that is a leak that shows in Stats and not another tenant's KV.
type Pool struct {
	layout bulkhead.Layout
	arena  []byte
	summer Summer
	keep   bool
	bytes  int // of a page

	pages []page
	sums  []bulkhead.Sum       // see sumsOf
	free  []bulkhead.PageIndex // a stack
	index prefixIndex
	count struct{ live, quarantined, setAside int }
	total Counters

	sequences    map[*Sequence]struct{} // held, or released with an append still open
	reservations map[*Reservation]struct{}
	landings     map[*Landing]struct{}
}

// page is the pool's book of one page. Nothing in it is believed about the page's bytes.
type page struct {
	readers int32
	writers int32
	bad     bool // set aside
	doubted bool // a landing on it could not be proven, and nothing was written since that was
	indexed bool // in the prefix index under id
	dirty   bool // free or reserved, and to be cleared before anybody gets its bytes
	id      bulkhead.Identity

	prev, next int32 // cached: neighbours in the order of use
}

// New cuts the arena into pages.
func New(o Options) (*Pool, error) {
	if err := o.Layout.Check(); err != nil {
		return nil, err
	}
	size := o.Layout.PageBytes()
	n := len(o.Arena) / size
	if n < 1 || n > 1<<30 || len(o.Arena)%size != 0 {
		return nil, fmt.Errorf("kv: an arena of %d bytes is not whole pages of %d", len(o.Arena), size)
	}
	p := &Pool{
		layout: o.Layout, arena: o.Arena, summer: o.Summer, keep: o.KeepOnFree, bytes: size,
		pages:        make([]page, n),
		sums:         make([]bulkhead.Sum, 2*n*o.Layout.Layers),
		free:         make([]bulkhead.PageIndex, n),
		index:        newPrefixIndex(n),
		sequences:    map[*Sequence]struct{}{},
		reservations: map[*Reservation]struct{}{},
		landings:     map[*Landing]struct{}{},
	}
	if p.summer == nil {
		p.summer = reference{}
	}
	for i := range p.free {
		p.free[i] = bulkhead.PageIndex(n - 1 - i) // the first page on top
	}
	return p, nil
}

// Layout is how the pool's pages lie.
func (p *Pool) Layout() bulkhead.Layout { return p.layout }

// view is the bytes of a page. No slice of it reaches the next page.
func (p *Pool) view(i bulkhead.PageIndex) []byte {
	at := int(i) * p.bytes
	return p.arena[at : at+p.bytes : at+p.bytes]
}

// sumsOf is what the pool knows by itself of what a page must sum to, in each layer K, then V: added up from the values that
// were appended, or taken over from a seal when its page was proven. It lies outside the arena, so that a page which is
// overwritten as a whole, with a seal that is valid somewhere else, does not vouch for itself, whenever that happens.
func (p *Pool) sumsOf(i bulkhead.PageIndex) []bulkhead.Sum {
	n := 2 * p.layout.Layers
	return p.sums[int(i)*n:][:n:n]
}

func (p *Pool) seal(i bulkhead.PageIndex) bulkhead.Seal { return p.layout.SealOf(p.view(i)) }

// take hands out n pages with one reader each: free ones first, then the cached ones that were used least recently, and last
// those that are doubted. The
// caller has asked FreePages, and calls wash before anybody gets their bytes.
func (p *Pool) take(n int, each func(bulkhead.PageIndex)) {
	invariant.Check(n <= p.FreePages(), "kv: more pages were taken than are free")
	for range n {
		i := p.takeOne()
		p.pages[i].readers = 1
		p.count.live++
		clear(p.sumsOf(i))
		each(i)
	}
}

func (p *Pool) takeOne() bulkhead.PageIndex {
	oldest := p.index.oldest
	if n := len(p.free); n > 0 && (oldest == none || !p.pages[p.free[n-1]].doubted) {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	invariant.Check(oldest != none, "kv: no page is free")
	i := bulkhead.PageIndex(oldest)
	p.index.unlink(p.pages, oldest)
	p.retire(i)
	p.pages[i].dirty = true
	p.total.Evicted++
	return i
}

// wash clears a page that was taken, if it is not clear.
func (p *Pool) wash(i bulkhead.PageIndex) {
	if pg := &p.pages[i]; pg.dirty {
		p.clear(i)
		pg.dirty = false
	}
	if invariant.Costly {
		invariant.Check(isZero(p.view(i)), "kv: a page is handed out and not clear")
	}
}

func (p *Pool) clear(i bulkhead.PageIndex) { clear(p.view(i)) }

// pin adds a reader to a page that the index has found.
func (p *Pool) pin(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	invariant.Check(pg.indexed && !pg.bad, "kv: a page that is not in the index was pinned")
	if pg.readers == 0 {
		if pg.writers == 0 {
			p.index.unlink(p.pages, int32(i))
		} else {
			p.count.quarantined--
		}
		p.count.live++
	}
	pg.readers++
}

// unpin takes one reader from a page.
func (p *Pool) unpin(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	invariant.Check(pg.readers > 0, "kv: a page without a reader was unpinned")
	pg.readers--
	if pg.readers > 0 || pg.bad {
		return
	}
	p.count.live--
	if pg.writers > 0 {
		p.count.quarantined++
		return
	}
	p.settle(i)
}

// openWrite adds a writer to a page that has a reader.
func (p *Pool) openWrite(i bulkhead.PageIndex) {
	invariant.Check(p.pages[i].readers > 0, "kv: a write was opened into a page that nobody holds")
	p.pages[i].writers++
}

// closeWrite takes one writer from a page.
func (p *Pool) closeWrite(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	invariant.Check(pg.writers > 0, "kv: a page without a writer was closed")
	pg.writers--
	if pg.writers > 0 || pg.readers > 0 || pg.bad {
		return
	}
	p.count.quarantined--
	p.settle(i)
}

// settle puts a page that nobody reads or writes where it waits for its next use.
func (p *Pool) settle(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	if pg.indexed {
		p.index.link(p.pages, int32(i))
		return
	}
	pg.dirty = true
	if !p.keep {
		p.wash(i)
	}
	if pg.doubted {
		p.free = slices.Insert(p.free, 0, i) // the last to be taken: the next try is to be on another
		return
	}
	p.free = append(p.free, i)
}

// setAside takes a page out of use until restart. Its readers keep it and find out by themselves.
func (p *Pool) setAside(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	if pg.bad {
		return
	}
	invariant.Check(pg.readers > 0 || pg.writers > 0, "kv: a page that nobody holds was set aside")
	if pg.readers > 0 {
		p.count.live--
	} else {
		p.count.quarantined--
	}
	pg.bad = true
	p.count.setAside++
	if pg.indexed {
		p.retire(i)
	}
}

// publish makes a full, proven page findable. Where another page already has the identity, that one stays and this one
// remains private to its sequence: an identity has one entry, and a running sequence's pages do not change under it.
func (p *Pool) publish(i bulkhead.PageIndex, id bulkhead.Identity) {
	if pg := &p.pages[i]; !pg.bad && !pg.indexed && p.index.add(id, i) {
		pg.indexed, pg.id = true, id
	}
}

// retire takes a page out of the index.
func (p *Pool) retire(i bulkhead.PageIndex) {
	pg := &p.pages[i]
	p.index.remove(pg.id)
	pg.indexed, pg.id = false, bulkhead.Identity{}
}

var zeros [4096]byte

func isZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}
