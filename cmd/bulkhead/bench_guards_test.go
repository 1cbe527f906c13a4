package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/engine"
)

// BenchmarkGuards is the decode half of `bulkhead bench guards` for a busy machine: steps with guards and without alternate
// one by one, and it reports the median over pairs of neighbours of off's time over on's. It takes a model by
// BULKHEAD_MODEL and is skipped without one; -benchtime 100x is 100 pairs.
func BenchmarkGuards(b *testing.B) {
	path := os.Getenv("BULKHEAD_MODEL")
	if path == "" {
		b.Skip("set BULKHEAD_MODEL to a GGUF file")
	}
	e, err := engine.Open(path, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	for _, c := range []struct {
		name    string
		context int
	}{{"2048", 2048}, {"8192", 8192}} {
		b.Run(c.name, func(b *testing.B) { benchGuardPairs(b, e, c.context) })
	}
}

func benchGuardPairs(b *testing.B, e *engine.Engine, context int) {
	const clients, pageTokens = 4, 64
	sides := make([]*batch, 2)
	for i, g := range []guards{guarded(e), unguarded(e)} {
		side, err := newBatch(e, g, e.Layout(pageTokens), clients, context, b.N+1)
		if err != nil {
			b.Fatal(err)
		}
		defer side.free()
		sides[i] = side
		timeStep(b, side) // fills caches
	}
	b.ResetTimer()
	ratios := make([]float64, b.N)
	for n := range ratios {
		var took [2]time.Duration
		for i := range sides {
			at := (i + n) % 2 // each goes first in every other pair
			took[at] = timeStep(b, sides[at])
		}
		ratios[n] = took[1].Seconds() / took[0].Seconds()
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "throughput-ratio")
}

func timeStep(b *testing.B, side *batch) time.Duration {
	start := time.Now()
	side.runner.Step(side.work, side.results)
	took := time.Since(start)
	for _, r := range side.results {
		if r.Violation != nil {
			b.Fatal(r.Violation)
		}
	}
	return took
}
