package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/convert"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

type modelCmd struct {
	Info    modelInfoCmd    `cmd:"" help:"Say what a model file holds, once loaded."`
	Convert modelConvertCmd `cmd:"" help:"Rewrite a model file with its matrices in another type."`
}

// modelFile names a model file.
type modelFile struct {
	Model fileName `help:"GGUF file (default: the built-in model)." placeholder:"FILE"`
}

type modelInfoCmd struct {
	modelFlags
	JSON bool `help:"Print JSON."`
}

// modelInfo is what `model info` prints.
type modelInfo struct {
	Name         string         `json:"name"`
	Architecture string         `json:"architecture"`
	Fingerprint  string         `json:"fingerprint"`
	Window       int            `json:"window"`
	Vocabulary   int            `json:"vocabulary"`
	Layers       int            `json:"layers"`
	KVHeads      int            `json:"kv_heads"`
	HeadSize     int            `json:"head_size"`
	Parameters   int64          `json:"parameters"`
	WeightBytes  int64          `json:"weight_bytes"`
	Tensors      map[string]int `json:"tensors"` // how many of each type
	KVBytes      int            `json:"kv_bytes_per_token"`
	Kernels      string         `json:"kernels"`
}

// Run loads the model, so that what it prints is what serve would run.
func (c *modelInfoCmd) Run(s *streams) error {
	l, err := c.open(slog.New(slog.NewTextHandler(s.err, nil)))
	if err != nil {
		return err
	}
	defer l.engine.Close()
	info := infoOf(l.engine)
	if c.JSON {
		return json.NewEncoder(s.out).Encode(info)
	}
	return info.print(s.out)
}

func infoOf(e *engine.Engine) modelInfo {
	i := e.Info()
	layout := e.Layout(32)
	info := modelInfo{
		Name: i.Name, Architecture: i.Arch, Fingerprint: hex.EncodeToString(i.Fingerprint[:]),
		Window: int(i.Window), Vocabulary: i.Vocab, Layers: i.Layers, KVHeads: i.KVHeads, HeadSize: i.HeadSize,
		Parameters: i.Params, WeightBytes: i.WeightBytes, Tensors: map[string]int{},
		KVBytes: layout.PageBytes() / layout.PageTokens, Kernels: i.Kernels,
	}
	for _, t := range e.Metadata().Tensors() {
		info.Tensors[t.Type.String()]++
	}
	return info
}

func (i modelInfo) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("name", i.Name)
	row("architecture", i.Architecture)
	row("fingerprint", i.Fingerprint)
	row("window", fmt.Sprintf("%d tokens", i.Window))
	row("vocabulary", fmt.Sprintf("%d tokens", i.Vocabulary))
	row("layers", i.Layers)
	row("KV heads", fmt.Sprintf("%d of %d", i.KVHeads, i.HeadSize))
	row("parameters", i.Parameters)
	row("weights in memory", fmt.Sprintf("%d bytes", i.WeightBytes))
	for _, t := range slices.Sorted(maps.Keys(i.Tensors)) {
		row("tensors of "+t, i.Tensors[t])
	}
	row("KV", fmt.Sprintf("%d bytes a token", i.KVBytes))
	row("kernels", i.Kernels)
	return w.Flush()
}

type modelConvertCmd struct {
	modelFile
	Type string `required:"" help:"Type of the matrices in the new file: F32, F16, BF16, Q8_0, Q4_0 or Q4_1."`
	Out  string `arg:"" help:"File to write."`
}

// Run converts. The new file appears when it is complete.
func (c *modelConvertCmd) Run(s *streams) error {
	to, err := convert.TypeNamed(c.Type)
	if err != nil {
		return refused{err}
	}
	f, err := c.gguf()
	if err != nil {
		return refused{err}
	}
	defer f.Close()
	log := slog.New(slog.NewTextHandler(s.err, nil))
	if err := convert.To(c.Out, f, gguf.Type(to), progress(log, "converting")); err != nil {
		return fmt.Errorf("%s: %w", c.file(), err)
	}
	_, err = fmt.Fprintln(s.out, c.Out)
	return err
}
