package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

// A tenant cannot feel what another has asked: the same prompt is computed, handed over and reported as if nobody had
// come before, and takes as long. For a tenant of the same trust domain it does not.
func TestTenantsCostTheSame(t *testing.T) {
	type cost struct {
		cached      bulkhead.Tokens
		rows, pages uint64
		steps       uint64
		took        time.Duration
	}
	ask := func(r *rig, tenant, domain string) cost {
		q := request(tenant, words(150, 1), 3)
		q.Tenant.Domain = domain
		synctest.Wait()
		before, start := r.Snapshot().Counters, time.Now()
		end := r.run(q)
		took := time.Since(start)
		synctest.Wait()
		n := r.Snapshot().Counters
		return cost{end.Cached, n.PrefillRows - before.PrefillRows, n.HandoffPages - before.HandoffPages, n.PrefillSteps - before.PrefillSteps, took}
	}
	timed(t, "same prompt", limitsFor(256, 1024, 1024), func(t *testing.T, r *rig) {
		first := ask(r, "acme", "acme")
		if again := ask(r, "acme", "acme"); again.rows >= first.rows || again.took >= first.took || again.cached == 0 {
			t.Errorf("the cache does nothing, so the test shows nothing: %+v, then %+v", first, again)
		}
		if other := ask(r, "bolt", "bolt"); other != first {
			t.Errorf("another tenant: %+v, alone %+v", other, first)
		}
		if ally := ask(r, "cask", "acme"); ally.cached != 144 || ally.pages == first.pages {
			t.Errorf("a tenant of the same domain: %+v", ally)
		}
	})
}

// A page that several requests read is damaged while they run: all of them end before another token leaves, whoever does
// not read it goes on, and whoever comes afterwards gets a page that is not damaged.
func TestSharedPageFailsAllItsReaders(t *testing.T) {
	prompt := words(40, 5)
	readers, done := 0, false
	r := newRig(t, setup{limits: limitsFor(256, 1024, 1024), before: func(work []engine.Work) {
		on := map[*byte]int{}
		for _, w := range work {
			if second := w.Seq.Pages()[1]; w.Logits && !done {
				on[&second[0]]++
				if readers = on[&second[0]]; readers == 3 {
					done = true
					flip(layout.VOffset(1, 0) + 7)(second)
					return
				}
			}
		}
	}})
	r.run(request("acme", prompt, 1)) // so that decode has the pages
	var streams []*Stream
	var asked []bulkhead.Request
	for i := range 4 {
		q := request("acme", slices.Concat(prompt, words(i+1, uint64(i))), 200)
		if i == 3 {
			q = request("bolt", prompt, 200) // the same prompt in another domain: other pages
		}
		asked, streams = append(asked, q), append(streams, r.start(q))
	}
	for i, s := range streams {
		tokens, end := read(t, s)
		r.check(asked[i], tokens, end)
		if (end.Reason == bulkhead.Violated) != (i < 3) {
			t.Errorf("request %d ended as %v", i, end.Reason)
		}
	}
	if readers != 3 {
		t.Fatalf("%d readers shared the page", readers)
	}
	r.run(asked[0])
	r.finish(1)
}

// A cached page of prefill's is damaged. Prefill reads it in its next chunk, and the request ends there: nothing that was
// computed from it is ever cached, handed over or found by whoever shares the prefix.
func TestDamagedPrefixPoisonsNobody(t *testing.T) {
	prompt := words(65, 3)
	r := newRig(t, setup{limits: limitsFor(112, 512, 112)})
	r.run(request("acme", prompt, 1))
	r.run(request("bolt", words(100, 4), 12)) // decode forgets
	find(r.arenas[Prefill], "acme", prompt)[layout.KOffset(0, 1)] ^= 1
	longer := request("acme", slices.Concat(prompt, words(30, 8)), 10)
	tokens, end := read(t, r.start(longer))
	if end.Reason != bulkhead.Violated || len(tokens) > 0 || end.Cached != 64 {
		t.Errorf("%d tokens, ended as %+v", len(tokens), *end)
	}
	for i := range 3 { // from the first page on everything is computed again, and is right
		if end := r.run(request("acme", slices.Concat(prompt, words(30+i, 8)), 10)); i == 0 && end.Cached != 0 {
			t.Errorf("%v were found behind the damaged page", end.Cached)
		}
	}
	if n := r.Snapshot(); n.Prefill.SetAside != 1 || n.Decode.SetAside != 0 {
		t.Errorf("%+v %+v", n.Prefill, n.Decode)
	}
	r.finish(1)
}
