package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/algebra"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// Here everything is real but the model, whose answer can be computed from the prompt alone: two prefill and two decode workers
// with their HTTP APIs, and handoffs over TCP.

var realConfig = worker.Config{Layout: algebra.Small(16), EOS: []bulkhead.Token{gatewaytest.EOS}, Secret: [32]byte{7},
	Limits: bulkhead.Limits{Window: 400, PrefillPool: 1024, DecodePool: 2048, ModelWindow: 2048, PageTokens: 16,
		Queue: 32, QueueTenant: 32, Running: 8, Chunk: 24, DrainTimeout: 5 * time.Second}}

func realModel() *algebra.Model { return algebra.New(algebra.Small(16), gatewaytest.Size, 11) }

func carrier(name string) tcp.Config {
	return tcp.Config{Name: name, Layout: realConfig.Layout, Secret: [32]byte{9}, Limits: tcp.DefaultLimits()}
}

func serveReal(t *testing.T, name, handoff string, side worker.Side, w api.Worker) cluster.Member {
	t.Helper()
	a, err := api.New(api.Config{Role: side, Worker: w, Text: gatewaytest.Text{}, Model: gateway.Model{Name: "m"}, Layout: realConfig.Layout,
		Name: name, Start: name + "-1", Handoff: handoff, Peer: func(*http.Request) (string, string, bool) { return "gateway", "g", true }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config = a.Server()
	s.Start()
	t.Cleanup(s.Close)
	return cluster.Member{URL: s.URL}
}

func realPrefill(t *testing.T, name string) (cluster.Member, func() worker.Snapshot) {
	t.Helper()
	out, err := tcp.NewOutlet(carrier(name))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); out.Serve(l) }()
	cfg := realConfig
	cfg.Runner = realModel()
	w, err := worker.NewPrefill(cfg, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); out.Shutdown(); <-served })
	return serveReal(t, name, l.Addr().String(), worker.Prefill, api.Of(w)), w.Snapshot
}

func realDecode(t *testing.T, name string) (cluster.Member, func() worker.Snapshot) {
	t.Helper()
	in, err := tcp.NewInlet(carrier(name))
	if err != nil {
		t.Fatal(err)
	}
	cfg := realConfig
	cfg.Runner = realModel()
	w, err := worker.NewDecode(cfg, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); in.Shutdown() })
	return serveReal(t, name, "", worker.Decode, api.Of(w)), w.Snapshot
}

func greedy(t *testing.T, prompt []bulkhead.Token, n int) (out []bulkhead.Token) {
	s, err := sample.New(bulkhead.Sampling{}, gatewaytest.Size, prompt)
	if err != nil {
		t.Fatal(err)
	}
	return realModel().Answer(prompt, func(logits []float32) (bulkhead.Token, bool) {
		token, _, err := s.Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, token)
		return token, token != gatewaytest.EOS && len(out) < n
	})
}

// Every answer through two pairs is the model's own, token for token, while some clients leave; and no page is left behind.
func TestRealWorkers(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	var m cluster.Members
	var snapshots []func() worker.Snapshot
	for i := range 2 {
		p, ps := realPrefill(t, fmt.Sprintf("prefill-%d", i))
		d, ds := realDecode(t, fmt.Sprintf("decode-%d", i))
		m.Prefill, m.Decode, snapshots = append(m.Prefill, p), append(m.Decode, d), append(snapshots, ps, ds)
	}
	cfg := fast()
	cfg.Vocab = gatewaytest.Size
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are in", func() bool {
		n := 0
		for _, w := range c.Snapshot().Workers {
			if w.In {
				n++
			}
		}
		return n == 4
	})
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() { realClient(t, c, i) })
	}
	clients.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Drain(ctx); err != nil {
		t.Errorf("%v: %+v", err, c.Snapshot())
	}
	eventually(t, "no page is held", func() bool {
		held := 0
		for _, s := range snapshots {
			u := s()
			held += u.Prefill.Live + u.Prefill.Quarantined + u.Decode.Live + u.Decode.Quarantined
		}
		return held == 0
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// realClient asks one question, and every fourth leaves after a token, or before.
func realClient(t *testing.T, c *cluster.Cluster, i int) {
	p := prompt(1 + i*13%300)
	p[0] = bulkhead.Token(i % 5)
	adm, ref := c.Limits().Admit(bulkhead.Request{ID: bulkhead.RequestID(fmt.Sprint(i)), Tenant: bulkhead.Tenant{Name: "t", Domain: "t"}, Prompt: p, MaxTokens: 20})
	if ref != nil {
		t.Error(ref)
		return
	}
	s, ref := c.Submit(context.Background(), adm)
	if ref != nil {
		t.Error(ref)
		return
	}
	if i%8 == 3 {
		s.Leave()
	}
	var got []bulkhead.Token
	for {
		e, ok := s.Next(context.Background())
		if !ok {
			t.Error("no End")
			return
		}
		if e.End == nil {
			got = append(got, e.Token)
			if i%8 == 7 {
				s.Leave()
			}
			continue
		}
		want := greedy(t, p, 20)
		if e.End.Reason == bulkhead.Stopped {
			got = append(got, e.End.StopToken)
		}
		switch {
		case e.End.Reason == bulkhead.Aborted && i%4 == 3:
			want = want[:len(got)]
		case e.End.Reason != bulkhead.Stopped && e.End.Reason != bulkhead.Length:
			t.Errorf("client %d: %v: %v", i, e.End.Reason, e.End.Err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("client %d got %v, want %v", i, got, want)
		}
		return
	}
}
