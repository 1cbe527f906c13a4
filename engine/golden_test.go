package engine_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// llama.cpp's greedy tokens, id for id, with every set of kernels.
func TestGolden(t *testing.T) {
	var golden struct {
		Runs []struct {
			Model, Prompt string
			PromptIDs     []bulkhead.Token `json:"prompt_ids"`
			GreedyIDs     []bulkhead.Token `json:"greedy_ids"`
		}
	}
	if err := json.Unmarshal(testdata.Read(t, "golden.json"), &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Runs) != 6 {
		t.Fatalf("%d runs, want 6", len(golden.Runs))
	}
	for _, run := range golden.Runs {
		found, _ := filepath.Glob(filepath.Join(testdata.Path(t, "models"), "*", run.Model))
		if len(found) != 1 {
			t.Fatalf("model %s: %v", run.Model, found)
		}
		for _, set := range kernel.All() {
			t.Run(fmt.Sprintf("%s/%s/%q", set.Name, run.Model, run.Prompt), func(t *testing.T) {
				e, err := engine.Open(found[0], engine.Options{Kernels: set.Name})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				got := greedy(t, e, 32, run.PromptIDs, len(run.GreedyIDs))
				if !slices.Equal(got, run.GreedyIDs) {
					at := 0
					for got[at] == run.GreedyIDs[at] {
						at++
					}
					t.Errorf("token %d is %d, want %d\n got %v\nwant %v", at, got[at], run.GreedyIDs[at], got, run.GreedyIDs)
				}
			})
		}
	}
}
