package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

// What the cluster may take to be whole again once nothing damages it any more.
const (
	healLimit   = 30 * time.Second
	settleLimit = 20 * time.Second
	endLimit    = 20 * time.Second
)

// healed holds a cluster that nothing damages any more to what it must be: all questions are answered rightly, then every
// page is free or cached and no room is open, then every process ends by itself, and no log tells of a bug.
func healed(ctx context.Context, c *cluster.Cluster, l *load, total map[*cluster.Node]int, dir string) error {
	start := time.Now()
	if err := recovered(ctx, l); err != nil {
		return err
	}
	took := time.Since(start)
	order := make([]int, len(l.questions))
	for i := range order {
		order[i] = i
	}
	counts, err := ask.Compare(ctx, http.DefaultClient, l.url, l.questions, l.want, order, clientCount)
	if err != nil {
		return fmt.Errorf("healed, after %v: %w", counts, err)
	}
	if err := c.Settled(ctx, total, settleLimit); err != nil {
		return err
	}
	if err := c.Drain(endLimit); err != nil {
		return err
	}
	if err := readLogs(dir); err != nil {
		return err
	}
	fmt.Printf("chaos: healed in %.1f s: %v; every page is free or cached on all workers, no room is open, every process ended with 0\n",
		took.Seconds(), counts)
	return nil
}

// recovered waits until as many requests in a row as there are pairs, twice over, are answered. An error meanwhile must be a
// clean one, and wrong tokens are wrong now as ever.
func recovered(ctx context.Context, l *load) error {
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	const inARow = 8
	for good := 0; good < inARow; {
		before := l.tally.answers()
		if err := l.one(http.DefaultClient, good, -1); err != nil {
			return fmt.Errorf("healing, %s: %w", l.questions[good].Name, err)
		}
		if l.tally.answers() > before {
			good++
			continue
		}
		good = 0
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v after the last damage was mended the cluster does not answer: %v", healLimit, l.tally)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// alarms are lines that no log may have.
var alarms = regexp.MustCompile(`(?m)^.*(panic:|fatal error:|DATA RACE|SIGBUS|SIGSEGV|kv_integrity_violation|level=ERROR.*violation).*$`)

// readLogs looks for signs of a bug in what the processes wrote.
func readLogs(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(paths) == 0 {
		return errors.Join(err, errors.New("no logs"))
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if line := alarms.Find(data); line != nil {
			return fmt.Errorf("%s says: %s", filepath.Base(path), line)
		}
	}
	return nil
}
