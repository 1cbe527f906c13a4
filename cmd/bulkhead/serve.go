package main

import (
	"context"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/gateway"
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

	Log logFlags `embed:"" group:"Log"`
}

// Run serves until SIGTERM or SIGINT, then drains.
func (c *serveCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := c.Log.logger(s.err)
	sys, err := c.assemble(log)
	if err != nil {
		return err
	}
	defer sys.close()
	listener, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	sys.announce(log)
	log.Info("serving", "url", "http://"+listener.Addr().String())
	return service{
		server: sys.gateway.Server(), listener: gateway.Listener(listener), log: log, limit: c.Bound.DrainTimeout,
		drain: func(ctx context.Context) error { sys.gateway.Drain(); return sys.pair.Drain(ctx) },
	}.run(ctx, stop)
}

// assemble makes the system. What it refuses is a configuration that contradicts itself, the machine or the model file.
func (c *serveCmd) assemble(log *slog.Logger) (_ *system, err error) {
	keys, err := loadKeys(c.Keys)
	if err != nil {
		return nil, err
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

// loadKeys reads the file of keys; nil where none is named.
func loadKeys(file fileName) (*gateway.Keys, error) {
	if file == "" {
		return nil, nil
	}
	keys, err := gateway.LoadKeys(string(file))
	if err != nil {
		return nil, refused{err}
	}
	return keys, nil
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
