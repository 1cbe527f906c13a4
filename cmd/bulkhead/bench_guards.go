package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

type benchGuardsCmd struct {
	benchFlags
	Contexts   []int `default:"128,2048,8192" help:"Tokens of context to measure at. The model need not know so long a window: what it answers does not matter here."`
	PageTokens int   `default:"64" enum:"16,32,64,128,256,512" help:"Tokens of a page."`
	Clients    int   `default:"8" help:"Sequences that decode at once, and clients of the server."`
}

// guardsResult is what the benchmark prints: at each context two ratios of guards on over guards off.
type guardsResult struct {
	Model      string          `json:"model"`
	Weights    string          `json:"weights"`
	Kernels    string          `json:"kernels"`
	Threads    int             `json:"threads"`
	PageTokens int             `json:"page_tokens"`
	Clients    int             `json:"clients"`
	Rounds     int             `json:"rounds"`
	Contexts   []contextResult `json:"contexts"`
}

type contextResult struct {
	Context int         `json:"context_tokens"`
	Decode  guardRatios `json:"decode"` // steps of the engine alone
	Server  guardRatios `json:"server"` // streaming clients over HTTP
}

// guardRatios compare guards on with guards off. Throughput below 1 and p99 above 1 are what the guards cost.
type guardRatios struct {
	Throughput  spread  `json:"throughput_ratio"`
	P99         spread  `json:"p99_ratio"`
	OnPerSecond float64 `json:"on_tokens_per_s"`
	OffPerSec   float64 `json:"off_tokens_per_s"`
	OnP99       float64 `json:"on_p99_s"`
	OffP99      float64 `json:"off_p99_s"`
}

// Run measures.
func (c *benchGuardsCmd) Run(s *streams) error {
	if c.Clients < 1 || c.Clients > 256 {
		return refused{fmt.Errorf("--clients %d: must be 1 to 256", c.Clients)}
	}
	if err := checkCounts(count{"rounds", c.Rounds}); err != nil {
		return err
	}
	for _, n := range c.Contexts {
		if n < 64 || n > 1<<20 {
			return refused{fmt.Errorf("--contexts %d: must be 64 to %d", n, 1<<20)}
		}
	}
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := c.open(log)
	if err != nil {
		return err
	}
	defer l.engine.Close()
	info := l.engine.Info()
	result := guardsResult{Model: l.name, Weights: info.Quantization, Kernels: info.Kernels, Threads: info.Threads,
		PageTokens: c.PageTokens, Clients: c.Clients, Rounds: c.rounds(12, 6)}
	for _, n := range c.Contexts {
		at := contextResult{Context: n}
		if at.Decode, err = c.decode(l.engine, n, result.Rounds); err != nil {
			return fmt.Errorf("decode at %d tokens: %w", n, err)
		}
		if at.Server, err = c.server(l, n, result.Rounds); err != nil {
			return fmt.Errorf("server at %d tokens: %w", n, err)
		}
		result.Contexts = append(result.Contexts, at)
		fmt.Fprintf(s.err, "%d tokens of context done\n", n)
	}
	if c.JSON {
		return printJSON(s.out, result)
	}
	return result.print(s.out)
}

func (r guardsResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s kernels, %d threads, pages of %d tokens, %d clients, %d rounds; guards on over off, median (least to most)\n",
		r.Model, r.Weights, r.Kernels, r.Threads, r.PageTokens, r.Clients, r.Rounds)
	for _, c := range r.Contexts {
		for _, row := range []struct {
			what string
			guardRatios
		}{{"decode", c.Decode}, {"server", c.Server}} {
			fmt.Fprintf(w, "%6d tokens  %s  throughput %v  p99 %v  (%.1f tokens/s, p99 %.2f ms)\n", c.Context, row.what,
				row.Throughput, row.P99, row.OnPerSecond, 1000*row.OnP99)
		}
	}
	return nil
}

// guards is one side of the comparison.
type guards struct {
	runner engine.Runner
	summer sums
}

// sums are what a pool proves landed pages by.
type sums interface {
	SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum
	SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum
}

// guarded is what everything but this benchmark runs.
func guarded(e *engine.Engine) guards { return guards{runner: e, summer: e.Kernels()} }

// unguarded neither checks identities nor takes sums: not when it writes, not when a page lands, not when it reads. Pages
// keep their identities, since a prefix cache without guards needs them too. It is here and nowhere else: no command that
// serves can come by it.
func unguarded(e *engine.Engine) guards { return guards{runner: e.Unguarded(), summer: noSums{}} }

// noSums agrees with seals that nobody extended.
type noSums struct{}

func (noSums) SumK(*bulkhead.Layout, []byte, int, int) bulkhead.Sum { return 0 }
func (noSums) SumV(*bulkhead.Layout, []byte, int, int) bulkhead.Sum { return 0 }
