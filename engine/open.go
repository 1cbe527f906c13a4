package engine

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

// Options say how a model runs. The zero value is all defaults.
type Options struct {
	Threads  int    // 0: as many as the process has cores
	Kernels  string // name of a set; "": the best that runs here
	MaxRows  int    // most tokens that go through the weights at once, a matter of memory; 0: 512
	Progress func(done, total int64)
}

// Engine is a runner over a model file. It is for one Step at a time; [Engine.Share] gives another one over the same
// weights.
type Engine struct {
	m       *model
	set     *kernel.Set
	pool    *parallel.Pool
	forward *forward
	passes  []pass
	logits  []float32 // of the last step
	busy    atomic.Bool
	closed  atomic.Bool
}

var _ Runner = (*Engine)(nil)

// Open loads a GGUF file. The error names what is wrong with it or what is not supported.
func Open(path string, o Options) (*Engine, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	e, err := open(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// Load is Open for a file that is in memory and stays there.
func Load(data []byte, o Options) (*Engine, error) {
	f, err := gguf.Parse(data)
	if err != nil {
		return nil, err
	}
	return open(f, o)
}

func open(f *gguf.File, o Options) (*Engine, error) {
	set, err := kernel.Named(o.Kernels)
	if err != nil {
		f.Close()
		return nil, err
	}
	pool := parallel.New(o.threads())
	m, err := load(f, pool, o.Progress)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return newEngine(m, set, pool, o), nil
}

func (o Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}

func newEngine(m *model, set *kernel.Set, pool *parallel.Pool, o Options) *Engine {
	rows := o.MaxRows
	if rows < 1 {
		rows = 512
	}
	m.users.Add(1)
	return &Engine{m: m, set: set, pool: pool, forward: newForward(m, set, pool, rows)}
}

// Share is another engine over the same weights, with threads and working memory of its own, so that it can run beside
// this one. Each is closed by itself.
func (e *Engine) Share(o Options) (*Engine, error) {
	set, err := kernel.Named(o.Kernels)
	if err != nil {
		return nil, err
	}
	return newEngine(e.m, set, parallel.New(o.threads()), o), nil
}

// Close ends the engine's threads, and gives the weights back when it was the last to use them. No Step may be going on
// or follow, and no logits be read.
func (e *Engine) Close() {
	if e.closed.Swap(true) {
		return
	}
	e.pool.Close()
	if e.m.users.Add(-1) == 0 {
		e.m.release()
		e.m.file.Close()
	}
}

// Info describes the model.
func (e *Engine) Info() Info {
	info := e.m.info
	info.Kernels, info.Threads = e.set.Name, e.pool.Threads()
	return info
}

// Layout is that of pages of so many tokens for this model.
func (e *Engine) Layout(pageTokens int) bulkhead.Layout {
	s := e.m.spec
	return bulkhead.Layout{Layers: s.Layers, KVHeads: s.KVHeads, HeadSize: s.HeadSize, PageTokens: pageTokens}
}

// Metadata is the file, for the tokenizer and the chat template. It must not be closed, and is gone after the last Close.
func (e *Engine) Metadata() *gguf.File { return e.m.file }

// Kernels is the set that the engine runs, which is also what a pool takes sums with.
func (e *Engine) Kernels() *kernel.Set { return e.set }
