package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-llm/bulkhead/engine/arch"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
)

// model is what engines over the same file share. It is not changed after it is loaded.
//
// Weights lie packed in one piece of memory outside the Go heap; rows of the embedding are read from the file, which stays
// mapped.
type model struct {
	file *gguf.File
	spec *arch.Spec
	info Info

	embedding     *gguf.Tensor
	embeddingType *kernel.Type
	layers        []layer
	outputNorm    []float32
	output        kernel.Weight
	frequencies   []float64 // of rope, by pair
	ropeScale     float64   // of what has turned
	scale         float32   // of scores

	release func()
	users   atomic.Int32 // engines
}

// layer is the weights of one layer.
type layer struct {
	attnNorm, ffnNorm []float32
	q, k, v, o        kernel.Weight
	gate, up, down    kernel.Weight
}

// loader collects what a model takes from its file. Tensors are found and checked first, all of them; only then is memory
// allocated and filled.
type loader struct {
	file    *gguf.File
	used    map[string]bool
	packs   []pack
	bytes   int
	params  int64
	byType  map[string]int64
	problem error
}

// pack is a matrix to be packed.
type pack struct {
	to   *kernel.Weight
	from *gguf.Tensor
	at   int // in memory
}

func (l *loader) fail(format string, args ...any) {
	if l.problem == nil {
		l.problem = fmt.Errorf(format, args...)
	}
}

// find finds a tensor and checks its shape, the length of a row first.
func (l *loader) find(name string, shape ...int) *gguf.Tensor {
	t, ok := l.file.Tensor(name)
	if !ok {
		l.fail("tensor %q is missing, wanted %v", name, shape)
		return nil
	}
	dims := t.Dims
	for len(dims) > len(shape) && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	if !slices.Equal(dims, shape) {
		l.fail("tensor %q has the shape %v, wanted %v", name, t.Dims, shape)
		return nil
	}
	if _, err := weightType(t); err != nil {
		l.fail("%w", err)
		return nil
	}
	if !l.used[name] {
		l.params += int64(t.Elements())
	}
	l.used[name] = true
	return t
}

// vector is a tensor of one dimension, widened.
func (l *loader) vector(name string, n int) []float32 {
	t := l.find(name, n)
	if t == nil {
		return nil
	}
	k, _ := weightType(t)
	v := make([]float32, n)
	k.Row(v, t.Data)
	return v
}

// matrix notes a matrix to be packed into w.
func (l *loader) matrix(w *kernel.Weight, name string, rows, cols int) {
	t := l.find(name, cols, rows)
	if t == nil {
		return
	}
	k, _ := weightType(t)
	*w = kernel.Weight{Type: k, Rows: rows, Cols: cols}
	l.packs = append(l.packs, pack{to: w, from: t, at: l.bytes})
	l.bytes += (k.PackedBytes(rows, cols) + mem.Align - 1) / mem.Align * mem.Align
	l.byType[k.Name] += int64(t.Elements())
}

// collect finds everything that the model takes.
func (m *model) collect(l *loader) error {
	s, n := m.spec, m.spec.Names
	m.embedding = l.find(n.Embedding, s.Dim, s.Vocab)
	m.outputNorm = l.vector(n.OutputNorm, s.Dim)
	output := n.Output
	if _, ok := l.file.Tensor(output); !ok {
		output = n.Embedding // tied
	}
	l.matrix(&m.output, output, s.Vocab, s.Dim)
	if l.problem != nil {
		return l.problem
	}
	m.embeddingType, _ = weightType(m.embedding)
	if s.Layers > len(l.file.Tensors()) {
		return fmt.Errorf("%d layers in a file of %d tensors", s.Layers, len(l.file.Tensors()))
	}
	m.layers = make([]layer, s.Layers)
	for i := range m.layers {
		m.layers[i].collect(l, s, i)
	}
	m.frequencies, m.ropeScale = frequencies(l, s)
	if l.problem != nil {
		return l.problem
	}
	return l.leftOver(s)
}

func (y *layer) collect(l *loader, s *arch.Spec, i int) {
	name := func(format string) string { return fmt.Sprintf(format, i) }
	n, q, kv := s.Names, s.Heads*s.HeadSize, s.KVHeads*s.HeadSize
	y.attnNorm = l.vector(name(n.AttnNorm), s.Dim)
	l.matrix(&y.q, name(n.Q), q, s.Dim)
	l.matrix(&y.k, name(n.K), kv, s.Dim)
	l.matrix(&y.v, name(n.V), kv, s.Dim)
	l.matrix(&y.o, name(n.O), s.Dim, q)
	y.ffnNorm = l.vector(name(n.FFNNorm), s.Dim)
	l.matrix(&y.gate, name(n.Gate), s.Hidden, s.Dim)
	l.matrix(&y.up, name(n.Up), s.Hidden, s.Dim)
	l.matrix(&y.down, name(n.Down), s.Dim, s.Hidden)
}

// leftOver refuses a file with tensors that nobody took: they would change the results, so without them those are wrong.
func (l *loader) leftOver(s *arch.Spec) error {
	for _, name := range s.Names.Ignored {
		for i := range s.Layers {
			l.used[strings.Replace(name, "%d", fmt.Sprint(i), 1)] = true
		}
	}
	for _, t := range l.file.Tensors() {
		if !l.used[t.Name] {
			return fmt.Errorf("tensor %q (%v %v) has no place in this architecture", t.Name, t.Type, t.Dims)
		}
	}
	return nil
}

// quantization is the type of most weights.
func (l *loader) quantization() string {
	best := ""
	for _, t := range kernel.Types() {
		if best == "" || l.byType[t.Name] > l.byType[best] {
			best = t.Name
		}
	}
	return best
}
