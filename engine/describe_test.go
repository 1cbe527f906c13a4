package engine_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/model"
)

// What is described is what is loaded, but for what only loading can know.
func TestDescribeAgreesWithLoad(t *testing.T) {
	f, err := gguf.Parse(model.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := engine.Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Load(model.Builtin(), engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want := e.Info()
	print, err := engine.Fingerprint(f, 2, nil)
	if err != nil || print != want.Fingerprint {
		t.Errorf("fingerprint %x, loaded %x, %v", print, want.Fingerprint, err)
	}
	want.Fingerprint, want.Kernels, want.Threads, want.WeightBytes = [32]byte{}, "", 0, 0
	if got != want {
		t.Errorf("described %+v, loaded %+v", got, want)
	}
}

// A tokenizer's own file is enough for whoever needs no weights; a model that could not be loaded is not described.
func TestDescribeWithoutTensors(t *testing.T) {
	whole, err := gguf.Parse(model.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	w := gguf.NewWriter()
	for _, key := range whole.Keys() {
		v, _ := whole.Value(key)
		w.Set(key, v)
	}
	got, err := describe(t, w)
	if err != nil {
		t.Fatal(err)
	}
	title, _ := whole.String("general.name")
	if got != (engine.Info{Name: title, Arch: "llama"}) {
		t.Errorf("described %+v", got)
	}
	w.Add("token_embd.weight", gguf.F32, []int{256, 4}, make([]byte, 256*4*4))
	if _, err := describe(t, w); err == nil || !strings.Contains(err.Error(), "not a model that workers could load") {
		t.Error(err)
	}
}

func describe(t *testing.T, w *gguf.Writer) (engine.Info, error) {
	t.Helper()
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return engine.Describe(f)
}
