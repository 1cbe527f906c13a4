package main

import (
	"io"
	"log/slog"
	"runtime"
	"time"
)

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
	pageFlags   `embed:""`
}

// pageFlags say what pages are.
type pageFlags struct {
	PageTokens  int  `default:"64" enum:"16,32,64,128,256,512" help:"Tokens of a page: 16, 32, 64, 128, 256 or 512."`
	ClearOnFree bool `default:"true" negatable:"" help:"Clear pages when they are freed; --no-clear-on-free clears them when they are next handed out."`
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

// threads is the number of threads to compute with.
func (m modelFlags) threads() int {
	if m.Threads > 0 {
		return m.Threads
	}
	return runtime.NumCPU()
}

// logFlags say what is logged, and how.
type logFlags struct {
	LogFormat string     `default:"text" enum:"text,json" help:"Log lines as text or as JSON."`
	LogLevel  slog.Level `default:"INFO" help:"Least level that is logged: DEBUG, INFO, WARN or ERROR."`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
