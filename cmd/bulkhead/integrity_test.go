package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// One flipped bit in a page that a running answer reads ends that answer with kv_integrity_violation, and nothing else: the
// log says where, a metric counts it, the page is never used again, and other requests go on.
func TestFlippedBitEndsOneAnswer(t *testing.T) {
	l, err := modelFlags{}.open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.engine.Close()
	layout := l.engine.Layout(16)
	limits := bulkhead.Limits{Window: 1024, ModelWindow: l.engine.Info().Window, PrefillPool: 2048, DecodePool: 2048, PageTokens: 16,
		Queue: 8, QueueTenant: 8, Running: 4, Chunk: 64, DrainTimeout: time.Second}
	arena := make([]byte, worker.ArenaBytes(layout, limits.DecodePool))
	var log bytes.Buffer
	sys, err := newSystem(l, guarded(l.engine), limits, layout, systemOptions{
		log: slog.New(slog.NewTextHandler(&log, nil)), maxBody: 1 << 20, decodeArena: arena})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sys.gateway.Handler())
	body := func(words int, tokens int) []byte {
		b, err := json.Marshal(map[string]any{"model": "bulkhead", "stream": true, "temperature": 0, "max_tokens": tokens, "ignore_eos": true,
			"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("The river was calm. ", words)}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}

	resp, err := server.Client().Post(server.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body(20, 900)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for range 10 { // the answer is under way
		lines.Scan()
	}
	// Damage what the first page in use holds in the V of layer 2, while the workers read it.
	page := inUse(t, layout, arena)
	arena[page*layout.PageBytes()+layout.VOffset(2, 1)+37] ^= 0x10
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if !strings.Contains(last, `"type":"kv_integrity_violation"`) || strings.Contains(last, "layer") {
		t.Errorf("the stream ended with %q", last)
	}

	ask, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	other := &loadServer{system: sys, http: server}
	if text, err := other.answer(ask, body(5, 8)); err != nil || text == "" {
		t.Errorf("another request: %q, %v", text, err)
	}
	metrics, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(metrics.Body); err != nil || metrics.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	for _, want := range []string{`bulkhead_violations_total{part="v"} 1`, `bulkhead_pages{state="set_aside",worker="decode"} 1`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	server.Close()
	sys.pair.Close()
	for _, want := range []string{"layer=2", "part=v", "expected=", "found="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}

// inUse is the first page of the arena that has tokens.
func inUse(t *testing.T, layout bulkhead.Layout, arena []byte) int {
	t.Helper()
	for i := 0; (i+1)*layout.PageBytes() <= len(arena); i++ {
		if layout.SealOf(arena[i*layout.PageBytes():]).Filled() == layout.PageTokens {
			return i
		}
	}
	t.Fatal("no page is in use")
	return 0
}
