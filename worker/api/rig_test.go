package api_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limits are those of the tests: a window of 100 tokens.
var limits = bulkhead.Limits{Window: 100, PrefillPool: 128, DecodePool: 256, ModelWindow: 2048, PageTokens: 32,
	Queue: 8, QueueTenant: 4, Running: 4, Chunk: 64, DrainTimeout: 20 * time.Second}

// fake is a worker that computes nothing: at prefill every request is handed over at once, at decode it answers with the
// prompt.
type fake struct {
	*gatewaytest.Backend
	mu       sync.Mutex
	orders   []worker.Order
	snapshot worker.Snapshot
}

func (f *fake) Submit(o worker.Order) (gateway.Stream, *bulkhead.Refusal) {
	b := f.Backend
	if b.Pace > 0 && o.Request.Request().Tenant.Name == "health" {
		b = gatewaytest.NewBackend(limits) // slow to others only
	}
	s, ref := b.Submit(context.Background(), o.Request)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, o)
	f.snapshot.Counters.PrefillRows++
	return s, ref
}

func (f *fake) Snapshot() worker.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshot.Limits = f.Limits()
	return f.snapshot
}

func (f *fake) taken() []worker.Order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]worker.Order(nil), f.orders...)
}

func newFake(side worker.Side) *fake {
	f := &fake{Backend: gatewaytest.NewBackend(limits)}
	pool := worker.PoolUse{Size: 128, Pages: 4, Free: 2, Cached: 1, Live: 1}
	f.snapshot.Prefill, f.snapshot.Decode = pool, pool
	if side == worker.Prefill {
		f.Fault = func(bulkhead.Request, int) *bulkhead.End {
			return &bulkhead.End{Reason: bulkhead.HandedOver, Cached: 1}
		}
	}
	return f
}

// trusted takes everybody for a gateway.
func trusted(*http.Request) (string, string, bool) { return "gateway", "gateway-0", true }

// newAPI puts an API in front of a fake worker.
func newAPI(t testing.TB, side worker.Side, change func(*api.Config, *fake)) (*api.API, *fake) {
	t.Helper()
	f := newFake(side)
	cfg := api.Config{Role: side, Worker: f, Text: gatewaytest.Text{}, Model: gateway.Model{Name: "m", Created: time.Unix(1700000000, 0), Arch: "llama"},
		Layout: bulkhead.Layout{Layers: 1, KVHeads: 1, HeadSize: 4, PageTokens: 32}, Version: "v0", Name: side.String() + "-0", Start: "start",
		Peer: trusted, Flush: func() int { return 3 }, ProbeTimeout: time.Second}
	if side == worker.Prefill {
		cfg.Handoff = "127.0.0.1:9000"
	}
	if change != nil {
		change(&cfg, f)
	}
	a, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := f.Open(); n != 0 {
			t.Errorf("%d streams are left open", n)
		}
	})
	return a, f
}
