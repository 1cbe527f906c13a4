package kv

import "github.com/bulkhead-llm/bulkhead"

// Stats are the pool's books at one moment. Every page is in exactly one of the five states.
type Stats struct {
	Pages       int
	Free        int // nobody's
	Cached      int // nobody's, and found by their identity
	Live        int // held by a sequence or a reservation
	Quarantined int // no reader, and a write still open
	SetAside    int // had a violation; out of use until restart
	Counters
}

// Counters only grow.
type Counters struct {
	Asked   bulkhead.Tokens // prompt tokens that Begin and Reserve were asked for
	Hit     bulkhead.Tokens // of them, those that were found
	Evicted int             // cached pages that were needed for something else
}

// Idle reports whether no page is held or open to a write.
func (s Stats) Idle() bool { return s.Live == 0 && s.Quarantined == 0 }

// Stats is the pool's books.
func (p *Pool) Stats() Stats {
	return Stats{
		Pages: len(p.pages), Free: len(p.free), Cached: p.index.cached,
		Live: p.count.live, Quarantined: p.count.quarantined, SetAside: p.count.setAside,
		Counters: p.total,
	}
}

// Size is how many tokens the pool's pages hold together.
func (p *Pool) Size() bulkhead.Tokens { return p.tokens(len(p.pages)) }

// Free is how many tokens could be taken now: the pages that are free, and the cached ones that can be evicted.
func (p *Pool) Free() bulkhead.Tokens { return p.tokens(p.FreePages()) }

// FreePages is Free in pages.
func (p *Pool) FreePages() int { return len(p.free) + p.index.cached }

func (p *Pool) tokens(pages int) bulkhead.Tokens { return bulkhead.Tokens(pages * p.layout.PageTokens) }
