package engine

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
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
