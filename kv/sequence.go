package kv

import (
	"slices"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Sequence is the tokens of one request with the pages that hold their KV, and the only thing that attention reads through.
//
// It remembers outside the arena what every page must be: its tokens, the identities that follow from them, and the sums. So
// what lies in the arena never vouches for itself, and a page that is stale, foreign, misplaced or unwritten looks the same:
// not as expected.
//
//	tokens   |<------------- Len ------------->|<- open append ->|
//	pages    | full, may be shared | ... | tail |  own, cleared   |
//	         |<---------------------- Capacity ------------------------->|
//
// Only full pages are shared, and appends write behind Len, so a page that is written has one reader. A sequence ends by
// Release; after that every method panics.
type Sequence struct {
	pool   *Pool
	ids    *Identities
	tokens []bulkhead.Token // Len of them, then those of the open append
	len    int

	pages  []bulkhead.PageIndex
	views  [][]byte
	seals  []bulkhead.Seal
	sums   [][]bulkhead.Sum    // what they must sum to, by the pool's own books
	expect []bulkhead.Identity // of the pages that hold tokens

	append   Append // reused
	dead     bool   // had a violation, or an append that was not finished
	released bool
}

// Begin opens a sequence on the longest prefix of tokens that the cache holds in full pages. What follows Len is the
// caller's to compute. The sequence keeps ids for deriving what its pages must be.
func (p *Pool) Begin(ids *Identities, tokens []bulkhead.Token) *Sequence {
	s := p.newSequence(ids)
	size := p.layout.PageTokens
	var parent bulkhead.Identity
	for at := 0; at+size <= len(tokens); at += size {
		id := ids.Next(parent, tokens[at:at+size])
		i, ok := p.index.find(id)
		if !ok {
			break
		}
		p.pin(i)
		s.hold(i)
		s.expect = append(s.expect, id)
		parent = id
	}
	s.len = len(s.pages) * size
	s.tokens = append(s.tokens, tokens[:s.len]...)
	p.total.Asked += bulkhead.Tokens(len(tokens))
	p.total.Hit += bulkhead.Tokens(s.len)
	return s
}

func (p *Pool) newSequence(ids *Identities) *Sequence {
	s := &Sequence{pool: p, ids: ids}
	s.append.s = s
	p.sequences[s] = struct{}{}
	return s
}

// hold puts a page that has been pinned or taken at the end of the sequence.
func (s *Sequence) hold(i bulkhead.PageIndex) {
	view := s.pool.view(i)
	s.pages = append(s.pages, i)
	s.views = append(s.views, view)
	s.seals = append(s.seals, s.pool.layout.SealOf(view))
	s.sums = append(s.sums, s.pool.sumsOf(i))
}

// Need is how many pages Grow to this capacity would take from the pool.
func (s *Sequence) Need(capacity bulkhead.Tokens) int {
	s.held()
	return max(0, s.pool.layout.Pages(capacity)-len(s.pages))
}

// Gain is how many pages Release would give back to the pool, cached ones included: those that only this sequence holds.
func (s *Sequence) Gain() (pages int) {
	s.held()
	for _, i := range s.pages {
		if pg := &s.pool.pages[i]; pg.readers == 1 && pg.writers == 0 && !pg.bad && !s.append.open {
			pages++
		}
	}
	return pages
}

// CanGrow reports whether Grow to this capacity would succeed now.
func (p *Pool) CanGrow(s *Sequence, capacity bulkhead.Tokens) bool {
	return s.Need(capacity) <= p.FreePages()
}

// Grow gives the sequence pages until it can hold capacity tokens, evicting cached pages that were used least recently. It
// reports false, and changes nothing, where the pool has too few.
func (p *Pool) Grow(s *Sequence, capacity bulkhead.Tokens) bool {
	s.usable()
	invariant.Check(s.pool == p, "kv: a sequence was grown by another pool")
	invariant.Check(!s.append.open, "kv: a sequence was grown while an append is open")
	need := s.Need(capacity)
	if need == 0 {
		return true
	}
	if need > p.FreePages() {
		return false
	}
	s.tokens = slices.Grow(s.tokens, int(capacity)-len(s.tokens)+p.layout.PageTokens)
	s.expect = slices.Grow(s.expect, len(s.pages)+need-len(s.expect))
	p.take(need, func(i bulkhead.PageIndex) {
		p.wash(i)
		s.hold(i)
	})
	p.costlyAudit()
	return true
}

// Len is how many tokens the sequence holds.
func (s *Sequence) Len() bulkhead.Tokens { s.held(); return bulkhead.Tokens(s.len) }

// Capacity is how many tokens its pages could hold.
func (s *Sequence) Capacity() bulkhead.Tokens { s.held(); return s.pool.tokens(len(s.pages)) }

// Tokens are the tokens it holds, to be read only.
func (s *Sequence) Tokens() []bulkhead.Token { s.held(); return s.tokens[:s.len:s.len] }

// Pages are the bytes of all its pages in order, for attention; page i holds the tokens from i*PageTokens. They are valid
// until the next Grow or Release. Full pages do not change while the sequence is held, so others may read them too.
func (s *Sequence) Pages() [][]byte { s.usable(); return s.views }

// Filled is how many tokens the page at a place of the sequence holds, by the sequence's own count.
func (s *Sequence) Filled(at int) int {
	s.held()
	return filled(s.len, at, s.pool.layout.PageTokens)
}

// Identity is what the page at a place of the sequence must be, by the sequence's own tokens.
func (s *Sequence) Identity(at int) bulkhead.Identity { s.held(); return s.expect[at] }

// Check compares what every page that holds tokens says it is with what the sequence's tokens call for. A violation makes
// the sequence dead and sets the page aside; only Release is left then. It runs before every step.
func (s *Sequence) Check() *bulkhead.Violation {
	s.usable()
	size := s.pool.layout.PageTokens
	for at, id := range s.expect {
		seal := s.seals[at]
		if seal.Identity() != id || seal.Filled() != filled(s.len, at, size) {
			v := s.pool.sealViolation(s.pages[at], at, id, filled(s.len, at, size))
			s.fail(v)
			return v
		}
	}
	return nil
}

// Resum takes the sums of one page of the sequence anew and compares them, and what the page says it is, with what they
// must be. A violation counts as one of Check. It is for the holder of a source page whose copy could not be proven, so that
// a damaged page is not handed over again. No append may be open.
func (s *Sequence) Resum(at int) *bulkhead.Violation {
	s.usable()
	invariant.Check(!s.append.open, "kv: sums were taken anew while an append is open")
	v := s.pool.prove(s.pages[at], at, s.expect[at], s.Filled(at))
	if v == nil {
		v = s.pool.sealOfAnother(s.pages[at], at)
	}
	if v != nil {
		s.fail(v)
	}
	return v
}

// fail makes the sequence dead, and sets a page aside where there is one to blame.
func (s *Sequence) fail(v *bulkhead.Violation) {
	s.dead = true
	if v == nil {
		return
	}
	invariant.Check(v.At >= 0 && v.At < len(s.pages) && s.pages[v.At] == v.Page, "kv: a violation of a page that is not the sequence's")
	s.pool.setAside(v.Page)
}

// Dead reports whether the sequence had a violation or an append that failed, so that only Release is left.
func (s *Sequence) Dead() bool { s.held(); return s.dead }

// Release ends the sequence. Full pages that are findable stay cached, all others are cleared and free; pages that others
// hold stay with them. Where an append is still open, its step may read and write any page of the sequence: all of them
// wait for its end, in quarantine.
func (s *Sequence) Release() {
	s.held()
	s.released = true
	full := s.len / s.pool.layout.PageTokens
	for at := len(s.pages) - 1; at >= 0; at-- { // children are evicted before their parents
		switch {
		case s.append.open:
			s.pool.openWrite(s.pages[at])
		case at < full && !s.dead: // it may have been private beside a page that is gone by now
			s.pool.publish(s.pages[at], s.expect[at])
		}
		s.pool.unpin(s.pages[at])
	}
	if !s.append.open {
		s.forget()
	}
	s.pool.costlyAudit()
}

// drain closes the writes that Release left open.
func (s *Sequence) drain() {
	for at := len(s.pages) - 1; at >= 0; at-- {
		s.pool.closeWrite(s.pages[at])
	}
	s.forget()
	s.pool.costlyAudit()
}

func (s *Sequence) forget() {
	delete(s.pool.sequences, s)
	s.pages, s.views, s.seals, s.sums = nil, nil, nil, nil
}

func (s *Sequence) held() {
	invariant.Check(!s.released, "kv: a sequence was used after Release")
}

func (s *Sequence) usable() {
	s.held()
	invariant.Check(!s.dead, "kv: a sequence was used after its violation")
}

// filled is how many of n tokens lie in page at.
func filled(n, at, pageTokens int) int { return max(0, min(pageTokens, n-at*pageTokens)) }

// sealViolation says how a page's seal differs from what its reader expects.
func (p *Pool) sealViolation(i bulkhead.PageIndex, at int, id bulkhead.Identity, filled int) *bulkhead.Violation {
	seal := p.seal(i)
	v := &bulkhead.Violation{Page: i, At: at, Layer: -1}
	if found := seal.Identity(); found != id {
		v.Part, v.Expected, v.Found = bulkhead.PartIdentity, id.String(), found.String()
	} else {
		v.Part, v.Expected, v.Found = bulkhead.PartFilled, strconv.Itoa(filled), strconv.Itoa(seal.Filled())
	}
	return v
}
