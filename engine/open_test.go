package engine_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// with is a model with a key set, or changed.
func with(key string, value any) enginetest.Model {
	return enginetest.Model{Edit: func(w *gguf.Writer) { w.Set(key, value) }}
}

// withTensor is a model with one more tensor, of zeros.
func withTensor(name string, kind gguf.Type, bytes int, dims ...int) enginetest.Model {
	return enginetest.Model{Edit: func(w *gguf.Writer) { w.Add(name, kind, dims, make([]byte, bytes)) }}
}

// What cannot run is refused with what was found and what would do.
func TestRefusals(t *testing.T) {
	kquant := withTensor("output.weight", 12, 144*80, 256, 80)
	kquant.Heads = 16
	for want, m := range map[string]enginetest.Model{
		`architecture "qwen9" is not supported: supported are llama`:            with("general.architecture", "qwen9"),
		`"general.architecture": found uint32 1, wanted string`:                 with("general.architecture", uint32(1)),
		`a mixture of 8 experts is not supported`:                               with("llama.expert_count", uint32(8)),
		`rope scaling "longrope" is not supported: supported are none, linear`:  with("llama.rope.scaling.type", "longrope"),
		`keys of 16 and values of 32 dimensions are not supported`:              with("llama.attention.value_length", uint32(32)),
		`a sliding window of 128 tokens is not supported`:                       with("llama.attention.sliding_window", uint32(128)),
		`"llama.block_count": found string, wanted an integer`:                  with("llama.block_count", "3"),
		`tensor "blk.3.attn_norm.weight" is missing, wanted [64]`:               with("llama.block_count", uint32(4)),
		`1000000 layers in a file of`:                                           with("llama.block_count", uint32(1000000)),
		`tensor "blk.2.attn_norm.weight" (F32 [64]) has no place`:               with("llama.block_count", uint32(2)),
		`tensor "blk.0.ffn_gate.weight" has the shape [64 96], wanted [64 100]`: with("llama.feed_forward_length", uint32(100)),
		`tensor "token_embd.weight" has the shape [64 80], wanted [128 80]`:     with("llama.embedding_length", uint32(128)),
		`4 heads do not share 3 KV heads evenly`:                                with("llama.attention.head_count_kv", uint32(3)),
		`layers that differ are not supported`:                                  with("llama.attention.head_count_kv", []int32{2, 2, 1}),
		`llama.feed_forward_length: an empty array`:                             with("llama.feed_forward_length", []int32{}),
		`feed-forward length 0: each must be at least 1`:                        with("llama.feed_forward_length", uint32(0)),
		`head size 15, must be even`:                                            {HeadSize: 15},
		`18 dimensions of 16 turn`:                                              with("llama.rope.dimension_count", uint32(18)),
		`epsilon 0, must be between 0 and 1`:                                    with("llama.attention.layer_norm_rms_epsilon", float32(0)),
		`llama.rope.scaling.yarn_ext_factor is not supported`: {Edit: func(w *gguf.Writer) {
			w.Set("llama.rope.scaling.type", "yarn")
			w.Set("llama.rope.scaling.yarn_ext_factor", float32(1))
		}},
		`YaRN with {Factor:-2 Original:4096`: {Edit: func(w *gguf.Writer) {
			w.Set("llama.rope.scaling.type", "yarn")
			w.Set("llama.rope.scaling.factor", float32(-2))
		}},
		`rope base NaN`: with("llama.rope.freq_base", float32(math.NaN())),
		`tensor "blk.0.attn_q.bias" (F32 [64]) has no place`:                                                           withTensor("blk.0.attn_q.bias", gguf.F32, 256, 64),
		`tensor "rope_freqs.weight" has a factor of 0`:                                                                 withTensor("rope_freqs.weight", gguf.F32, 32, 8),
		`tensor "output.weight" has type Q4_K, which is not supported: supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1`: kquant,
	} {
		_, err := engine.Load(m.GGUF(t), engine.Options{Threads: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := engine.Load(enginetest.Model{}.GGUF(t), engine.Options{Kernels: "abacus"}); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("kernels that there are not: %v", err)
	}
}

// A model opens from a file as from memory, its weights outlive the engine that opened it, and nothing is left behind.
func TestOpenShareClose(t *testing.T) {
	defer goleak.VerifyNone(t)
	data := enginetest.Model{Seed: 3, Type: gguf.Q4_0, Untied: true}.GGUF(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Open(path+"x", engine.Options{}); err == nil {
		t.Error("a file that is not there was opened")
	}
	var done, total int64
	e, err := engine.Open(path, engine.Options{Threads: 2, Progress: func(d, n int64) { done, total = d, n }})
	if err != nil {
		t.Fatal(err)
	}
	if done != total || done < int64(len(data)) {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	tokens := randomTokens(1, 30, e.Info().Vocab)
	want := alone(t, e, 16, tokens, 30)
	twin, err := e.Share(engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
	if alone(t, twin, 16, tokens, 7) != want {
		t.Error("other logits from an engine over the same weights")
	}
	info := twin.Info()
	if info.Name != "random" || info.Arch != "llama" || info.Window != 4096 || info.Quantization != "Q4_0" || info.Threads != 1 || info.Params < 80000 {
		t.Errorf("%+v", info)
	}
	twin.Close()
}

// The fingerprint is over what decides KV: weights and the architecture's metadata, and not names.
func TestFingerprint(t *testing.T) {
	print := func(m enginetest.Model) [32]byte {
		return load(t, m.GGUF(t), engine.Options{Threads: 2}).Info().Fingerprint
	}
	base := print(enginetest.Model{})
	if print(with("general.name", "another name")) != base {
		t.Error("the name counts")
	}
	for what, m := range map[string]enginetest.Model{
		"weights":   {Seed: 1},
		"type":      {Type: gguf.Q8_0},
		"rope base": with("llama.rope.freq_base", float32(500)),
	} {
		if p := print(m); bytes.Equal(p[:], base[:]) {
			t.Errorf("%s do not count", what)
		}
	}
}

// No step allocates once it has run with such works before.
func TestNoAllocation(t *testing.T) {
	e := load(t, enginetest.Model{Type: gguf.Q8_0}.GGUF(t), engine.Options{Threads: 2})
	s := serve(t, e, 16, 4096)
	tokens := randomTokens(1, 600, e.Info().Vocab)
	work := make([]engine.Work, 3)
	for i := range work {
		seq := s.begin(nil, 1000)
		s.step(engine.Work{Seq: seq, Tokens: tokens[:100*i+350]})
		work[i] = engine.Work{Seq: seq, Tokens: tokens[:1], Logits: i != 1}
	}
	results := make([]engine.Result, len(work))
	step := func() {
		e.Step(work, results)
		if results[0].Violation != nil {
			t.Fatal(results[0].Violation)
		}
	}
	for range 100 { // past page and segment borders
		step()
	}
	if n := testing.AllocsPerRun(100, step); n >= 1 && !race {
		t.Errorf("%v allocations a step", n)
	}
}

// Works that no correct caller hands over.
func TestBugsPanic(t *testing.T) {
	e := load(t, enginetest.Model{}.GGUF(t), engine.Options{Threads: 1})
	other := load(t, enginetest.Model{KVHeads: 4}.GGUF(t), engine.Options{Threads: 1})
	s, foreign, wide := serve(t, e, 16, 64), serve(t, other, 16, 64), serve(t, e, 32, 64)
	for name, work := range map[string][]engine.Work{
		"no tokens":        {{Seq: s.begin(nil, 16)}},
		"a token too high": {{Seq: s.begin(nil, 16), Tokens: []bulkhead.Token{80}}},
		"a negative token": {{Seq: s.begin(nil, 16), Tokens: []bulkhead.Token{-1}}},
		"another model":    {{Seq: foreign.begin(nil, 16), Tokens: []bulkhead.Token{1}}},
		"two page sizes":   {{Seq: s.begin(nil, 16), Tokens: []bulkhead.Token{1}}, {Seq: wide.begin(nil, 16), Tokens: []bulkhead.Token{1}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			e.Step(work, make([]engine.Result, len(work)))
		}()
	}
}
