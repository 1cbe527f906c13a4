package engine_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/kv"
)

var cleanSteps = flag.Int("steps", 20_000, "steps of sequences that TestCleanSteps takes; a million takes minutes")

// Steps on sound pages raise no violation: prompts in chunks of any length, some found in the cache, decode steps of
// batches of any size, sequences that come and go and reuse each other's pages, for as long as one likes
// (-steps 1000000). step fails the test at the first violation.
func TestCleanSteps(t *testing.T) {
	e, err := engine.Load(enginetest.Model{Layers: 2, HeadSize: 8, Hidden: 32, Vocab: 64}.GGUF(t), engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const most, running = 160, 6
	s := serve(t, e, 16, most*(running+1))
	rng := rand.New(rand.NewPCG(3, 5))
	tokens := func(n int) []bulkhead.Token {
		out := make([]bulkhead.Token, n)
		for i := range out {
			out[i] = bulkhead.Token(rng.IntN(64))
		}
		return out
	}
	begins := [][]bulkhead.Token{tokens(most / 2), tokens(most / 2), tokens(most / 2)} // of prompts, found again in the cache
	var live []*kv.Sequence
	work := make([]engine.Work, 0, running)
	taken, prefills, cached := 0, 0, 0
	for taken < *cleanSteps {
		for len(live) < running {
			prompt := tokens(1 + rng.IntN(most/4))
			prompt = append(begins[rng.IntN(3)][:rng.IntN(most/2):most/2], prompt...)
			seq := s.begin(prompt, most-len(prompt))
			cached += int(seq.Len())
			for rest := prompt[seq.Len():]; len(rest) > 0; prefills++ {
				n := 1 + rng.IntN(len(rest))
				s.step(engine.Work{Seq: seq, Tokens: rest[:n]})
				rest = rest[n:]
				taken++
			}
			live = append(live, seq)
		}
		work = work[:0]
		for _, seq := range live[:1+rng.IntN(len(live))] {
			work = append(work, engine.Work{Seq: seq, Tokens: tokens(1), Logits: rng.IntN(4) == 0})
		}
		s.step(work...)
		taken += len(work)
		for i := len(live) - 1; i >= 0; i-- {
			if live[i].Len() >= most-1 || rng.IntN(64) == 0 {
				live[i].Release()
				live = append(live[:i], live[i+1:]...)
			}
		}
	}
	for _, seq := range live {
		seq.Release()
	}
	if err := s.pool.Audit(); err != nil {
		t.Error(err)
	}
	if prefills == 0 || cached == 0 {
		t.Errorf("%d prefills, %d tokens found in the cache: too little was tried", prefills, cached)
	}
	t.Logf("%d steps, %d of them chunks of prompts; %d tokens came from the cache", taken, prefills, cached)
}
