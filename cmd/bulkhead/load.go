package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/model"
)

// loaded is a model that is ready to run, with its text.
type loaded struct {
	engine *engine.Engine
	text   *text
	name   string
}

// open loads the model of the flags. What is wrong with the flags or the file is a refusal to start.
func (m modelFlags) open(log *slog.Logger) (*loaded, error) {
	if m.Threads < 0 || m.Threads > 1024 {
		return nil, refused{fmt.Errorf("--threads %d: must be 0 (one for each CPU) to 1024", m.Threads)}
	}
	options := m.options(progress(log, "loading the model"))
	var e *engine.Engine
	var err error
	if m.Model == "" {
		e, err = engine.Load(model.Builtin(), options)
	} else {
		e, err = engine.Open(string(m.Model), options)
	}
	if err != nil {
		return nil, refused{err}
	}
	t, err := newText(e.Metadata())
	if err != nil {
		e.Close()
		return nil, refused{fmt.Errorf("%s: %w", m.file(), err)}
	}
	return &loaded{engine: e, text: t, name: m.name()}, nil
}

func (m modelFlags) options(progress func(done, total int64)) engine.Options {
	return engine.Options{Threads: m.threads(), Kernels: m.Kernels, Progress: progress}
}

// described is a model whose weights stay in the file: what a gateway needs of it.
type described struct {
	file *gguf.File
	text *text
	info engine.Info
	name string
}

// describe opens a model for its tokenizer and template. With check its weights are hashed, so that it can be known whether
// workers have the same.
func (m modelFile) describe(check bool, log *slog.Logger) (*described, error) {
	f, err := m.gguf()
	if err != nil {
		return nil, refused{err}
	}
	d := &described{file: f, name: m.name()}
	if d.text, err = newText(f); err == nil {
		d.info, err = engine.Describe(f)
	}
	if err == nil && check && len(f.Tensors()) > 0 {
		d.info.Fingerprint, err = engine.Fingerprint(f, 0, progress(log, "hashing the model"))
	}
	if err != nil {
		f.Close()
		return nil, refused{fmt.Errorf("%s: %w", m.file(), err)}
	}
	return d, nil
}

// gguf opens the model's file without loading it.
func (m modelFile) gguf() (*gguf.File, error) {
	if m.Model == "" {
		return gguf.Parse(model.Builtin())
	}
	return gguf.Open(string(m.Model))
}

// name is what requests call the model unless the operator says otherwise: the built-in model's own name, else that of the
// file. What a file says of itself (general.name) is often no name that one would type.
func (m modelFile) name() string {
	if m.Model == "" {
		return model.Name
	}
	return strings.TrimSuffix(filepath.Base(string(m.Model)), ".gguf")
}

// file is what messages call the model's file.
func (m modelFile) file() string {
	if m.Model == "" {
		return "the built-in model"
	}
	return string(m.Model)
}

// progress logs how far long work is, every two seconds. Work that takes less says nothing.
func progress(log *slog.Logger, what string) func(done, total int64) {
	last := time.Now()
	return func(done, total int64) {
		if now := time.Now(); now.Sub(last) >= 2*time.Second && total > 0 {
			last = now
			log.Info(what, "percent", done*100/total)
		}
	}
}
