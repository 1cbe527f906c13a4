package main

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// stepsPerRound is how many decode steps each side takes before the other has its turn.
const stepsPerRound = 16

// decode times decode steps of a batch at a depth. The KV is not computed but made of random numbers and sealed like any
// other, since its values do not matter and computing 8,192 tokens for every sequence takes minutes.
func (c *benchGuardsCmd) decode(e *engine.Engine, context, rounds int) (guardRatios, error) {
	on, err := newBatch(e, guarded(e), e.Layout(c.PageTokens), c.Clients, context, (rounds+1)*stepsPerRound)
	if err != nil {
		return guardRatios{}, err
	}
	defer on.free()
	off, err := newBatch(e, unguarded(e), e.Layout(c.PageTokens), c.Clients, context, (rounds+1)*stepsPerRound)
	if err != nil {
		return guardRatios{}, err
	}
	defer off.free()
	return inRounds(rounds, on, off)
}

// side is one of the two that are compared.
type side interface {
	round() error
	forget() // drops the rounds so far
	rounds() measured
}

// inRounds lets both sides have their turn in each round. One round more goes before, to warm up and fill caches.
func inRounds(rounds int, on, off side) (guardRatios, error) {
	for round := -1; round < rounds; round++ {
		if err := inTurn(round, on.round, off.round); err != nil {
			return guardRatios{}, err
		}
		if round < 0 {
			on.forget()
			off.forget()
		}
	}
	return compareGuards(on.rounds(), off.rounds()), nil
}

// measured is what one side took, round by round.
type measured struct {
	perSecond []float64         // tokens a second
	gaps      [][]time.Duration // between tokens
}

func (m *measured) forget() { *m = measured{} }

func (m *measured) rounds() measured { return *m }

func compareGuards(on, off measured) guardRatios {
	p99 := func(m measured) (byRound []float64, all float64) {
		var gaps []time.Duration
		for _, g := range m.gaps {
			byRound = append(byRound, quantile(g, 0.99))
			gaps = append(gaps, g...)
		}
		return byRound, quantile(gaps, 0.99)
	}
	onRounds, onAll := p99(on)
	offRounds, offAll := p99(off)
	return guardRatios{
		Throughput: ratios(on.perSecond, off.perSecond), P99: ratios(onRounds, offRounds),
		OnPerSecond: spreadOf(on.perSecond).Median, OffPerSec: spreadOf(off.perSecond).Median,
		OnP99: onAll, OffP99: offAll,
	}
}

// batch is sequences that decode together, with a pool of their own.
type batch struct {
	measured
	runner  engine.Runner
	work    []engine.Work
	results []engine.Result
	free    func()
}

func newBatch(e *engine.Engine, g guards, layout bulkhead.Layout, sequences, context, steps int) (*batch, error) {
	pages := sequences * layout.Pages(bulkhead.Tokens(context+steps))
	arena, free, err := mem.Alloc(pages * layout.PageBytes())
	if err != nil {
		return nil, err
	}
	pool, err := kv.New(kv.Options{Layout: layout, Arena: arena, Summer: g.summer})
	if err != nil {
		free()
		return nil, err
	}
	b := &batch{runner: g.runner, results: make([]engine.Result, sequences), free: free}
	ids := kv.NewIdentities([32]byte{}, "bench", e.Info().Fingerprint, layout)
	for i := range sequences {
		seq := pool.Begin(ids, nil)
		if !pool.Grow(seq, bulkhead.Tokens(context+steps)) {
			free()
			return nil, errors.New("the pool is too small")
		}
		writeNoise(seq, e, layout, context, uint64(i))
		b.work = append(b.work, engine.Work{Seq: seq, Tokens: []bulkhead.Token{bulkhead.Token(i)}, Logits: true})
	}
	return b, nil
}

// writeNoise fills a sequence with random K and V. Each token's are one of a few, because it is their place that sums
// and time depend on.
func writeNoise(seq *kv.Sequence, e *engine.Engine, layout bulkhead.Layout, tokens int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	noise := make([]float32, 4096)
	for i := range noise {
		noise[i] = float32(rng.NormFloat64())
	}
	set, vocab := e.Kernels(), e.Info().Vocab
	for range tokens {
		app := seq.Append([]bulkhead.Token{bulkhead.Token(rng.IntN(vocab))})
		page, slot := app.Slot(0)
		for layer := range layout.Layers {
			var k, v bulkhead.Sum
			for head := range layout.KVHeads {
				at := rng.IntN(len(noise) - layout.HeadSize)
				k += set.StoreK(&layout, page, layer, head, slot, noise[at:at+layout.HeadSize])
				v += set.StoreV(&layout, page, layer, head, slot, noise[at:at+layout.HeadSize])
			}
			app.ExtendK(layer, 0, k)
			app.ExtendV(layer, 0, v)
		}
		app.Done()
	}
}

// round takes some steps. The token that follows is not the likeliest one, which would cost both sides the same.
func (b *batch) round() error {
	gaps := make([]time.Duration, 0, stepsPerRound)
	start := time.Now()
	for range stepsPerRound {
		at := time.Now()
		b.runner.Step(b.work, b.results)
		gaps = append(gaps, time.Since(at))
		for _, r := range b.results {
			if r.Violation != nil {
				return r.Violation
			}
		}
	}
	b.perSecond = append(b.perSecond, float64(stepsPerRound*len(b.work))/time.Since(start).Seconds())
	b.gaps = append(b.gaps, gaps)
	return nil
}
