package worker

import (
	"fmt"
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// Prompts on both sides of every border of pages and chunks get the model's answer.
func TestAnswers(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(160, 160, 160)})
	for _, n := range []int{1, 2, 15, 16, 17, 18, 24, 25, 26, 32, 33, 34, 49, 100, 159} {
		max := min(40, 160-bulkhead.Tokens(n))
		q := request("acme", words(n, uint64(n)), max)
		r.run(q)
		q.IgnoreEOS = false
		q.StopIDs = []bulkhead.Token{5, 9}
		r.run(q)
		r.run(request("acme", q.Prompt, 1))
	}
	s := r.Snapshot()
	if c := s.Counters; c.CachedTokens == 0 || c.HandoffPages == 0 || c.HandoffBytes == 0 || c.OutputTokens == 0 || c.DecodeSteps == 0 {
		t.Errorf("counters %+v", c)
	}
	r.finish(0)
}

// The second time a prompt comes, its full pages are there; another tenant finds none of them.
func TestCachedPrefix(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(256, 512, 512)})
	prompt := words(100, 1)
	for i, want := range []struct {
		tenant string
		cached bulkhead.Tokens
	}{{"acme", 0}, {"acme", 96}, {"bolt", 0}, {"bolt", 96}} {
		if end := r.run(request(want.tenant, prompt, 8)); end.Cached != want.cached || end.Prompt != 100 {
			t.Errorf("%d, %s: %v of %v cached, want %v", i, want.tenant, end.Cached, end.Prompt, want.cached)
		}
	}
	shared := request("cask", prompt, 8)
	shared.Tenant.Domain = "acme"
	if end := r.run(shared); end.Cached != 96 {
		t.Errorf("a tenant of the same trust domain: %v cached", end.Cached)
	}
	r.finish(0)
}

// In pools from exactly what one request needs, many that need all of it end, each with its own answer.
func TestTinyPools(t *testing.T) {
	for _, more := range []bulkhead.Tokens{0, 1, 2, 3, 8} {
		t.Run(fmt.Sprintf("%d pages more", more), func(t *testing.T) {
			const window = 96
			r := newRig(t, setup{limits: limitsFor(window, window+more*pageSize, window+more*pageSize), keep: more%2 == 0})
			var wg sync.WaitGroup
			for i := range 24 {
				n := min(1+i*4, window-1)
				q := request(fmt.Sprint("tenant ", i%3), words(n, uint64(i)), window-bulkhead.Tokens(n))
				wg.Go(func() { r.run(q) })
			}
			wg.Wait()
			s := r.Snapshot()
			t.Logf("%d set back, %d steps of decode for %d rows", s.Counters.SetBacks, s.Counters.DecodeSteps, s.Counters.DecodeRows)
			if more > 1 && s.Counters.SetBacks == 0 {
				t.Error("nobody was set back: the test shows nothing")
			}
			r.finish(0)
		})
	}
}

// What a request that was set back has sent already, it does not send again, and what follows is what would have followed.
func TestSetBackKeepsSampling(t *testing.T) {
	l := limitsFor(128, 512, 8*pageSize)
	r := newRig(t, setup{limits: l})
	var wg sync.WaitGroup
	for i := range 8 {
		q := request("acme", words(10+i, uint64(i)), 100)
		q.Sampling = bulkhead.Sampling{Temperature: 2, TopP: 0.95, Seed: uint64(i), FrequencyPenalty: 0.4, RepetitionPenalty: 1.1}
		wg.Go(func() { r.run(q) })
	}
	wg.Wait()
	if n := r.Snapshot().Counters.SetBacks; n == 0 {
		t.Error("nobody was set back: the test shows nothing")
	}
	r.finish(0)
}
