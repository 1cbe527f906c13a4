package kv

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// model is a pool as one would keep it on paper: pages have no bytes and no seals, and what they hold is the domain and the
// tokens themselves instead of an identity. A rapid state machine drives it beside a real pool; after every action the
// books must be audited, the figures be the same, and the bytes of every sequence be those that its own tokens make.
type model struct {
	rig      *rig
	size     int
	free     int
	doubted  int // free as well, and taken after the others
	setAside int
	lru      []*mpage          // cached, oldest first
	find     map[string]*mpage // published
	seqs     []*mseq
	res      []*mres
	orphans  []*mseq    // released with an append open
	fenced   []*Landing // of abandoned reservations, still open
	fencedAt []*mpage
	domains  map[string]*Identities
}

type mpage struct {
	key              string // where published
	readers, writers int
	bad              bool
	doubted          bool // the last landing failed
	failed           bool // in this reservation
	hurt             bool // a bit was flipped
}

type mseq struct {
	real   *Sequence
	domain string
	tokens []bulkhead.Token
	pages  []*mpage
	open   []bulkhead.Token // of the append
	append *Append
}

type mres struct {
	real   *Reservation
	domain string
	tokens []bulkhead.Token
	pages  []*mpage
	proven []bool
	lands  []*Landing
}

func key(domain string, tokens []bulkhead.Token) string { return domain + fmt.Sprint(tokens) }

func newModel(t *rapid.T) *model {
	size := rapid.IntRange(1, 9).Draw(t, "pages")
	m := &model{size: size, free: size, find: map[string]*mpage{}, domains: map[string]*Identities{}}
	m.rig = newRig(t, small, size, Options{KeepOnFree: rapid.Bool().Draw(t, "keep on free")})
	for _, d := range []string{"a", "b"} {
		m.domains[d] = domain(d, small)
	}
	return m
}

// take is a page from the free ones, or the oldest cached one.
func (m *model) take() *mpage {
	if m.free > 0 {
		m.free--
	} else if len(m.lru) == 0 {
		m.doubted--
		return &mpage{readers: 1, doubted: true}
	} else {
		delete(m.find, m.lru[0].key)
		m.lru = m.lru[1:]
	}
	return &mpage{readers: 1}
}

func (m *model) pin(p *mpage) {
	if i := slices.Index(m.lru, p); i >= 0 {
		m.lru = slices.Delete(m.lru, i, i+1)
	}
	p.readers++
}

// settle puts a page where it waits, if nobody holds it.
func (m *model) settle(p *mpage) {
	switch {
	case p.readers > 0 || p.writers > 0 || p.bad:
	case p.key != "":
		m.lru = append(m.lru, p)
	case p.doubted:
		m.doubted++
	default:
		m.free++
	}
}

func (m *model) publish(p *mpage, key string) {
	if m.find[key] == nil && p.key == "" && !p.bad {
		p.key = key
		m.find[key] = p
	}
}

func (m *model) spoil(p *mpage) {
	if !p.bad {
		p.bad = true
		m.setAside++
		delete(m.find, p.key)
		p.key = ""
	}
}

// drawTokens makes prompts that often share beginnings.
func drawTokens(t *rapid.T, most int) []bulkhead.Token {
	n := rapid.IntRange(1, most).Draw(t, "tokens")
	out := make([]bulkhead.Token, n)
	for at := 0; at < n; at += 16 {
		stem := rapid.IntRange(0, 1).Draw(t, "stem")
		for i := at; i < min(n, at+16); i++ {
			out[i] = bulkhead.Token(stem)
		}
	}
	return out
}

// check runs after every action.
func (m *model) check(t *rapid.T) {
	if err := m.rig.Audit(); err != nil {
		t.Fatal(err)
	}
	got := m.rig.Stats()
	held := map[*mpage]bool{}
	quarantined := map[*mpage]bool{}
	note := func(pages []*mpage) {
		for _, p := range pages {
			held[p] = p.readers > 0 && !p.bad
			quarantined[p] = p.readers == 0 && p.writers > 0 && !p.bad
		}
	}
	for _, s := range append(m.seqs, m.orphans...) {
		note(s.pages)
	}
	for _, r := range m.res {
		note(r.pages)
	}
	note(m.fencedAt)
	want := Stats{Pages: m.size, Free: m.free + m.doubted, Cached: len(m.lru), Live: count(held), Quarantined: count(quarantined), SetAside: m.setAside}
	got.Counters = Counters{}
	if got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for _, s := range m.seqs {
		m.compareBytes(t, s)
	}
}

func count(set map[*mpage]bool) (n int) {
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// compareBytes holds the bytes of a sequence to those that its tokens make: nobody else's, and whole.
func (m *model) compareBytes(t *rapid.T, s *mseq) {
	if s.real.Dead() || s.append != nil || hurt(s) >= 0 {
		return
	}
	if !slices.Equal(s.real.Tokens(), s.tokens) {
		t.Fatalf("tokens %v, want %v", s.real.Tokens(), s.tokens)
	}
	for at, want := range content(small, s.tokens) {
		if got := s.real.Pages()[at]; !bytes.Equal(got[small.SealBytes():], want[small.SealBytes():]) {
			t.Fatalf("page %d of a sequence of %d tokens is not its own", at, len(s.tokens))
		}
	}
}

func TestPoolAgainstModel(t *testing.T) {
	if steps := flag.Lookup("rapid.steps"); steps.Value.String() == steps.DefValue {
		defer flag.Set("rapid.steps", steps.DefValue)
		if err := flag.Set("rapid.steps", "200"); err != nil { // short runs seldom fill a pool
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"begin": m.Begin, "grow": m.Grow, "step": m.Step, "done": m.Done, "give up": m.GiveUp, "flip": m.Flip,
			"release": m.Release, "drain": m.Drain, "reserve": m.Reserve, "land": m.Land, "commit": m.Commit,
			"abandon": m.Abandon, "fence": m.Fence, "flush": m.Flush, "": m.check,
		})
	})
}
