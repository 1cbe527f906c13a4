package main

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/native"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// system is what serve runs, put together and not yet listening.
type system struct {
	engine  *engine.Engine
	pair    *worker.Pair
	gateway *gateway.Gateway
	limits  bulkhead.Limits
	layout  bulkhead.Layout
	model   string
}

// systemOptions are what a system has beside its model and limits.
type systemOptions struct {
	name       string // of the model, for clients; "": the model's
	keys       *gateway.Keys
	log        *slog.Logger
	keepOnFree bool
	maxBody    int64

	decodeArena []byte // for tests that damage pages; nil: the worker's own
}

// newSystem puts a gateway in front of a pair of workers.
func newSystem(l *loaded, g guards, limits bulkhead.Limits, layout bulkhead.Layout, o systemOptions) (_ *system, err error) {
	sys := &system{engine: l.engine, limits: limits, layout: layout, model: o.name}
	if sys.model == "" {
		sys.model = l.name
	}
	registry := newRegistry()
	config := worker.Config{
		Runner: g.runner, Summer: g.summer, Layout: layout, Limits: limits, EOS: l.text.ends(),
		KeepOnFree: o.keepOnFree, Log: o.log, Observer: native.NewTimings(registry), DecodeArena: o.decodeArena,
	}
	rand.Read(config.Secret[:])
	if sys.pair, err = worker.NewPair(config); err != nil {
		return nil, err
	}
	native.Collect(registry, sys.pair)
	sys.gateway, err = gateway.New(gateway.Config{
		Backend: native.Backend{Pair: sys.pair}, Text: l.text, Model: describe(sys.model, l.engine.Info()),
		Version: version, Keys: o.keys, Log: o.log, Registry: registry, MaxBody: o.maxBody,
	})
	if err != nil {
		sys.pair.Close()
		return nil, err
	}
	return sys, nil
}

// newRegistry is one that says what every Go process says.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func describe(name string, info engine.Info) gateway.Model {
	return gateway.Model{
		Name: name, Created: time.Now(), Fingerprint: info.Fingerprint,
		Arch: info.Arch, Quantization: info.Quantization, Kernels: info.Kernels,
		Threads: info.Threads, Parameters: info.Params, WeightBytes: info.WeightBytes,
	}
}

// announce logs what was decided at start, so that a log alone says what ran.
func (s *system) announce(log *slog.Logger) {
	announceModel(log, s.model, s.engine.Info())
	log.Info("pools", "window", int(s.limits.Window), "model_window", int(s.limits.ModelWindow),
		"prefill_pool", int(s.limits.PrefillPool), "decode_pool", int(s.limits.DecodePool),
		"page_tokens", s.limits.PageTokens, "page_bytes", s.layout.PageBytes())
}

func announceModel(log *slog.Logger, name string, info engine.Info) {
	for _, failed := range kernel.Failed() {
		log.Warn("kernels disagree with the reference and are not used", "kernels", failed)
	}
	log.Info("model", "name", name, "arch", info.Arch, "weights", info.Quantization, "parameters", info.Params,
		"kernels", info.Kernels, "threads", info.Threads)
}

func (s *system) close() {
	s.pair.Close()
	s.engine.Close()
}
