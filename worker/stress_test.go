package worker

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

var seeds = flag.Int("seeds", 12, "how many seeds the stress test runs")

// Random tenants, prompts, prefixes, stop tokens, leaves, deadlines and pools: every answer is the model's or the beginning
// of it, every request has exactly one end, every page is free again and no goroutine is left.
func TestStress(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { stress(t, uint64(seed)) })
	}
}

func stress(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	window := 17 + bulkhead.Tokens(rng.IntN(150))
	whole := (window + pageSize - 1) / pageSize * pageSize
	pool := func() bulkhead.Tokens { return whole + pageSize*bulkhead.Tokens(rng.IntN(6)) }
	l := limitsFor(window, pool(), pool())
	l.Running, l.Chunk = 1+rng.IntN(6), 1+bulkhead.Tokens(rng.IntN(60))
	l.Queue, l.QueueTenant = 4+rng.IntN(20), 2+rng.IntN(6)
	t.Logf("%+v", l)
	r := newRig(t, setup{limits: l, keep: rng.IntN(2) == 0})

	var wg sync.WaitGroup
	var mu sync.Mutex
	ends := map[bulkhead.Reason]int{}
	for client := range 6 {
		rng := rand.New(rand.NewPCG(seed, uint64(client)+1))
		wg.Go(func() {
			for n := range 15 {
				end := client1(r, rng, fmt.Sprint("tenant ", client%3), fmt.Sprintf("%d/%d", client, n))
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := r.Snapshot()
	t.Logf("ends %v, %d set back, %d of %d prompt tokens cached, %d pages handed over", ends, s.Counters.SetBacks,
		s.Counters.CachedTokens, s.Counters.PromptTokens, s.Counters.HandoffPages)
	if ends[bulkhead.Violated]+ends[bulkhead.Failed] > 0 {
		t.Errorf("ends %v", ends)
	}
	r.finish(0)
}

// client1 is one request of one client.
func client1(r *rig, rng *rand.Rand, tenant, id string) bulkhead.Reason {
	window := int(r.cfg.Limits.Window)
	prompt := words(1+rng.IntN(window-1), uint64(rng.IntN(3))) // often the beginning of another's
	if len(prompt) > 3 && rng.IntN(2) == 0 {
		prompt[rng.IntN(len(prompt))] = 3
	}
	q := request(tenant, prompt, 1+bulkhead.Tokens(rng.IntN(window-len(prompt))))
	q.ID = bulkhead.RequestID(id)
	q.Sampling.Seed = rng.Uint64()
	q.IgnoreEOS = rng.IntN(2) == 0
	if rng.IntN(3) == 0 {
		q.StopIDs = []bulkhead.Token{bulkhead.Token(rng.IntN(vocab))}
	}
	if rng.IntN(4) == 0 {
		q.Deadline = time.Now().Add(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	s, refusal := r.Submit(r.admit(q))
	if refusal != nil {
		if refusal.Code != bulkhead.CodeBusy && refusal.Code != bulkhead.CodeDeadline {
			r.t.Errorf("%s: %v", id, refusal)
		}
		time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
		return bulkhead.Refused
	}
	leaves := rng.IntN(4) == 0
	if leaves {
		time.AfterFunc(time.Duration(rng.IntN(20000))*time.Microsecond, s.Leave)
	}
	tokens, end := read(r.t, s)
	r.check(q, tokens, end)
	switch {
	case end.Reason == bulkhead.Aborted && !leaves:
		r.t.Errorf("%s: aborted, and nobody left", id)
	case end.Reason == bulkhead.Refused && (end.Refusal == nil || end.Refusal.Code != bulkhead.CodeDeadline || q.Deadline.IsZero()):
		r.t.Errorf("%s: refused: %v", id, end.Refusal)
	}
	return end.Reason
}

// A reader that never reads stops nobody, and finds its whole answer later.
func TestSlowReader(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(128, 256, 256)})
	slow := request("slow", words(20, 1), 100)
	s := r.start(slow)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { r.run(request(fmt.Sprint("tenant ", i), words(20+i, uint64(i)), 60)) })
	}
	wg.Wait()
	tokens, end := read(t, s)
	r.check(slow, tokens, end)
	r.finish(0)
}

// A reader whose own context ends can come back.
func TestReaderComesBack(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(128, 256, 256)})
	q := request("acme", words(20, 1), 50)
	s := r.start(q)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		if e, ok := s.Next(gone); ok && e.End != nil {
			t.Error("ended at once")
		} else if ok {
			q.Prompt, q.MaxTokens = append(q.Prompt, e.Token), q.MaxTokens-1
		}
	}
	s.Leave()
	s.Leave()
	if _, end := read(t, s); end.Reason != bulkhead.Aborted && end.Reason != bulkhead.Length {
		t.Errorf("ended as %v", end.Reason)
	}
	r.finish(0)
}
