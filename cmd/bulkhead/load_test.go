package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/worker"
)

var loadTime = flag.Duration("load", 10*time.Second, "how long TestLoad runs")

const (
	loadClients = 8
	loadAnswer  = 96
)

// Eight streaming clients for a while, on pools that hold about two of them: requests are set back and computed again, some
// clients leave in the middle, and still every answer is the one that the request gets alone. Afterwards every page is free
// and no goroutine is left.
func TestLoad(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	l, err := modelFlags{}.open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.engine.Close()

	alone := startLoad(t, l, 4096)
	bodies := loadBodies(l.name)
	want := make([]string, len(bodies))
	for i, body := range bodies {
		if want[i], err = alone.answer(context.Background(), body); err != nil {
			t.Fatal(err)
		}
	}
	alone.stop(t)

	tight := startLoad(t, l, 1024)
	var answers, left atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), *loadTime)
	defer cancel()
	var clients sync.WaitGroup
	for c := range loadClients {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 7))
			for ctx.Err() == nil && !t.Failed() {
				i := rng.IntN(len(bodies))
				ask, leave := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(300))*time.Millisecond, leave)
				}
				got, err := tight.answer(ask, bodies[i])
				switch {
				case ask.Err() != nil:
					left.Add(1)
				case err != nil:
					t.Errorf("client %d: %v", c, err)
				case got != want[i]:
					t.Errorf("client %d, prompt %d: under load %q, alone %q", c, i, got, want[i])
				default:
					answers.Add(1)
				}
				leave()
			}
		})
	}
	clients.Wait()
	after := tight.stop(t)
	t.Logf("%d answers, %d clients left, %d set-backs, %d tokens", answers.Load(), left.Load(), after.Counters.SetBacks, after.Counters.OutputTokens)
	if answers.Load() == 0 || after.Counters.SetBacks == 0 {
		t.Errorf("%d answers and %d set-backs: the load tests nothing", answers.Load(), after.Counters.SetBacks)
	}
}

// loadBodies are requests whose prompts are 60 to 600 tokens long, some with a beginning in common.
func loadBodies(model string) [][]byte {
	var bodies [][]byte
	for i := range 12 {
		text := strings.Repeat("The sky over the town was grey and the river was calm. ", 4*(i%6)+2)
		text += fmt.Sprintf("Our access code for Harbor is %dQK%dM. What is the access code of Harbor?", i, i%7)
		body, err := json.Marshal(map[string]any{
			"model": model, "messages": []any{map[string]any{"role": "user", "content": text}},
			"temperature": 0, "max_tokens": loadAnswer, "ignore_eos": true, "stream": true,
		})
		if err != nil {
			panic(err) // plain values
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// loadServer is a system that listens on loopback.
type loadServer struct {
	system *system
	http   *httptest.Server
}

func startLoad(t *testing.T, l *loaded, pool bulkhead.Tokens) *loadServer {
	t.Helper()
	layout := l.engine.Layout(16)
	limits := bulkhead.Limits{Window: 1024, ModelWindow: l.engine.Info().Window, PrefillPool: pool, DecodePool: pool, PageTokens: 16,
		Queue: 64, QueueTenant: 64, Running: loadClients, Chunk: 64, DrainTimeout: 10 * time.Second}
	if err := limits.Check(); err != nil {
		t.Fatal(err)
	}
	sys, err := newSystem(l, guarded(l.engine), limits, layout, systemOptions{log: slog.New(slog.DiscardHandler), maxBody: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &loadServer{system: sys, http: httptest.NewServer(sys.gateway.Handler())}
}

// stop drains the system, checks that no page is held by anybody, and closes it.
func (s *loadServer) stop(t *testing.T) worker.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.http.Close()
	if err := s.system.pair.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	// A request that was left has ended before its loop lets go of its pages, which is at the loop's next turn.
	var after worker.Snapshot
	for wait := time.Now(); ; time.Sleep(time.Millisecond) {
		after = s.system.pair.Snapshot()
		if idle(after.Prefill) && idle(after.Decode) {
			break
		}
		if time.Since(wait) > 5*time.Second {
			t.Errorf("pages are held at the end: prefill %+v, decode %+v", after.Prefill, after.Decode)
			break
		}
	}
	s.system.pair.Close()
	return after
}

// idle says that nobody holds a page: each is free, or cached for the next prompt and free as soon as it is needed.
func idle(u worker.PoolUse) bool {
	return u.Live == 0 && u.Quarantined == 0 && u.SetAside == 0 && u.Free+u.Cached == u.Pages
}

// answer is the text of one streamed answer.
func (s *loadServer) answer(ctx context.Context, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.http.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Client().Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var text strings.Builder
	done := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			if resp.StatusCode != http.StatusOK {
				return "", fmt.Errorf("HTTP %d: %s", resp.StatusCode, lines.Text())
			}
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk struct {
			Error   any
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			return "", fmt.Errorf("%s: %v", data, err)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if !done {
		return "", fmt.Errorf("the stream ended without [DONE] after %q", text.String())
	}
	return text.String(), nil
}
