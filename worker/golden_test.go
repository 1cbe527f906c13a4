package worker

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

type goldenRun struct {
	Model     string
	PromptIDs []bulkhead.Token `json:"prompt_ids"`
	GreedyIDs []bulkhead.Token `json:"greedy_ids"`
}

// With real models, llama.cpp's greedy tokens come out id for id through the whole way: chunked, handed over, batched with
// others, found in the cache or not, set back and recomputed, at any page size.
func TestGolden(t *testing.T) {
	var golden struct{ Runs []goldenRun }
	if err := json.Unmarshal(testdata.Read(t, "golden.json"), &golden); err != nil {
		t.Fatal(err)
	}
	models := map[string][]goldenRun{}
	for _, run := range golden.Runs {
		models[run.Model] = append(models[run.Model], run)
	}
	for name, runs := range models {
		found, _ := filepath.Glob(filepath.Join(testdata.Path(t, "models"), "*", name))
		if len(found) != 1 {
			t.Fatalf("model %s: %v", name, found)
		}
		e, err := engine.Open(found[0], engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, c := range []struct {
			page  int
			chunk bulkhead.Tokens
		}{{16, 3}, {32, 64}, {64, 1}} {
			t.Run(fmt.Sprintf("%s, pages of %d, chunks of %d", name, c.page, c.chunk), func(t *testing.T) { goldenPair(t, e, runs, c.page, c.chunk) })
		}
	}
}

func goldenPair(t *testing.T, e *engine.Engine, runs []goldenRun, page int, chunk bulkhead.Tokens) {
	l := bulkhead.Limits{Window: 192, PrefillPool: 320, DecodePool: 256, ModelWindow: e.Info().Window, PageTokens: page,
		Queue: 100, QueueTenant: 100, Running: 4, Chunk: chunk}
	p, err := NewPair(Config{Runner: e, Layout: e.Layout(page), Limits: l, Summer: e.Kernels()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for i := range 4 {
		for _, run := range runs {
			q := request(fmt.Sprint("tenant ", i%2), run.PromptIDs, bulkhead.Tokens(len(run.GreedyIDs)-i))
			q.Sampling = bulkhead.Sampling{} // greedy
			a, refusal := l.Admit(q)
			if refusal != nil {
				t.Fatal(refusal)
			}
			s, refusal := p.Submit(a)
			if refusal != nil {
				t.Fatal(refusal)
			}
			wg.Go(func() {
				if got, end := read(t, s); !slices.Equal(got, run.GreedyIDs[:q.MaxTokens]) || end.Reason != bulkhead.Length {
					t.Errorf("%v: got %v %v, want %v", run.PromptIDs, got, end, run.GreedyIDs)
				}
			})
		}
	}
	wg.Wait()
	s := p.Snapshot()
	if s.Counters.SetBacks == 0 || len(s.Counters.Violations) > 0 {
		t.Errorf("counters %+v", s.Counters)
	}
	t.Logf("%d set back, %d tokens in %d steps", s.Counters.SetBacks, s.Counters.DecodeRows, s.Counters.DecodeSteps)
}
