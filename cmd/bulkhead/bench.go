package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

type benchCmd struct {
	Guards benchGuardsCmd `cmd:"" help:"What the guards cost: decode steps and a server under load, with guards on and off in turn."`
	Engine benchEngineCmd `cmd:"" help:"How fast the engine is: prefill and decode, against llama.cpp in turn if asked."`

	Handoff     benchHandoffCmd     `cmd:"" help:"How fast pages move between processes, against iperf3, Mooncake, a plain copy and TLS alone in turn; and what the split costs until the first token."`
	HandoffPeer benchHandoffPeerCmd `cmd:"" hidden:"" help:"The other process of bench handoff."`
}

// benchFlags are common to all benchmarks. Whatever they compare runs in turn within one run, so that a machine whose speed
// drifts slows both sides; results are ratios, with their spread over the rounds.
type benchFlags struct {
	modelFlags
	JSON   bool `help:"Print JSON."`
	Quick  bool `help:"Fewer rounds: under 40 seconds on the built-in model."`
	Rounds int  `default:"0" help:"Rounds; 0: as many as the benchmark thinks right."`
}

// checkCounts refuses counts that are out of range; 0 stands for a default.
func checkCounts(counts ...count) error {
	for _, c := range counts {
		if c.n < 0 || c.n > maxCount {
			return refused{fmt.Errorf("--%s %d: must be 0 (the default) to %d", c.flag, c.n, maxCount)}
		}
	}
	return nil
}

// count is a flag's value.
type count struct {
	flag string
	n    int
}

// rounds is how many rounds to run, given the numbers for a whole and for a quick run.
func (b benchFlags) rounds(whole, quick int) int {
	switch {
	case b.Rounds > 0:
		return b.Rounds
	case b.Quick:
		return quick
	}
	return whole
}

// spread is a figure over rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func (s spread) String() string { return fmt.Sprintf("%.4g (%.4g to %.4g)", s.Median, s.Min, s.Max) }

// spreadOf panics on no values: a benchmark runs at least one round.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (v[len(v)/2-1] + mid) / 2
	}
	return spread{Median: mid, Min: v[0], Max: v[len(v)-1]}
}

// ratios divides round by round.
func ratios(a, b []float64) spread {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return spreadOf(r)
}

// quantile is the q-th quantile of durations, in seconds, by the nearest rank.
func quantile(d []time.Duration, q float64) float64 {
	s := slices.Sorted(slices.Values(d))
	at := min(len(s)-1, int(q*float64(len(s))))
	return s[at].Seconds()
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// inTurn calls a and b in turn, the first of each pair changing from round to round, so that neither always profits from
// what the other left in caches.
func inTurn(round int, a, b func() error) error {
	if round%2 == 1 {
		a, b = b, a
	}
	if err := a(); err != nil {
		return err
	}
	return b()
}
