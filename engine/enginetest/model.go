// Package enginetest makes small models with random weights, for tests that need the real engine and no file.
package enginetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-llm/bulkhead/engine/convert"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// Model says what a small llama model looks like. The zero value of a field means what its comment says.
type Model struct {
	Seed     uint64
	Type     gguf.Type // of matrices; the zero value is F32
	Layers   int       // 3
	Heads    int       // 4
	KVHeads  int       // 2
	HeadSize int       // 16
	Hidden   int       // 96
	Vocab    int       // 80
	Window   int       // 4096
	Untied   bool      // with an output matrix of its own
	Edit     func(*gguf.Writer)
}

func (m *Model) defaults() {
	for _, d := range []struct {
		field *int
		value int
	}{{&m.Layers, 3}, {&m.Heads, 4}, {&m.KVHeads, 2}, {&m.HeadSize, 16}, {&m.Hidden, 96}, {&m.Vocab, 80}, {&m.Window, 4096}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

// GGUF is the model's file.
func (m Model) GGUF(t testing.TB) []byte {
	t.Helper()
	m.defaults()
	w := gguf.NewWriter()
	m.metadata(w)
	m.tensors(w)
	if m.Edit != nil {
		m.Edit(w)
	}
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (m Model) metadata(w *gguf.Writer) {
	w.Set("general.architecture", "llama")
	w.Set("general.name", "random")
	for key, n := range map[string]int{
		"context_length": m.Window, "embedding_length": m.dim(), "block_count": m.Layers, "feed_forward_length": m.Hidden,
		"attention.head_count": m.Heads, "attention.head_count_kv": m.KVHeads, "attention.key_length": m.HeadSize,
		"attention.value_length": m.HeadSize, "rope.dimension_count": m.HeadSize,
	} {
		w.Set("llama."+key, uint32(n))
	}
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
}

func (m Model) dim() int { return m.Heads * m.HeadSize }

func (m Model) tensors(w *gguf.Writer) {
	r := rand.New(rand.NewPCG(m.Seed, 1))
	matrix := func(name string, rows, cols int) {
		x := make([]float32, rows*cols)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(cols)) * 1.5)
		}
		w.Add(name, m.Type, []int{cols, rows}, convert.Quantize(m.Type, x))
	}
	norm := func(name string) {
		var b []byte
		for range m.dim() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(1+0.2*r.NormFloat64())))
		}
		w.Add(name, gguf.F32, []int{m.dim()}, b)
	}
	dim, q, kv := m.dim(), m.Heads*m.HeadSize, m.KVHeads*m.HeadSize
	matrix("token_embd.weight", m.Vocab, dim)
	norm("output_norm.weight")
	if m.Untied {
		matrix("output.weight", m.Vocab, dim)
	}
	for i := range m.Layers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		norm(name("attn_norm"))
		matrix(name("attn_q"), q, dim)
		matrix(name("attn_k"), kv, dim)
		matrix(name("attn_v"), kv, dim)
		matrix(name("attn_output"), dim, q)
		norm(name("ffn_norm"))
		matrix(name("ffn_gate"), m.Hidden, dim)
		matrix(name("ffn_up"), m.Hidden, dim)
		matrix(name("ffn_down"), dim, m.Hidden)
	}
}
