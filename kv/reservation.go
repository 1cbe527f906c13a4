package kv

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Reservation is pages for KV that another worker computed: they can be written and not read. It expects of every page the
// identity and the number of tokens that follow from the request's own tokens, and is never told them by the sender.
//
// It ends by Commit, which makes a sequence of it when every page is proven, or by Abandon; after that every method
// panics. A landing that is open when the reservation is abandoned goes on until it is fenced, and keeps its page in
// quarantine until then.
type Reservation struct {
	pool   *Pool
	ids    *Identities
	tokens []bulkhead.Token
	slots  []reserved
	ended  bool
}

// reserved is one page of a reservation.
type reserved struct {
	page    bulkhead.PageIndex
	id      bulkhead.Identity
	have    bool     // found in the pool's own cache
	proven  bool     // may be read after Commit
	failed  bool     // had a violation; there is no second try
	landing *Landing // open
}

// Reserve takes pages for the KV of tokens, and pins those full ones that the pool already has. It reports false, and
// changes nothing, where the pool has too few.
func (p *Pool) Reserve(ids *Identities, tokens []bulkhead.Token) (*Reservation, bool) {
	r := &Reservation{pool: p, ids: ids, tokens: append([]bulkhead.Token(nil), tokens...)}
	size := p.layout.PageTokens
	need := r.expect(size)
	if need > p.FreePages() {
		for _, s := range r.slots {
			if s.have {
				p.unpin(s.page)
			}
		}
		return nil, false
	}
	at := 0
	p.take(need, func(i bulkhead.PageIndex) {
		for r.slots[at].have {
			at++
		}
		r.slots[at].page = i
		at++
	})
	p.total.Asked += bulkhead.Tokens(len(tokens))
	p.total.Hit += p.tokens(len(r.slots) - need)
	p.reservations[r] = struct{}{}
	p.costlyAudit()
	return r, true
}

// expect derives what every page must be, pins those that are there, and counts those that are not.
func (r *Reservation) expect(size int) (need int) {
	var parent bulkhead.Identity
	for at := 0; at < len(r.tokens); at += size {
		end := min(at+size, len(r.tokens))
		parent = r.ids.Next(parent, r.tokens[at:end])
		s := reserved{id: parent}
		if i, ok := r.pool.index.find(parent); ok && end-at == size {
			r.pool.pin(i)
			s.page, s.have, s.proven = i, true, true
		} else {
			need++
		}
		r.slots = append(r.slots, s)
	}
	return need
}

// Pages is how many pages the tokens take.
func (r *Reservation) Pages() int { r.held(); return len(r.slots) }

// Expected is what page i must be.
func (r *Reservation) Expected(i int) (id bulkhead.Identity, filledTokens int) {
	r.held()
	return r.slots[i].id, filled(len(r.tokens), i, r.pool.layout.PageTokens)
}

// Have reports whether page i came from the pool's own cache, so that nothing is to land.
func (r *Reservation) Have(i int) bool { r.held(); return r.slots[i].have }

// Proven reports whether page i could be committed.
func (r *Reservation) Proven(i int) bool { r.held(); return r.slots[i].proven }

// Commit makes a sequence of the reservation. It fails, and changes nothing, unless every page is proven.
func (r *Reservation) Commit() (*Sequence, error) {
	r.held()
	for i, s := range r.slots {
		if !s.proven {
			return nil, fmt.Errorf("kv: page %d of %d is not proven", i+1, len(r.slots))
		}
	}
	seq := r.pool.newSequence(r.ids)
	for i, s := range r.slots {
		seq.hold(s.page)
		seq.expect = append(seq.expect, s.id)
		if filled(len(r.tokens), i, r.pool.layout.PageTokens) == r.pool.layout.PageTokens {
			r.pool.publish(s.page, s.id)
		}
	}
	seq.tokens, seq.len = r.tokens, len(r.tokens)
	r.end()
	r.pool.costlyAudit()
	return seq, nil
}

// Abandon gives the pages back.
func (r *Reservation) Abandon() {
	r.held()
	for i := len(r.slots) - 1; i >= 0; i-- {
		r.pool.unpin(r.slots[i].page)
	}
	r.end()
	r.pool.costlyAudit()
}

func (r *Reservation) end() {
	r.ended = true
	delete(r.pool.reservations, r)
}

func (r *Reservation) held() {
	invariant.Check(!r.ended, "kv: a reservation was used after Commit or Abandon")
}
