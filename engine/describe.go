package engine

import (
	"crypto/sha256"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

// Describe says what Info would say of a model file, without loading its weights: for a gateway, which needs the tokenizer
// and the template only. There is no fingerprint, since that is over the weights, and nothing of what would run it. Of a
// file with no tensors at all, as made for tokenizers, only the names are known.
func Describe(f *gguf.File) (Info, error) {
	title, _ := f.String("general.name")
	if len(f.Tensors()) == 0 {
		name, err := f.String("general.architecture")
		return Info{Name: title, Arch: name}, err
	}
	name, spec, err := readSpec(f)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: title, Arch: name, Window: bulkhead.Tokens(spec.Window), Vocab: spec.Vocab,
		Layers: spec.Layers, KVHeads: spec.KVHeads, HeadSize: spec.HeadSize}
	l := &loader{file: f, used: map[string]bool{}, byType: map[string]int64{}}
	if err := (&model{file: f, spec: spec}).collect(l); err != nil {
		return Info{}, fmt.Errorf("not a model that workers could load: %w", err)
	}
	info.Params, info.Quantization = l.params, l.quantization()
	return info, nil
}

// Fingerprint is the one that Info would have, by hashing the weights where they lie: the file is read once, and nothing of
// it is kept in memory. Of a file without tensors there is none.
func Fingerprint(f *gguf.File, threads int, progress func(done, total int64)) ([sha256.Size]byte, error) {
	name, _, err := readSpec(f)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	w := newLoading(&loader{file: f}, f, progress)
	pool := parallel.New(Options{Threads: threads}.threads())
	defer pool.Close()
	pool.Run(w, len(w.tasks), 1)
	return w.fingerprint(f, name), nil
}
