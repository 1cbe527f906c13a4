package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
)

// tally counts what happened, for all clients and the monkey together.
type tally struct {
	mu      sync.Mutex
	right   ask.Counts
	failed  map[string]int // by code: errors that said so
	midway  int            // of these, streams that had begun
	left    int            // clients that hung up
	damage  map[string]int // by kind
	longest time.Duration  // of one request that was not left
}

func (t *tally) count(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *tally) answers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.right.Answers
}

func (t *tally) damaged(kind string) {
	t.count(func() {
		if t.damage == nil {
			t.damage = make(map[string]int)
		}
		t.damage[kind]++
	})
}

func (t *tally) fail(a *ask.Answer) {
	t.count(func() {
		if t.failed == nil {
			t.failed = make(map[string]int)
		}
		t.failed[a.Failure.Code]++
		if a.Status == 200 {
			t.midway++
		}
	})
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%v; %s errors that said so, %d of them in mid-stream; %d clients left; longest request %.1f s; damage: %s",
		t.right, byName(t.failed), t.midway, t.left, t.longest.Seconds(), byName(t.damage))
}

func byName(counts map[string]int) string {
	sum := 0
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[name]
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, ", "))
}

// enough reports a run that shows nothing: no damage, or no answer under it.
func (t *tally) enough() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.right.Answers == 0 || len(t.damage) == 0 {
		return errors.New("there was no damage, or no answer while there was: the run shows nothing")
	}
	return nil
}
