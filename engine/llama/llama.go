// Package llama is the architecture "llama": Llama 2 and 3, Mistral, TinyLlama, SmolLM2 and whatever else is converted to
// it. Special about it: rope turns adjacent pairs (conversion has permuted the rows of q and k), Llama 3 stretches its
// frequencies by the factors in rope_freqs.weight, and there are no biases.
//
// The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
package llama

import (
	"github.com/bulkhead-llm/bulkhead/engine/arch"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// Name is what general.architecture says.
const Name = "llama"

var names = arch.Names{
	Embedding:  "token_embd.weight",
	OutputNorm: "output_norm.weight",
	Output:     "output.weight",

	AttnNorm: "blk.%d.attn_norm.weight",
	Q:        "blk.%d.attn_q.weight",
	K:        "blk.%d.attn_k.weight",
	V:        "blk.%d.attn_v.weight",
	O:        "blk.%d.attn_output.weight",

	FFNNorm: "blk.%d.ffn_norm.weight",
	Gate:    "blk.%d.ffn_gate.weight",
	Up:      "blk.%d.ffn_up.weight",
	Down:    "blk.%d.ffn_down.weight",

	RopeFactors: "rope_freqs.weight",
	Ignored:     []string{"blk.%d.attn_rot_embd"},
}

// Read reads the metadata of a file. Errors name the key, or what is not supported.
func Read(f *gguf.File) (*arch.Spec, error) {
	k := &arch.Keys{File: f, Arch: Name}
	s := &arch.Spec{
		Window: k.Int("context_length"),
		Layers: k.Int("block_count"),
		Dim:    k.Int("embedding_length"),
		Hidden: k.SameInt(0, "feed_forward_length"),
		Heads:  k.SameInt(0, "attention.head_count"),
		Eps:    k.Float("attention.layer_norm_rms_epsilon"),
		Names:  names,
	}
	s.KVHeads = k.SameInt(s.Heads, "attention.head_count_kv")
	s.HeadSize = k.IntOr(s.Dim/max(s.Heads, 1), "attention.key_length")
	s.Rope = arch.Rope{
		Dims:   k.IntOr(s.HeadSize, "rope.dimension_count"),
		Base:   k.FloatOr(10000, "rope.freq_base"),
		Linear: 1,
	}
	scale(k, s)
	if t, ok := f.Tensor(names.Embedding); ok {
		s.Vocab = t.Rows()
	}
	refuse(k, s)
	if k.Err == nil {
		k.Err = s.Check()
	}
	return s, k.Err
}

// scale reads how rope is scaled. A file that names a factor and no type means linear.
func scale(k *arch.Keys, s *arch.Spec) {
	factor := k.FloatOr(k.FloatOr(1, "rope.scale_linear"), "rope.scaling.factor")
	kind := k.StringOr("linear", "rope.scaling.type")
	switch {
	case kind == "none" || factor == 0:
	case kind == "linear":
		s.Rope.Linear = factor
	case kind == "yarn":
		s.Rope.Yarn = &arch.Yarn{
			Factor:   factor,
			Original: k.IntOr(s.Window, "rope.scaling.original_context_length"),
			Fast:     k.FloatOr(32, "rope.scaling.yarn_beta_fast"),
			Slow:     k.FloatOr(1, "rope.scaling.yarn_beta_slow"),
			Attn:     k.FloatOr(1, "rope.scaling.attn_factor"),
		}
		for _, key := range []string{"rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"} {
			if k.File.Has(Name + "." + key) {
				k.Refuse("%s.%s is not supported", Name, key)
			}
		}
	default:
		k.Refuse("rope scaling %q is not supported: supported are none, linear, yarn, and factors in %s", kind, names.RopeFactors)
	}
}

// refuse refuses what the forward pass does not do.
func refuse(k *arch.Keys, s *arch.Spec) {
	if n := k.IntOr(0, "expert_count"); n > 0 {
		k.Refuse("a mixture of %d experts is not supported: dense feed-forward only", n)
	}
	if v := k.IntOr(s.HeadSize, "attention.value_length"); v != s.HeadSize {
		k.Refuse("keys of %d and values of %d dimensions are not supported: they must be the same", s.HeadSize, v)
	}
	if w := k.IntOr(0, "attention.sliding_window"); w > 0 && w < s.Window {
		k.Refuse("a sliding window of %d tokens is not supported", w)
	}
}
