package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

type benchHandoffCmd struct {
	benchFlags
	Skip     []string `placeholder:"NAME" help:"Do without iperf3 or mooncake. What is not installed and not skipped is an error, once everything else has been measured."`
	Mooncake string   `help:"Folder that scripts/fetch-mooncake printed (default: its place in the cache)." placeholder:"DIR"`
	Only     []string `placeholder:"PART" help:"Measure only this: pages, first-token."`
}

// handoffLayout is a page of SmolLM2-135M: 737,856 bytes, of 32 tokens. Pages are random numbers under valid seals, since what
// they hold changes nothing here, so the pages need no model.
var handoffLayout = bulkhead.Layout{Layers: 30, KVHeads: 3, HeadSize: 64, PageTokens: 32}

// handoffResult is what the benchmark prints. Figures are GB/s (10^9 bytes a second) of page bytes, seals included; ratios are
// taken round by round.
type handoffResult struct {
	PageBytes  int               `json:"page_bytes,omitempty"`
	RoomPages  int               `json:"room_pages,omitempty"`
	Rounds     int               `json:"rounds,omitempty"`
	Figures    map[string]spread `json:"gb_per_s,omitempty"`
	Ratios     []ratioResult     `json:"ratios,omitempty"`
	FirstToken *firstTokenResult `json:"first_token,omitempty"`
	Skipped    map[string]string `json:"skipped,omitempty"` // what was not compared, and why
}

// ratioResult is one comparison, with what it is meant to reach.
type ratioResult struct {
	Of      string  `json:"of"`
	Over    string  `json:"over"`
	Ratio   spread  `json:"ratio"`
	AtLeast float64 `json:"at_least,omitempty"` // 0: no aim
	Met     *bool   `json:"met,omitempty"`
}

// The legs, by their names in the results.
const (
	legTCP      = "tcp"       // our carrier, plaintext, to the last page's proof
	legTLS      = "tls"       // the same with mutual TLS
	legShm      = "shm"       // the same through shared memory
	legStream   = "go_stream" // crypto/tls alone
	legCopy     = "memcpy"    // one thread, copy of the same pages
	legIperf    = "iperf3"
	legMooncake = "mooncake"
)

// handoffRatios are the comparisons, and their aims.
var handoffRatios = []ratioResult{
	{Of: legTCP, Over: legIperf, AtLeast: 0.8},
	{Of: legTCP, Over: legMooncake, AtLeast: 2},
	{Of: legShm, Over: legCopy, AtLeast: 0.8},
	{Of: legTLS, Over: legStream},
	{Of: legTLS, Over: legTCP},
}

// Run measures.
func (c *benchHandoffCmd) Run(s *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "bulkhead-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var result handoffResult
	if c.measures("pages") {
		if err := c.pages(ctx, dir, &result, s.err); err != nil {
			return err
		}
	}
	if c.measures("first-token") {
		if result.FirstToken, err = c.firstToken(ctx, dir, s.err); err != nil {
			return err
		}
	}
	if c.JSON {
		err = printJSON(s.out, result)
	} else {
		err = result.print(s.out)
	}
	return errors.Join(err, c.missing(result))
}

func (c *benchHandoffCmd) check() error {
	for _, name := range c.Skip {
		if name != legIperf && name != legMooncake {
			return refused{fmt.Errorf("--skip %s: must be %s or %s", name, legIperf, legMooncake)}
		}
	}
	for _, part := range c.Only {
		if part != "pages" && part != "first-token" {
			return refused{fmt.Errorf("--only %s: must be pages or first-token", part)}
		}
	}
	return checkCounts(count{"rounds", c.Rounds})
}

func (c *benchHandoffCmd) measures(part string) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, part)
}

// missing is an error where something was not compared that was not to be skipped.
func (c *benchHandoffCmd) missing(r handoffResult) error {
	var all []error
	for name, why := range r.Skipped {
		if !slices.Contains(c.Skip, name) {
			all = append(all, fmt.Errorf("%s was not compared: %s (or say --skip %s)", name, why, name))
		}
	}
	return errors.Join(all...)
}

// leg is one of the things that are compared. Each round it moves bytes for about so long.
type leg interface {
	move(ctx context.Context, d time.Duration) (bytes int64, took time.Duration, err error)
	close()
}

// pages measures what moves pages, in turn.
func (c *benchHandoffCmd) pages(ctx context.Context, dir string, result *handoffResult, progress io.Writer) error {
	legs, skipped, err := c.legs(ctx, dir)
	defer func() {
		for _, l := range legs {
			l.close()
		}
	}()
	if err != nil {
		return err
	}
	slice := time.Second
	if c.Quick {
		slice = 300 * time.Millisecond
	}
	rounds := c.rounds(15, 5)
	measured, err := inTurns(ctx, legs, rounds, slice, progress)
	if err != nil {
		return err
	}
	result.PageBytes, result.RoomPages, result.Rounds = handoffLayout.PageBytes(), roomPages, rounds
	result.Skipped, result.Figures = skipped, make(map[string]spread)
	for name, values := range measured {
		result.Figures[name] = spreadOf(values)
	}
	for _, r := range handoffRatios {
		if measured[r.Of] != nil && measured[r.Over] != nil {
			r.Ratio = ratios(measured[r.Of], measured[r.Over])
			if met := r.Ratio.Median >= r.AtLeast; r.AtLeast > 0 {
				r.Met = &met
			}
			result.Ratios = append(result.Ratios, r)
		}
	}
	return nil
}

// inTurns lets every leg have its turn in each round, beginning with another one each time. One round more goes before, to
// warm up.
func inTurns(ctx context.Context, legs map[string]leg, rounds int, slice time.Duration, progress io.Writer) (map[string][]float64, error) {
	var names []string
	for name := range legs {
		names = append(names, name)
	}
	slices.Sort(names)
	perSecond := make(map[string][]float64)
	for round := -1; round < rounds; round++ {
		for i := range names {
			name := names[(i+round+1)%len(names)]
			bytes, took, err := legs[name].move(ctx, slice)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if round >= 0 {
				perSecond[name] = append(perSecond[name], float64(bytes)/took.Seconds()/1e9)
			}
		}
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
	}
	return perSecond, nil
}

func (r handoffResult) print(w io.Writer) error {
	if r.Figures != nil {
		fmt.Fprintf(w, "pages of %d bytes, %d to a room, %d rounds; GB/s, median (least to most)\n", r.PageBytes, r.RoomPages, r.Rounds)
		for _, name := range []string{legTCP, legIperf, legMooncake, legShm, legCopy, legTLS, legStream} {
			if s, ok := r.Figures[name]; ok {
				fmt.Fprintf(w, "  %-10s %v\n", name, s)
			}
		}
	}
	for _, c := range r.Ratios {
		fmt.Fprintf(w, "%s over %s: %v%s\n", c.Of, c.Over, c.Ratio, aim(c.Met, fmt.Sprintf("at least %g", c.AtLeast)))
	}
	if r.FirstToken != nil {
		r.FirstToken.print(w)
	}
	for name, why := range r.Skipped {
		fmt.Fprintf(w, "not compared: %s: %s\n", name, why)
	}
	return nil
}

// aim says whether what was meant to be reached was.
func aim(met *bool, what string) string {
	switch {
	case met == nil:
		return ""
	case *met:
		return "; aim " + what + ": met"
	}
	return "; aim " + what + ": " + strings.ToUpper("not met")
}
