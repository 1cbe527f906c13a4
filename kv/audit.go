package kv

import (
	"errors"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Audit counts everything anew and reports where the books disagree: every page in exactly one state, as many readers and
// writers as there are sequences, reservations and open writes that hold it, index and order of use whole, free pages
// zero. It is for tests and for the end of a worker; it looks at no page that is in use.
func (p *Pool) Audit() error {
	if err := p.auditBooks(); err != nil {
		return err
	}
	for _, i := range p.free {
		if !p.pages[i].dirty && !isZero(p.view(i)) {
			return fmt.Errorf("kv: free page %d is not zero", i)
		}
	}
	return nil
}

// costlyAudit is for the build tag invariants.
func (p *Pool) costlyAudit() {
	if !invariant.Costly {
		return
	}
	if err := p.auditBooks(); err != nil {
		invariant.Failf("%v", err)
	}
}

func (p *Pool) auditBooks() error {
	waiting, err := p.auditWaiting()
	if err != nil {
		return err
	}
	readers, writers := p.holders()
	var got Stats
	for i := range p.pages {
		pg := &p.pages[i]
		if pg.readers != readers[i] || pg.writers != writers[i] {
			return fmt.Errorf("kv: page %d has %d readers and %d writers, the books say %d and %d",
				i, readers[i], writers[i], pg.readers, pg.writers)
		}
		if found, ok := p.index.find(pg.id); pg.indexed && (!ok || int(found) != i || pg.bad) {
			return fmt.Errorf("kv: page %d counts as findable and is not", i)
		}
		idle := pg.readers == 0 && pg.writers == 0 && !pg.bad
		if want := state(pg); idle && waiting[i] != want || !idle && waiting[i] != "" {
			return fmt.Errorf("kv: page %d is %s and waits as %q", i, want, waiting[i])
		}
		got.add(state(pg))
	}
	want := p.Stats()
	got.Pages, got.Counters = want.Pages, want.Counters
	if got != want {
		return fmt.Errorf("kv: the pages count %+v, the books say %+v", got, want)
	}
	return p.auditIndex()
}

func state(pg *page) string {
	switch {
	case pg.bad:
		return "set aside"
	case pg.readers > 0:
		return "live"
	case pg.writers > 0:
		return "in quarantine"
	case pg.indexed:
		return "cached"
	}
	return "free"
}

func (s *Stats) add(state string) {
	switch state {
	case "set aside":
		s.SetAside++
	case "live":
		s.Live++
	case "in quarantine":
		s.Quarantined++
	case "cached":
		s.Cached++
	case "free":
		s.Free++
	}
}

// auditWaiting walks the free list and the order of use: no page twice, none in both.
func (p *Pool) auditWaiting() ([]string, error) {
	waiting := make([]string, len(p.pages))
	for _, i := range p.free {
		if waiting[i] != "" {
			return nil, fmt.Errorf("kv: page %d is free twice", i)
		}
		waiting[i] = "free"
	}
	prev, n := none, 0
	for i := p.index.oldest; i != none; prev, i = i, p.pages[i].next {
		if waiting[i] != "" || p.pages[i].prev != prev {
			return nil, fmt.Errorf("kv: page %d breaks the order of use", i)
		}
		waiting[i] = "cached"
		n++
	}
	if prev != p.index.newest || n != p.index.cached {
		return nil, errors.New("kv: the order of use does not end where the books say")
	}
	return waiting, nil
}

// holders counts who holds each page, from the sequences, reservations and landings themselves.
func (p *Pool) holders() (readers, writers []int32) {
	readers, writers = make([]int32, len(p.pages)), make([]int32, len(p.pages))
	for s := range p.sequences {
		to := readers
		if s.released {
			to = writers
		}
		for _, i := range s.pages {
			to[i]++
		}
	}
	for r := range p.reservations {
		for _, s := range r.slots {
			readers[s.page]++
		}
	}
	for l := range p.landings {
		writers[l.r.slots[l.at].page]++
	}
	return readers, writers
}

func (p *Pool) auditIndex() error {
	for id, i := range p.index.pages {
		if pg := &p.pages[i]; !pg.indexed || pg.id != id || id == (bulkhead.Identity{}) {
			return fmt.Errorf("kv: the index has page %d under %v, the page %v", i, id, pg.id)
		}
	}
	return nil
}
