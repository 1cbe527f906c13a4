package main

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// sideFlags are what a prefill and a decode worker have in common.
type sideFlags struct {
	Name      string `help:"What other nodes call this worker (default: the certificate's name, or one made of role, host and port)." placeholder:"NAME"`
	ModelName string `help:"What a router is told of the model (default: the name of its file)." placeholder:"NAME"`

	Model modelFlags    `embed:""`
	Pool  sidePoolFlags `embed:"" group:"Pool and window"`
	Bound boundFlags    `embed:"" group:"Limits"`
	Peers peerFlags     `embed:"" group:"Trust"`
	Log   logFlags      `embed:"" group:"Log"`
}

// sidePoolFlags size the window and the one pool of a worker.
type sidePoolFlags struct {
	Window    sizeOrAuto `default:"auto" help:"Tokens that prompt and answer may have together; auto: as many as the model knows and the pool holds. Clients are told the least of all workers'." placeholder:"TOKENS"`
	Pool      sizeOrAuto `default:"auto" help:"Tokens that the KV pool holds; auto: from free memory, as if no other worker shared the host." placeholder:"TOKENS"`
	pageFlags `embed:""`
}

// limits are the limits of the flags, with auto worked out, checked against each other and the machine.
func (f sideFlags) limits(role worker.Side, info engine.Info, layout bulkhead.Layout) (bulkhead.Limits, error) {
	if err := f.Bound.check(); err != nil {
		return bulkhead.Limits{}, err
	}
	window := bulkhead.Tokens(f.Pool.Window)
	if window == 0 {
		window = info.Window
	}
	free, known := freeMemory()
	pool := f.Pool.size(free, layout, window, f.Bound.Running)
	if f.Pool.Window == 0 {
		window = min(window, pool)
	}
	if err := f.Pool.check(window, pool, free, known, layout); err != nil {
		return bulkhead.Limits{}, err
	}
	l := bulkhead.Limits{
		Window: window, ModelWindow: info.Window, PageTokens: layout.PageTokens,
		Queue: f.Bound.Queue, QueueTenant: f.Bound.QueueTenant, Running: f.Bound.Running, Chunk: bulkhead.Tokens(f.Bound.Chunk),
		DrainTimeout: f.Bound.DrainTimeout, RequestTimeout: f.Bound.RequestTimeout,
	}
	if role == worker.Prefill {
		l.Role, l.PrefillPool = bulkhead.RolePrefill, pool
	} else {
		l.Role, l.DecodePool = bulkhead.RoleDecode, pool
	}
	return l, l.Check()
}

// size is the pool in tokens, whole pages.
func (f sidePoolFlags) size(free int64, layout bulkhead.Layout, window bulkhead.Tokens, running int) bulkhead.Tokens {
	page := bulkhead.Tokens(layout.PageTokens)
	if f.Pool != 0 {
		return bulkhead.Tokens(f.Pool) / page * page
	}
	pages := int64(float64(free)*poolShare) / int64(layout.PageBytes())
	return bulkhead.Tokens(min(pages, int64(layout.Pages(window))*int64(running))) * page
}

// check refuses a window that the pool does not hold (rule I7), and a pool that the memory does not.
func (f sidePoolFlags) check(window, pool bulkhead.Tokens, free int64, known bool, layout bulkhead.Layout) error {
	if window > pool {
		return fmt.Errorf("the window of %d tokens does not fit the pool of %d tokens: lower --window to %d or less "+
			"(or leave it at auto), or raise --pool to %d or more", window, pool, pool, window)
	}
	pages, most := int64(pool)/int64(layout.PageTokens), free/int64(layout.PageBytes())
	if known && pages > most {
		return fmt.Errorf("a pool of %d tokens takes %.0f MiB, and %.0f MiB of memory are free: lower --pool to %d or less (or leave it at auto)",
			pool, float64(pages*int64(layout.PageBytes()))/(1<<20), float64(free)/(1<<20), most*int64(layout.PageTokens))
	}
	return nil
}
