package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster/clustertest"
)

// rig is a cluster over fake workers.
type rig struct {
	t       *testing.T
	c       *cluster.Cluster
	prefill []*clustertest.Worker
	decode  []*clustertest.Worker
	log     *syncBuffer
	reg     *prometheus.Registry
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fast are waits for tests: probes every 20 ms.
func fast() cluster.Config {
	return cluster.Config{Vocab: 256,
		Timeouts: cluster.Timeouts{First: 5 * time.Second, Idle: 5 * time.Second, Settle: 150 * time.Millisecond, Abort: 100 * time.Millisecond, Hold: 2 * time.Second},
		Probes:   cluster.Probes{Every: 20 * time.Millisecond, Timeout: 200 * time.Millisecond, GenerateEvery: 20 * time.Millisecond, GenerateTimeout: time.Second},
		Breaker:  cluster.BreakerConfig{Backoff: 10 * time.Second}}
}

// newRig starts workers and waits until all are in.
func newRig(t *testing.T, prefill, decode int, change func(*cluster.Config, *rig)) *rig {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	r := &rig{t: t, log: &syncBuffer{}, reg: prometheus.NewRegistry()}
	rooms := clustertest.NewRooms()
	for i := range prefill {
		r.prefill = append(r.prefill, clustertest.New("prefill", "prefill-"+string(rune('0'+i)), rooms))
	}
	for i := range decode {
		r.decode = append(r.decode, clustertest.New("decode", "decode-"+string(rune('0'+i)), rooms))
	}
	cfg := fast()
	cfg.Log = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Registry = r.reg
	if change != nil {
		change(&cfg, r)
	}
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.c = c
	t.Cleanup(func() {
		c.Close()
		for _, w := range append(r.prefill, r.decode...) {
			w.Close()
		}
		if t.Failed() {
			t.Log("\n" + r.log.String())
		}
	})
	if err := c.SetMembers(r.members()); err != nil {
		t.Fatal(err)
	}
	r.until("all workers are in", func() bool { return r.in() == prefill+decode })
	return r
}

func (r *rig) members() (m cluster.Members) {
	for _, w := range r.prefill {
		m.Prefill = append(m.Prefill, cluster.Member{URL: w.URL})
	}
	for _, w := range r.decode {
		m.Decode = append(m.Decode, cluster.Member{URL: w.URL})
	}
	return m
}

func (r *rig) in() (n int) {
	for _, w := range r.c.Snapshot().Workers {
		if w.In {
			n++
		}
	}
	return n
}

func (r *rig) state(w *clustertest.Worker) cluster.WorkerState {
	r.t.Helper()
	for _, s := range r.c.Snapshot().Workers {
		if s.URL == w.URL {
			return s
		}
	}
	r.t.Fatalf("%s is no member", w.URL)
	return cluster.WorkerState{}
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("still not: %s\n%+v", what, r.c.Snapshot())
		}
	}
}

func prompt(n int) []bulkhead.Token {
	p := make([]bulkhead.Token, n)
	for i := range p {
		p[i] = bulkhead.Token(i * 7 % 256)
	}
	return p
}

func request(n, answer int) bulkhead.Request {
	return bulkhead.Request{ID: "r-1", Tenant: bulkhead.Tenant{Name: "t", Domain: "t"}, Prompt: prompt(n), MaxTokens: bulkhead.Tokens(answer)}
}

func (r *rig) submit(req bulkhead.Request) (gateway.Stream, *bulkhead.Refusal) {
	r.t.Helper()
	adm, ref := bulkhead.Limits{Window: 1 << 20}.Admit(req)
	if ref != nil {
		r.t.Fatal(ref)
	}
	return r.c.Submit(context.Background(), adm)
}

// answer is all of a stream: its tokens and its one End.
type answer struct {
	tokens []bulkhead.Token
	events []bulkhead.Event
	end    bulkhead.End
}

func (r *rig) read(s gateway.Stream) (a answer) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ends := 0
	for {
		e, ok := s.Next(ctx)
		if !ok {
			break
		}
		if e.End != nil {
			ends++
			a.end = *e.End
			continue
		}
		if ends > 0 {
			r.t.Error("a token behind the End")
		}
		a.tokens = append(a.tokens, e.Token)
		a.events = append(a.events, e)
	}
	if ends != 1 {
		r.t.Fatalf("%d Ends", ends)
	}
	return a
}

func (r *rig) ask(req bulkhead.Request) answer {
	r.t.Helper()
	s, ref := r.submit(req)
	if ref != nil {
		r.t.Fatal(ref)
	}
	return r.read(s)
}

func expectedTokens(p []bulkhead.Token, n int) []bulkhead.Token {
	out := make([]bulkhead.Token, n)
	for i := range out {
		out[i] = clustertest.Token(p, i)
	}
	return out
}

func (r *rig) whole(a answer, req bulkhead.Request) {
	r.t.Helper()
	if a.end.Reason != bulkhead.Length || !slices.Equal(a.tokens, expectedTokens(req.Prompt, int(req.MaxTokens))) {
		r.t.Errorf("%v after %v: %v", a.end.Reason, a.tokens, a.end.Err)
	}
	if int(a.end.Prompt) != len(req.Prompt) || a.end.Completion != req.MaxTokens || a.end.Cached != 8 {
		r.t.Errorf("usage %d, %d, %d", a.end.Prompt, a.end.Cached, a.end.Completion)
	}
}

// over waits until both workers of every request are done with it.
func (r *rig) over() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.c.Drain(ctx); err != nil {
		r.t.Fatalf("%v: %+v", err, r.c.Snapshot())
	}
	for _, w := range r.c.Snapshot().Workers {
		if w.Requests != 0 || w.Tokens != 0 {
			r.t.Errorf("%s has %d requests, %d tokens in flight", w.Name, w.Requests, w.Tokens)
		}
	}
}

// rooms checks that no room and no id was used twice, and that the two workers of an attempt were told the same.
func (r *rig) rooms() {
	r.t.Helper()
	seen := map[bulkhead.Room]string{}
	rids := map[string]bool{}
	for _, w := range r.prefill {
		for _, q := range w.Requests() {
			if q.Room == 0 || q.Room>>63 != 0 || seen[q.Room] != "" || rids[q.Rid] || len(q.Rid) != 24 {
				r.t.Errorf("room %v, rid %q", q.Room, q.Rid)
			}
			seen[q.Room], rids[q.Rid] = q.Rid, true
		}
	}
	used := map[bulkhead.Room]bool{}
	for _, w := range r.decode {
		for _, q := range w.Requests() {
			if used[q.Room] {
				r.t.Errorf("decode was told of room %v twice", q.Room)
			}
			used[q.Room] = true
			if rid := seen[q.Room]; rid != "" && rid != q.Rid {
				r.t.Errorf("room %v: rids %q and %q", q.Room, rid, q.Rid)
			}
		}
	}
}

func (r *rig) logged(parts ...string) {
	r.t.Helper()
	for _, line := range strings.Split(r.log.String(), "\n") {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return
		}
	}
	r.t.Errorf("no line of the log has all of %q", parts)
}
