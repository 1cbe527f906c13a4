// Package algebra is a model whose next token is a hash of everything that it attends over. One wrong byte in any page
// changes every answer that depends on it, and what is right can be computed from the prompt alone ([Model.Answer]), so
// tests of schedulers, transfers and pools are exact, and a thousand times faster than with a transformer.
//
// It is an engine.Runner like the real one and treats pages as the real one does: it checks every sequence, writes K and V
// through kv.Append into the pages, reads every byte of every page that a sequence holds in each step, takes the sums of
// exactly what it read and has them compared before anything leaves.
//
// # The model
//
// K and V of a token are random numbers whose seed is a hash of the token, its position and the digest of all that stands
// before it, as read. The digest is the sum over positions of a hash of the position and of all its K and V in all layers
// and heads. The logits are random numbers whose seed is a hash of the digest.
//
// So results depend on nothing but the tokens: not on pages, chunks or on who shares a step. That is the batch invariance
// that the real engine promises.
package algebra

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

// Model is a runner. Like every runner it is for one call at a time, Answer and Logits included.
type Model struct {
	layout bulkhead.Layout
	vocab  int
	seed   uint64

	logits [][]float32 // by place in the step; valid until the next
	kv     []uint16    // K and V of one token in one layer and head
	seen   []byte      // a copy of the page being read

	interrupt func() // see Interrupt
}

// Interrupt has f called in the middle of every step, several times a work: after its sequence was checked, after its tokens
// were written, before each page is read, and before the sums are compared. It is for tests that change memory there.
func (m *Model) Interrupt(f func()) { m.interrupt = f }

func (m *Model) pause() {
	if m.interrupt != nil {
		m.interrupt()
	}
}

// New makes a model. Different seeds are different models. Vocabulary ids go from 0 to vocab-1.
func New(layout bulkhead.Layout, vocab int, seed uint64) *Model {
	if err := layout.Check(); err != nil {
		panic(err)
	}
	return &Model{layout: layout, vocab: vocab, seed: seed, kv: make([]uint16, 2*layout.HeadSize),
		seen: make([]byte, layout.PageBytes())}
}

// Small is a layout that makes the model fast: 2 layers, 2 KV heads of 4 dimensions.
func Small(pageTokens int) bulkhead.Layout {
	return bulkhead.Layout{Layers: 2, KVHeads: 2, HeadSize: 4, PageTokens: pageTokens}
}

// Info describes the model as the real one does.
func (m *Model) Info() engine.Info {
	id := fmt.Sprintf("algebra %d %d", m.vocab, m.seed)
	return engine.Info{
		Name: "algebra", Arch: "algebra", Fingerprint: sha256.Sum256([]byte(id)), Window: 1 << 30, Vocab: m.vocab,
		Layers: m.layout.Layers, KVHeads: m.layout.KVHeads, HeadSize: m.layout.HeadSize, Kernels: "go", Threads: 1,
	}
}

// mix is one round of a 64-bit hash.
func mix(h, v uint64) uint64 {
	h ^= v + 0x9e3779b97f4a7c15 + h<<6 + h>>2
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// stream is the random numbers that follow from a seed.
type stream uint64

func (s *stream) next() uint64 {
	*s = stream(mix(uint64(*s), 1))
	return uint64(*s)
}

// values are K and V of one token in one layer and head.
func (m *Model) values(digest uint64, t bulkhead.Token, pos, layer, head int) (k, v []uint16) {
	s := stream(mix(mix(mix(m.seed, digest), uint64(uint32(t))<<32|uint64(uint32(pos))), uint64(layer)<<32|uint64(head)))
	for i := range m.kv {
		m.kv[i] = uint16(s.next())
	}
	return m.kv[:m.layout.HeadSize], m.kv[m.layout.HeadSize:]
}

// term is what one layer and head of one position adds to the digest.
func (m *Model) term(pos, layer, head int, k, v []uint16) uint64 {
	h := mix(uint64(pos), uint64(layer)<<32|uint64(head))
	for _, x := range k {
		h = mix(h, uint64(x))
	}
	for _, x := range v {
		h = mix(h, uint64(x)+1<<16)
	}
	return h
}

// fill writes the logits that follow from a digest.
func (m *Model) fill(logits []float32, digest uint64) {
	s := stream(mix(digest, m.seed))
	for i := range logits {
		logits[i] = float32(s.next()>>40) / (1 << 20) // 0 to 16
	}
}

// Logits are what the model answers to tokens, from the tokens alone.
func (m *Model) Logits(tokens []bulkhead.Token) []float32 {
	logits := make([]float32, m.vocab)
	m.fill(logits, m.extend(0, 0, tokens))
	return logits
}

// extend is the digest after more tokens, the first of them at position start.
func (m *Model) extend(digest uint64, start int, more []bulkhead.Token) uint64 {
	for i, t := range more {
		pos, d := start+i, digest
		for layer := range m.layout.Layers {
			for head := range m.layout.KVHeads {
				k, v := m.values(d, t, pos, layer, head)
				digest += m.term(pos, layer, head, k, v)
			}
		}
	}
	return digest
}

// Answer is what the model must answer to a prompt: tokens as choose draws them from the logits, until it says that it is
// enough. It is the reference for tests.
func (m *Model) Answer(prompt []bulkhead.Token, choose func(logits []float32) (t bulkhead.Token, more bool)) []bulkhead.Token {
	logits := make([]float32, m.vocab)
	var answer []bulkhead.Token
	digest := m.extend(0, 0, prompt)
	for n := len(prompt); ; n++ {
		m.fill(logits, digest)
		t, more := choose(logits)
		answer = append(answer, t)
		if !more {
			return answer
		}
		digest = m.extend(digest, n, answer[len(answer)-1:])
	}
}

func half(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
