package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"pgregory.net/rapid"
)

// pair is both schedulers over pools that count pages, without engine or handoff: what prefill has computed is pinned until
// decode has reserved it.
type pair struct {
	limits  bulkhead.Limits
	prefill *Prefill
	decode  *Decode
	free    int // pages of the prefill pool
	pinned  map[Ticket]int
	left    map[Ticket]int // of those that are computed again
	pool    *fakePool
	jobs    map[Ticket]*request
	setBack []Ticket
	ended   []Ticket
	check   func(format string, args ...any)
}

type request struct {
	tenant         string
	tokens, answer int // tokens so far, and still to come
	ends           int
}

func (p *pair) submit(t Ticket, r *request) *bulkhead.Refusal {
	p.jobs[t] = r
	return p.prefill.Submit(Job{Ticket: t, Tenant: r.tenant, Tokens: bulkhead.Tokens(r.tokens - 1)}, time.Time{})
}

// turn is one turn of both loops.
func (p *pair) turn() {
	for {
		j, ok := p.prefill.Next()
		need := p.pool.need(int(j.Tokens))
		if !ok || need > p.free {
			break
		}
		p.free -= need
		p.pinned[j.Ticket] = need
		if p.prefill.Begun(j.Ticket, 0) {
			p.decode.Offer(j.Ticket, j.Tokens)
		}
	}
	var sum bulkhead.Tokens
	for _, s := range p.prefill.Step() {
		if sum += s.Tokens; s.Last {
			p.decode.Offer(s.Ticket, bulkhead.Tokens(p.jobs[s.Ticket].tokens-1))
		}
	}
	if sum > p.limits.Chunk {
		p.check("a chunk of %d tokens", sum)
	}
	for {
		t, ok := p.decode.Next(bulkhead.Tokens(p.pool.free * p.pool.page))
		if !ok {
			break
		}
		n := p.jobs[t].tokens - 1
		if slices.Contains(p.setBack, t) {
			p.decode.Begun(t)
			p.left[t] = n
		} else {
			p.decode.Reserved(t)
			p.unpin(t)
		}
		p.pool.len[t], p.pool.pages[t] = n, p.pool.need(n)
		p.pool.free -= p.pool.need(n)
		if p.left[t] == 0 {
			p.decode.Landed(t)
		}
	}
	p.recompute()
	if _, _, _, running := p.decode.Lens(); running > p.limits.Running {
		p.check("%d run", running)
	}
	for _, t := range p.decode.Step(p) {
		r := p.jobs[t]
		p.pool.len[t]++
		r.tokens++
		if r.answer--; r.answer == 0 {
			p.decode.Remove(t)
			p.pool.drop(t)
			p.ended = append(p.ended, t)
			r.ends++
		}
	}
}

// recompute computes a chunk of those that were set back.
func (p *pair) recompute() {
	budget := int(p.limits.Chunk)
	for _, t := range p.decode.Computing() {
		n := min(budget, p.left[t])
		budget -= n
		if p.left[t] -= n; p.left[t] == 0 {
			p.decode.Landed(t)
		}
	}
}

func (p *pair) unpin(t Ticket) {
	p.prefill.Close(t)
	p.free += p.pinned[t]
	delete(p.pinned, t)
}

func (p *pair) Grow(t Ticket) bool { return p.pool.Grow(t) }

func (p *pair) SetBack(t Ticket) {
	for other := range p.pool.len {
		if other > t {
			p.check("%d was set back for %d", t, other)
		}
	}
	p.pool.drop(t)
	p.setBack = append(p.setBack, t)
	p.decode.Offer(t, bulkhead.Tokens(p.jobs[t].tokens-1))
}

func (p *pair) Stuck(t Ticket) bool { p.check("%d is stuck", t); return true }

func drawPair(t *rapid.T) (*pair, []*request) {
	const page = 16
	window := rapid.IntRange(2, 150).Draw(t, "window")
	need := (window + page - 1) / page
	l := bulkhead.Limits{
		Queue: 1000, QueueTenant: 1000, PageTokens: page,
		Running: rapid.IntRange(1, 6).Draw(t, "running"), Chunk: bulkhead.Tokens(rapid.IntRange(1, 64).Draw(t, "chunk")),
	}
	p := &pair{
		limits: l, prefill: NewPrefill(l), decode: NewDecode(l),
		// From exactly what the largest request needs.
		free:   need + rapid.IntRange(0, 3).Draw(t, "prefill pages more"),
		pool:   &fakePool{page: page, free: need + rapid.IntRange(0, 3).Draw(t, "decode pages more"), len: map[Ticket]int{}, pages: map[Ticket]int{}},
		pinned: map[Ticket]int{}, left: map[Ticket]int{}, jobs: map[Ticket]*request{},
		check: func(f string, a ...any) { t.Fatalf(f, a...) },
	}
	var all []*request
	for range rapid.IntRange(1, 12).Draw(t, "requests") {
		prompt := rapid.IntRange(1, window-1).Draw(t, "prompt")
		all = append(all, &request{
			tenant: fmt.Sprint("tenant ", rapid.IntRange(0, 3).Draw(t, "tenant")),
			tokens: prompt, answer: rapid.IntRange(1, window-prompt).Draw(t, "answer"),
		})
	}
	return p, all
}

// Whatever the requests, in pools from exactly what the largest needs, everything ends, once, and all pages are back.
func TestEverythingEnds(t *testing.T) {
	setBacks := 0
	check := func(t *rapid.T) {
		p, all := drawPair(t)
		pages, decodePages := p.free, p.pool.free
		turns, work := 0, 0
		for i, r := range all {
			work += r.tokens + r.answer
			if ref := p.submit(Ticket(i+1), r); ref != nil {
				t.Fatal(ref)
			}
			for range rapid.IntRange(0, 5).Draw(t, "turns") {
				p.turn()
				turns++
			}
		}
		// Each turn computes something unless pages are waited for; setting back at worst computes everything anew for
		// each older request that needed a page.
		for limit := turns + 20*len(all)*work + 100; len(p.ended) < len(all); turns++ {
			if turns > limit {
				t.Fatalf("%d of %d have ended after %d turns", len(p.ended), len(all), turns)
			}
			p.turn()
		}
		for ticket, r := range p.jobs {
			if r.ends != 1 {
				t.Errorf("%d ended %d times", ticket, r.ends)
			}
		}
		if p.free != pages || p.pool.free != decodePages {
			t.Errorf("%d and %d pages are free, of %d and %d", p.free, p.pool.free, pages, decodePages)
		}
		if slices.Contains(p.setBack, 1) {
			t.Error("the oldest was set back")
		}
		setBacks += len(p.setBack)
	}
	for round := 0; round == 0 || setBacks == 0 && round < 20; round++ { // few draws may have no set-back
		rapid.Check(t, check)
	}
	if setBacks == 0 {
		t.Error("no request was ever set back: the test shows nothing")
	}
}

// However a tenant floods, one that asks for a single answer gets it while half the flood still waits, and a large request
// is not overtaken for ever by small ones that always fit.
func TestNobodyStarves(t *testing.T) {
	const page = 16
	l := bulkhead.Limits{Queue: 1000, QueueTenant: 1000, PageTokens: page, Running: 4, Chunk: 32}
	p := &pair{limits: l, prefill: NewPrefill(l), decode: NewDecode(l), free: 10, pinned: map[Ticket]int{}, left: map[Ticket]int{}, jobs: map[Ticket]*request{},
		pool:  &fakePool{page: page, free: 10, len: map[Ticket]int{}, pages: map[Ticket]int{}},
		check: func(f string, a ...any) { t.Fatalf(f, a...) }}
	next := Ticket(1)
	flood := func() {
		for ; p.prefill.WaitingByTenant()["flood"] < 20; next++ {
			p.submit(next, &request{tenant: "flood", tokens: 1 + int(next%30), answer: 3})
		}
	}
	for range 50 {
		flood()
		p.turn()
	}
	large := next
	next++
	p.submit(large, &request{tenant: "quiet", tokens: 120, answer: 40}) // takes the whole pool
	for turns := 0; !slices.Contains(p.ended, large); turns++ {
		if turns > 400 {
			t.Fatalf("not ended after %d turns, in which %d of the flood were", turns, len(p.ended))
		}
		flood()
		p.turn()
	}
}

// Tenants that compete get the same number of computed tokens, however long it goes on and whatever the lengths of their
// prompts: they differ by at most a grant, and the fees of requests that begin together.
func TestFairShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := bulkhead.Limits{Queue: 1 << 20, QueueTenant: 1 << 20, PageTokens: 16, Running: 64,
			Chunk: bulkhead.Tokens(rapid.IntRange(8, 256).Draw(t, "chunk"))}
		p := NewPrefill(l)
		tenants := rapid.IntRange(2, 4).Draw(t, "tenants")
		got := make([]int, tenants)
		owner := map[Ticket]int{}
		size := make([]int, tenants)
		for i := range size {
			size[i] = rapid.IntRange(100, 2000).Draw(t, "prompt")
		}
		next := Ticket(1)
		for range 300 {
			for i := range tenants {
				for p.WaitingByTenant()[fmt.Sprint(i)] < 4 {
					owner[next] = i
					if r := p.Submit(Job{Ticket: next, Tenant: fmt.Sprint(i), Tokens: bulkhead.Tokens(size[i])}, time.Time{}); r != nil {
						t.Fatal(r)
					}
					next++
				}
			}
			for j, ok := p.Next(); ok; j, ok = p.Next() {
				p.Begun(j.Ticket, 0)
				got[owner[j.Ticket]] += l.PageTokens // the fee
			}
			for _, s := range p.Step() {
				got[owner[s.Ticket]] += int(s.Tokens)
				if s.Last {
					p.Close(s.Ticket)
				}
			}
		}
		if low, high := slices.Min(got), slices.Max(got); high-low > int(l.Chunk)/grantsPerChunk+8*l.PageTokens {
			t.Errorf("tenants got %v of chunks of %d", got, l.Chunk)
		}
	})
}
