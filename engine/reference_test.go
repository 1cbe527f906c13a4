package engine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// reference is the transformer by the book, in float64 and token by token, with K and V in full.
type reference struct {
	f                                         *gguf.File
	layers, dim, heads, kvHeads, size, hidden int
	angles                                    []float64 // by pair, from position to position
	scale                                     float64   // of what has turned
}

func newReference(t *testing.T, data []byte) *reference {
	t.Helper()
	f, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	n := func(key string) int {
		v, err := f.Uint32("llama." + key)
		if err != nil {
			t.Fatal(err)
		}
		return int(v)
	}
	x := func(fallback float32, key string) float64 {
		v, _ := gguf.Or(fallback)(f.Float32("llama." + key))
		return float64(v)
	}
	m := &reference{f: f, layers: n("block_count"), dim: n("embedding_length"), heads: n("attention.head_count"),
		kvHeads: n("attention.head_count_kv"), size: n("attention.key_length"), hidden: n("feed_forward_length"),
		scale: 1}
	base, factor := x(10000, "rope.freq_base"), x(1, "rope.scaling.factor")
	for i := range m.size / 2 {
		angle := math.Pow(base, -2*float64(i)/float64(m.size))
		if kind, _ := f.String("llama.rope.scaling.type"); kind == "yarn" {
			// of 16 dimensions and a window of 300, pair 0.35 turns 32 times and pair 3.36 once: mixed from 0 to 4
			stretched := min(1, float64(i)/4)
			angle = angle*(1-stretched) + angle/factor*stretched
			m.scale = 1 + 0.1*math.Log(factor)
		} else {
			angle /= factor
		}
		m.angles = append(m.angles, angle)
	}
	if _, ok := f.Tensor("rope_freqs.weight"); ok {
		for i, stretched := range m.tensor("rope_freqs.weight") {
			m.angles[i] /= stretched
		}
	}
	return m
}

func (m *reference) tensor(name string) []float64 {
	t, _ := m.f.Tensor(name)
	x := make([]float64, t.Elements())
	for i := range x {
		x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	}
	return x
}

func mul(w, x []float64) []float64 {
	y := make([]float64, len(w)/len(x))
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
	}
	return y
}

func norm(x, w []float64) []float64 {
	var mean float64
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(mean+1e-5) * w[i]
	}
	return y
}

func (m *reference) turn(x []float64, pos int) {
	for h := 0; h < len(x); h += m.size {
		for i := range m.size / 2 {
			angle := float64(pos) * m.angles[i]
			a, b := x[h+2*i]*m.scale, x[h+2*i+1]*m.scale
			x[h+2*i], x[h+2*i+1] = a*math.Cos(angle)-b*math.Sin(angle), a*math.Sin(angle)+b*math.Cos(angle)
		}
	}
}

// logits are those after the last token.
func (m *reference) logits(tokens []bulkhead.Token) []float64 {
	keys, values := make([][][]float64, m.layers), make([][][]float64, m.layers)
	embedding := m.tensor("token_embd.weight")
	var x []float64
	for pos, t := range tokens {
		x = append([]float64{}, embedding[int(t)*m.dim:][:m.dim]...)
		for l := range m.layers {
			w := func(s string) []float64 { return m.tensor(fmt.Sprintf("blk.%d.%s.weight", l, s)) }
			in := norm(x, w("attn_norm"))
			q, k := mul(w("attn_q"), in), mul(w("attn_k"), in)
			m.turn(q, pos)
			m.turn(k, pos)
			keys[l], values[l] = append(keys[l], k), append(values[l], mul(w("attn_v"), in))
			add(x, mul(w("attn_output"), m.attend(q, keys[l], values[l])))
			in = norm(x, w("ffn_norm"))
			gate, up := mul(w("ffn_gate"), in), mul(w("ffn_up"), in)
			for i, g := range gate {
				up[i] *= g / (1 + math.Exp(-g))
			}
			add(x, mul(w("ffn_down"), up))
		}
	}
	output := "output.weight"
	if _, ok := m.f.Tensor(output); !ok {
		output = "token_embd.weight"
	}
	return mul(m.tensor(output), norm(x, m.tensor("output_norm.weight")))
}

func (m *reference) attend(q []float64, keys, values [][]float64) []float64 {
	out := make([]float64, len(q))
	for h := range m.heads {
		at := h / (m.heads / m.kvHeads) * m.size
		weights, total := make([]float64, len(keys)), 0.0
		for i, k := range keys {
			var score float64
			for d := range m.size {
				score += q[h*m.size+d] * k[at+d]
			}
			weights[i] = math.Exp(score / math.Sqrt(float64(m.size)))
			total += weights[i]
		}
		for i, v := range values {
			for d := range m.size {
				out[h*m.size+d] += weights[i] / total * v[at+d]
			}
		}
	}
	return out
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}

// Every shape and key that changes the result, against the book.
func TestAgainstReference(t *testing.T) {
	factors := make([]byte, 0, 32)
	for i := range 8 {
		factors = binary.LittleEndian.AppendUint32(factors, math.Float32bits(1+float32(i)))
	}
	for name, m := range map[string]enginetest.Model{
		"tied, grouped":     {},
		"untied":            {Untied: true},
		"one head for each": {KVHeads: 4},
		"one head for all":  {KVHeads: 1},
		"large heads":       {HeadSize: 80},
		"odd heads":         {Heads: 3, KVHeads: 3, HeadSize: 20, Hidden: 50, Vocab: 33},
		"one layer":         {Layers: 1},
		"rope base":         {Edit: func(w *gguf.Writer) { w.Set("llama.rope.freq_base", float32(500)) }},
		"rope scaled":       {Edit: func(w *gguf.Writer) { w.Set("llama.rope.scaling.factor", float32(4)) }},
		"rope scaled, by type": {Edit: func(w *gguf.Writer) {
			w.Set("llama.rope.scaling.factor", float32(4))
			w.Set("llama.rope.scaling.type", "linear")
		}},
		"rope scaled by YaRN": {Edit: func(w *gguf.Writer) {
			w.Set("llama.rope.scaling.type", "yarn")
			w.Set("llama.rope.scaling.factor", float32(8))
			w.Set("llama.rope.scaling.original_context_length", uint32(300))
		}},
		"rope factors, as llama 3.1": {Edit: func(w *gguf.Writer) { w.Add("rope_freqs.weight", gguf.F32, []int{8}, factors) }},
	} {
		t.Run(name, func(t *testing.T) {
			m.Seed = 11
			data := m.GGUF(t)
			e := load(t, data, engine.Options{Threads: 2})
			s := serve(t, e, 16, 128)
			tokens := randomTokens(1, 60, e.Info().Vocab)
			seq := s.begin(nil, len(tokens))
			s.step(engine.Work{Seq: seq, Tokens: tokens[:41]})
			got := s.step(engine.Work{Seq: seq, Tokens: tokens[41:], Logits: true})[0].Logits
			want := newReference(t, data).logits(tokens)
			var off, size float64
			for i := range want {
				off, size = max(off, math.Abs(float64(got[i])-want[i])), max(size, math.Abs(want[i]))
			}
			if !(off < 2e-3*size) { // K and V are F16
				t.Errorf("off by %v of %v", off, size)
			}
		})
	}
}
