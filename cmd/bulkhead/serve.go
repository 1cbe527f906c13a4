package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"runtime"
	"syscall"
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

// serveCmd is the whole system in one process. Each flag is also BULKHEAD_NAME in the environment and a key of the
// configuration file.
type serveCmd struct {
	Listen    string   `default:"127.0.0.1:8080" help:"Address and port to serve on."`
	ModelName string   `help:"What requests call the model (default: that of its file)." placeholder:"NAME"`
	Keys      fileName `help:"YAML file that maps API keys to tenants. Without it everybody is the tenant default." placeholder:"FILE"`

	Model modelFlags `embed:""`
	Pools poolFlags  `embed:"" group:"Pools and window"`
	Bound boundFlags `embed:"" group:"Limits"`

	LogFormat string     `default:"text" enum:"text,json" help:"Log lines as text or as JSON."`
	LogLevel  slog.Level `default:"INFO" help:"Least level that is logged: DEBUG, INFO, WARN or ERROR."`
}

// modelFlags say what to run, and on what.
type modelFlags struct {
	modelFile `embed:""`
	Threads   int    `default:"0" help:"Threads that compute; 0: one for each CPU."`
	Kernels   string `help:"Kernels to compute with, by name (default: the fastest that this CPU runs)." placeholder:"NAME"`
}

// poolFlags size the window and the pools.
type poolFlags struct {
	Window      sizeOrAuto `default:"auto" help:"Tokens that prompt and answer may have together; auto: as many as the model knows and both pools hold." placeholder:"TOKENS"`
	PrefillPool sizeOrAuto `default:"auto" help:"Tokens that the prefill worker's KV pool holds; auto: from free memory." placeholder:"TOKENS"`
	DecodePool  sizeOrAuto `default:"auto" help:"Tokens that the decode worker's KV pool holds; auto: from free memory." placeholder:"TOKENS"`
	PageTokens  int        `default:"32" enum:"16,32,64,128,256,512" help:"Tokens of a page: 16, 32, 64, 128, 256 or 512."`
	ClearOnFree bool       `default:"true" negatable:"" help:"Clear pages when they are freed; --no-clear-on-free clears them when they are next handed out."`
}

// boundFlags are the limits under load.
type boundFlags struct {
	Running        int           `default:"16" help:"Requests that decode at once."`
	Queue          int           `default:"256" help:"Requests that may wait, all tenants together."`
	QueueTenant    int           `default:"64" help:"Requests of one tenant that may wait."`
	Chunk          int           `default:"128" help:"Prompt tokens that prefill computes in one step."`
	RequestTimeout time.Duration `default:"0s" help:"Time that a request has from its arrival, queues included; 0: no limit."`
	DrainTimeout   time.Duration `default:"30s" help:"Time that running requests have after SIGTERM."`
	MaxBody        int64         `default:"8388608" help:"Bytes that the body of a request may have."`
}

// Run serves until SIGTERM or SIGINT, then drains.
func (c *serveCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := c.logger(s.err)
	sys, err := c.assemble(log)
	if err != nil {
		return err
	}
	defer sys.close()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return refused{fmt.Errorf("--listen %s: %w", c.Listen, err)}
	}
	sys.announce(log, listener.Addr())
	return sys.serve(ctx, stop, listener, log, c.Bound.DrainTimeout)
}

func (c *serveCmd) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// system is what serve runs, put together and not yet listening.
type system struct {
	engine  *engine.Engine
	pair    *worker.Pair
	gateway *gateway.Gateway
	limits  bulkhead.Limits
	layout  bulkhead.Layout
	model   string
}

// assemble makes the system. What it refuses is a configuration that contradicts itself, the machine or the model file.
func (c *serveCmd) assemble(log *slog.Logger) (_ *system, err error) {
	var keys *gateway.Keys
	if c.Keys != "" {
		if keys, err = gateway.LoadKeys(string(c.Keys)); err != nil {
			return nil, refused{err}
		}
	}
	loaded, err := c.Model.open(log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			loaded.engine.Close()
		}
	}()
	layout := loaded.engine.Layout(c.Pools.PageTokens)
	limits, err := c.limits(loaded.engine.Info(), layout)
	if err != nil {
		return nil, refused{err}
	}
	sys, err := newSystem(loaded, guarded(loaded.engine), limits, layout, systemOptions{
		name: c.ModelName, keys: keys, log: log, keepOnFree: !c.Pools.ClearOnFree, maxBody: c.Bound.MaxBody})
	if err != nil {
		return nil, refused{err} // the machine does not give what the limits need
	}
	return sys, nil
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
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

// limits are the limits of the flags, with auto worked out, checked against each other.
func (c *serveCmd) limits(info engine.Info, layout bulkhead.Layout) (bulkhead.Limits, error) {
	if err := c.Bound.check(); err != nil {
		return bulkhead.Limits{}, err
	}
	window := bulkhead.Tokens(c.Pools.Window)
	if window == 0 {
		window = info.Window
	}
	free, known := freeMemory()
	sizes := sizePools(c.Pools.PrefillPool, c.Pools.DecodePool, free, layout, window, c.Bound.Running)
	l := bulkhead.Limits{
		Window: window, ModelWindow: info.Window,
		PrefillPool: sizes.prefill, DecodePool: sizes.decode, PageTokens: layout.PageTokens,
		Queue: c.Bound.Queue, QueueTenant: c.Bound.QueueTenant, Running: c.Bound.Running, Chunk: bulkhead.Tokens(c.Bound.Chunk),
		DrainTimeout: c.Bound.DrainTimeout, RequestTimeout: c.Bound.RequestTimeout,
	}
	if c.Pools.Window == 0 {
		l.Window = l.FitWindow()
	}
	if err := l.Check(); err != nil {
		return l, err
	}
	if known {
		return l, sizes.checkMemory(free, layout)
	}
	return l, nil
}

func describe(name string, info engine.Info) gateway.Model {
	return gateway.Model{
		Name: name, Created: time.Now(), Fingerprint: info.Fingerprint,
		Arch: info.Arch, Quantization: info.Quantization, Kernels: info.Kernels,
		Threads: info.Threads, Parameters: info.Params, WeightBytes: info.WeightBytes,
	}
}

// announce logs what was decided at start, so that a log alone says what ran.
func (s *system) announce(log *slog.Logger, addr net.Addr) {
	info := s.engine.Info()
	for _, failed := range kernel.Failed() {
		log.Warn("kernels disagree with the reference and are not used", "kernels", failed)
	}
	log.Info("model", "name", s.model, "arch", info.Arch, "weights", info.Quantization, "parameters", info.Params,
		"kernels", info.Kernels, "threads", info.Threads)
	log.Info("pools", "window", int(s.limits.Window), "model_window", int(s.limits.ModelWindow),
		"prefill_pool", int(s.limits.PrefillPool), "decode_pool", int(s.limits.DecodePool),
		"page_tokens", s.limits.PageTokens, "page_bytes", s.layout.PageBytes())
	log.Info("serving", "url", "http://"+addr.String())
}

// serve answers until ctx is done, then lets what runs end within the limit.
func (s *system) serve(ctx context.Context, stop func(), listener net.Listener, log *slog.Logger, limit time.Duration) error {
	server := s.gateway.Server()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(gateway.Listener(listener)) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the process at once
	log.Info("draining: no new requests", "limit", limit)
	s.gateway.Drain()
	drain, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	drained := s.pair.Drain(drain)
	shut, cancelShut := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancelShut()
	if err := server.Shutdown(shut); err != nil {
		server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if drained != nil {
		log.Warn("drained: requests that were still running were ended", "limit", limit)
	} else {
		log.Info("drained: every request ended by itself")
	}
	return nil
}

// shutdownGrace is how long answers whose last event is there may take to reach their clients.
const shutdownGrace = 2 * time.Second

func (s *system) close() {
	s.pair.Close()
	s.engine.Close()
}

// threads is the number of threads to compute with.
func (m modelFlags) threads() int {
	if m.Threads > 0 {
		return m.Threads
	}
	return runtime.NumCPU()
}
