package cluster_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// Here the workers' HTTP API is the real one (worker/api), over workers that compute nothing.

var apiLimits = bulkhead.Limits{Window: 200, PrefillPool: 256, DecodePool: 256, ModelWindow: 2048, PageTokens: 32,
	Queue: 8, QueueTenant: 8, Running: 4, Chunk: 64}

// half is one worker behind its API.
type half struct{ *gatewaytest.Backend }

func (h half) Submit(o worker.Order) (gateway.Stream, *bulkhead.Refusal) {
	return h.Backend.Submit(context.Background(), o.Request)
}

func (h half) Snapshot() worker.Snapshot {
	s := worker.Snapshot{Limits: apiLimits}
	s.Counters.PrefillRows = uint64(len(h.Taken())) // each request was computed at once
	return s
}

func serveHalf(t *testing.T, side worker.Side, h half) *httptest.Server {
	t.Helper()
	cfg := api.Config{Role: side, Worker: h, Text: gatewaytest.Text{}, Model: gateway.Model{Name: "m"}, Name: side.String() + "-0", Start: "s",
		Layout: bulkhead.Layout{Layers: 1, KVHeads: 1, HeadSize: 4, PageTokens: 32},
		Peer:   func(*http.Request) (string, string, bool) { return "gateway", "g", true }}
	if side == worker.Prefill {
		cfg.Handoff = "127.0.0.1:9"
	}
	a, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a.Handler())
	t.Cleanup(s.Close)
	return s
}

// remote is a gateway whose workers are behind their HTTP APIs.
func remote(t *testing.T, prefill, decode half) (http.Handler, *cluster.Cluster) {
	t.Helper()
	cfg := fast()
	cfg.Vocab = gatewaytest.Size
	cfg.Probes.GenerateEvery, cfg.Breaker.Failures = time.Hour, 100
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, d := serveHalf(t, worker.Prefill, prefill), serveHalf(t, worker.Decode, decode)
	t.Cleanup(c.Close)
	if err := c.SetMembers(cluster.Members{Prefill: []cluster.Member{{URL: p.URL}}, Decode: []cluster.Member{{URL: d.URL}}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); c.Ready() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", c.Snapshot())
		}
	}
	return front(t, c), c
}

func front(t *testing.T, b gateway.Backend) http.Handler {
	t.Helper()
	g, err := gateway.New(gateway.Config{Backend: b, Text: gatewaytest.Text{}, Model: gateway.Model{Name: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	return g.Handler()
}

func ask(h http.Handler, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	return w.Code, fresh.ReplaceAllString(string(text), `"$1":0`)
}

// fresh is what differs from one answer to the next.
var fresh = regexp.MustCompile(`"(id|created)":("[^"]*"|\d+)`)

// A gateway over remote workers answers every request byte for byte as one over workers of its own process does: answers,
// streams, log-probabilities, usage, refusals and faults.
func TestSameAsInProcess(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	fault := func(r bulkhead.Request, i int) *bulkhead.End {
		if r.Sampling.PresencePenalty != 1 || i < int(r.Sampling.TopK) {
			return nil
		}
		switch r.MaxTokens {
		case 11:
			return &bulkhead.End{Reason: bulkhead.Violated, Err: bulkhead.ErrViolation}
		case 12:
			return &bulkhead.End{Reason: bulkhead.Failed}
		}
		return &bulkhead.End{Reason: bulkhead.Refused, Refusal: &bulkhead.Refusal{Code: bulkhead.CodeDeadline, Message: "too late"}}
	}
	whole := gatewaytest.NewBackend(apiLimits)
	prefill, decode := half{gatewaytest.NewBackend(apiLimits)}, half{gatewaytest.NewBackend(apiLimits)}
	whole.Fault, decode.Fault = fault, fault
	prefill.Fault = func(r bulkhead.Request, _ int) *bulkhead.End {
		return &bulkhead.End{Reason: bulkhead.HandedOver, Cached: bulkhead.Tokens(len(r.Prompt) / 2)}
	}
	here := front(t, whole)
	there, c := remote(t, prefill, decode)
	for _, body := range []string{
		`{"model":"m","prompt":"hello world","max_tokens":5,"temperature":0}`,
		`{"model":"m","prompt":"hello world","max_tokens":5,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","prompt":"hello world","max_tokens":100}`,
		`{"model":"m","prompt":"hello world","max_tokens":50,"logprobs":3,"seed":7,"logit_bias":{"3":1.5}}`,
		`{"model":"m","prompt":"hello world","max_tokens":50,"stop":"o w"}`,
		`{"model":"m","prompt":["ab","cd"],"max_tokens":4,"n":2}`,
		`{"model":"m","prompt":"` + strings.Repeat("x", 300) + `","max_tokens":5}`,
		`{"model":"m","prompt":"abcdef","max_tokens":11,"presence_penalty":1}`,
		`{"model":"m","prompt":"abcdefghijklmnop","max_tokens":11,"presence_penalty":1,"top_k":3,"stream":true}`,
		`{"model":"m","prompt":"abcdef","max_tokens":12,"presence_penalty":1}`,
		`{"model":"m","prompt":"abcdef","max_tokens":13,"presence_penalty":1}`,
	} {
		status, want := ask(here, "POST", "/v1/completions", body)
		gotStatus, got := ask(there, "POST", "/v1/completions", body)
		if gotStatus != status || got != want {
			t.Errorf("%.100s\nhere  %d %s\nthere %d %s", body, status, want, gotStatus, got)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Drain(ctx); err != nil {
		t.Errorf("%v: %+v", err, c.Snapshot())
	}
	if prefill.Open()+decode.Open() != 0 {
		t.Errorf("%d and %d streams are left open at the workers", prefill.Open(), decode.Open())
	}
	if status, body := ask(there, "GET", "/health", ""); status != 200 {
		t.Errorf("/health: %d %s", status, body)
	}
	if _, body := ask(there, "GET", "/v1/models", ""); !strings.Contains(body, `"max_model_len":200`) {
		t.Errorf("/v1/models: %s", body)
	}
}

// An abort by name reaches a worker through its API and ends the request there.
func TestLeaveOverAPI(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	prefill, decode := half{gatewaytest.NewBackend(apiLimits)}, half{gatewaytest.NewBackend(apiLimits)}
	prefill.Fault = func(bulkhead.Request, int) *bulkhead.End { return &bulkhead.End{Reason: bulkhead.HandedOver} }
	_, c := remote(t, prefill, decode)
	decode.Pace = 10 * time.Millisecond
	adm, ref := c.Limits().Admit(bulkhead.Request{ID: "r", Tenant: bulkhead.Tenant{Name: "t"}, Prompt: make([]bulkhead.Token, 100), MaxTokens: 100, IgnoreEOS: true})
	if ref != nil {
		t.Fatal(ref)
	}
	s, ref := c.Submit(context.Background(), adm)
	if ref != nil {
		t.Fatal(ref)
	}
	if _, ok := s.Next(context.Background()); !ok {
		t.Fatal("no token")
	}
	s.Leave()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Drain(ctx); err != nil {
		t.Fatalf("%v: %+v", err, c.Snapshot())
	}
	if decode.Open() != 0 || decode.Left() == 0 {
		t.Errorf("decode: %d open, %d left", decode.Open(), decode.Left())
	}
}
