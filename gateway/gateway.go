package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
)

// Config says what a gateway serves and how it guards itself. Backend, Text and Model.Name are needed; the rest has
// defaults.
type Config struct {
	Backend Backend
	Text    Text
	Model   Model
	Version string
	Keys    *Keys                               // nil: see Tenant
	Tenant  func(*http.Request) bulkhead.Tenant // who sends a request where there are no Keys; nil: everybody is "default"
	Log     *slog.Logger

	Registry *prometheus.Registry // what /metrics shows; the gateway adds its own. nil: a new one

	MaxBody      int64         // bytes of a request's body; 0: 8 MiB
	BodyTimeout  time.Duration // how long a body may take to arrive; 0: 30 s
	WriteTimeout time.Duration // how long one write may wait for a client that does not read; 0: 30 s
}

// Model is what clients are told of the model.
type Model struct {
	Name        string // as requests name it
	Created     time.Time
	Fingerprint [32]byte // of the weights; clients see a hash of it

	Arch         string
	Quantization string
	Kernels      string
	Threads      int
	Parameters   int64
	WeightBytes  int64
}

// Gateway is the handler. Make one with New.
type Gateway struct {
	cfg         Config
	log         *slog.Logger
	metrics     *metrics
	gate        gate
	heavy       *heavy
	fingerprint string // for system_fingerprint
	draining    atomic.Bool
}

// New checks the config and makes a gateway. Nothing runs until requests come.
func New(cfg Config) (*Gateway, error) {
	if cfg.Backend == nil || cfg.Text == nil || cfg.Model.Name == "" {
		return nil, errors.New("gateway: Backend, Text and Model.Name are needed")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 8 << 20
	}
	if cfg.BodyTimeout == 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 30 * time.Second
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Keys == nil && cfg.Tenant == nil {
		cfg.Tenant = func(*http.Request) bulkhead.Tenant {
			return bulkhead.Tenant{Name: defaultTenant, Domain: defaultTenant}
		}
		cfg.Log.Warn("no --keys file: every client is the tenant \"" + defaultTenant + "\"")
	}
	sum := sha256.Sum256(cfg.Model.Fingerprint[:])
	g := &Gateway{cfg: cfg, log: cfg.Log, heavy: newHeavy(), fingerprint: "fp_" + hex.EncodeToString(sum[:5])}
	g.gate.inFlight = map[string]int{}
	g.metrics = newMetrics(cfg.Registry, cfg.Backend, g)
	return g, nil
}

// Handler serves every route.
func (g *Gateway) Handler() http.Handler { return http.HandlerFunc(g.serve) }

// Server is an http.Server for the handler whose limits keep slow clients from holding it: headers have 10 s and 32 KiB, an
// idle connection 2 minutes. Bodies and answers have deadlines of their own, set by the handler as it reads and writes. Serve
// it with a [Listener], so that what net/http refuses by itself has an error body too.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler:           g.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,

		DisableGeneralOptionsHandler: true, // OPTIONS * is no route, like any other
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// Drain refuses new requests from now on, with 503 and Retry-After; those that run go on. /health says so.
func (g *Gateway) Drain() { g.draining.Store(true) }

func (g *Gateway) checkDraining() *bulkhead.Refusal {
	if !g.draining.Load() {
		return nil
	}
	ref := bulkhead.Refuse(bulkhead.CodeDraining, "", "the server is shutting down and takes no new requests; send it again in a moment")
	ref.RetryAfter = min(max(g.cfg.Backend.Limits().DrainTimeout, time.Second), 30*time.Second)
	return ref
}

// checkReady asks a backend whose workers can be elsewhere whether there are any.
func (g *Gateway) checkReady() *bulkhead.Refusal {
	if b, ok := g.cfg.Backend.(Readier); ok {
		return b.Ready()
	}
	return nil
}
