// Package arch is what the engine has to know about a model before it loads the weights: what an architecture's file reads
// out of a GGUF's metadata.
package arch

import (
	"errors"
	"fmt"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// Spec describes a decoder of the pre-norm kind: in every layer RMS norm, attention with grouped queries and rotary
// positions, RMS norm, gated feed-forward.
type Spec struct {
	Window   int // tokens that the model was trained for
	Vocab    int
	Layers   int
	Dim      int // of the residual stream
	Heads    int // query heads
	KVHeads  int
	HeadSize int
	Hidden   int // of the feed-forward
	Eps      float32
	Rope     Rope
	Names    Names
}

// Rope says how queries and keys are turned by their position.
type Rope struct {
	Halves bool    // pairs (i, i+Dims/2); else adjacent ones
	Dims   int     // dimensions of a head that turn
	Base   float32 // of the frequencies
	Linear float32 // positions are divided by it; 1 for none
	Yarn   *Yarn   // nil for none
}

// Yarn stretches a window by a factor: pairs of dimensions that turn fast within the original window keep their frequency,
// slow ones are divided by the factor, and those between are mixed. https://arxiv.org/abs/2309.00071, as ggml does it.
type Yarn struct {
	Factor     float32
	Original   int     // the window before it
	Fast, Slow float32 // turns within the original window from which, and up to which
	Attn       float32 // queries and keys are multiplied by Attn * (1 + ln(Factor)/10)
}

// Names are the names of tensors. Those of a layer have a %d for its number.
type Names struct {
	Embedding, OutputNorm, Output string // without Output, the embedding serves
	AttnNorm, Q, K, V, O          string
	FFNNorm, Gate, Up, Down       string
	RopeFactors                   string   // optional: frequency i is divided by its factor i
	Ignored                       []string // may be in a file and change nothing
}

// Check refuses a spec that no model has.
func (s *Spec) Check() error {
	const most = 1 << 20
	for _, d := range []struct {
		what string
		n    int
	}{
		{"context length", s.Window >> 10}, {"vocabulary", s.Vocab >> 4}, {"layers", s.Layers}, {"embedding length", s.Dim},
		{"heads", s.Heads}, {"KV heads", s.KVHeads}, {"head size", s.HeadSize}, {"feed-forward length", s.Hidden},
	} {
		if d.n > most {
			return fmt.Errorf("%s is too large", d.what)
		}
	}
	switch {
	case s.Window < 1 || s.Vocab < 1 || s.Layers < 1 || s.Dim < 1 || s.Heads < 1 || s.KVHeads < 1 || s.Hidden < 1:
		return fmt.Errorf("context length %d, vocabulary %d, layers %d, embedding length %d, heads %d, KV heads %d, "+
			"feed-forward length %d: each must be at least 1", s.Window, s.Vocab, s.Layers, s.Dim, s.Heads, s.KVHeads, s.Hidden)
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads do not share %d KV heads evenly", s.Heads, s.KVHeads)
	case s.HeadSize < 2 || s.HeadSize%2 != 0:
		return fmt.Errorf("head size %d, must be even", s.HeadSize)
	case s.Rope.Dims < 0 || s.Rope.Dims > s.HeadSize || s.Rope.Dims%2 != 0:
		return fmt.Errorf("%d dimensions of %d turn, must be even and not more", s.Rope.Dims, s.HeadSize)
	case !(s.Eps > 0 && s.Eps < 1):
		return fmt.Errorf("RMS norm epsilon %v, must be between 0 and 1", s.Eps)
	case s.Rope.Yarn != nil && !s.Rope.Yarn.sound():
		return fmt.Errorf("YaRN with %+v: numbers must be positive", *s.Rope.Yarn)
	case !(s.Rope.Base > 0) || !(s.Rope.Linear > 0) || s.Rope.Base > 1e30 || s.Rope.Linear > 1e30:
		return fmt.Errorf("rope base %v and scale %v, must be positive", s.Rope.Base, s.Rope.Linear)
	}
	return nil
}

func (y *Yarn) sound() bool {
	ok := y.Original > 0
	for _, x := range []float32{y.Factor, y.Fast, y.Slow, y.Attn} {
		ok = ok && x > 0 && x < 1e6
	}
	return ok
}

// Keys reads metadata under an architecture's prefix and keeps the first error, so that a file of an architecture reads
// one key a line.
type Keys struct {
	File *gguf.File
	Arch string
	Err  error
}

func (k *Keys) keep(err error) {
	if k.Err == nil {
		k.Err = err
	}
}

// Int is a number that must be there.
func (k *Keys) Int(key string) int {
	n, err := k.File.Uint32(k.Arch + "." + key)
	k.keep(err)
	return int(min(n, 1<<31-1))
}

// IntOr is a number that may be missing.
func (k *Keys) IntOr(fallback int, key string) int {
	n, err := gguf.Or(uint32(fallback))(k.File.Uint32(k.Arch + "." + key))
	k.keep(err)
	return int(min(n, 1<<31-1))
}

// FloatOr is a number that may be missing.
func (k *Keys) FloatOr(fallback float32, key string) float32 {
	x, err := gguf.Or(fallback)(k.File.Float32(k.Arch + "." + key))
	k.keep(err)
	return x
}

// Float is a number that must be there.
func (k *Keys) Float(key string) float32 {
	x, err := k.File.Float32(k.Arch + "." + key)
	k.keep(err)
	return x
}

// StringOr is a string that may be missing.
func (k *Keys) StringOr(fallback, key string) string {
	s, err := gguf.Or(fallback)(k.File.String(k.Arch + "." + key))
	k.keep(err)
	return s
}

// SameInt is a number that may be given for each layer, and must then be the same for all.
func (k *Keys) SameInt(fallback int, key string) int {
	full := k.Arch + "." + key
	v, ok := k.File.Value(full)
	if !ok || v.Kind != gguf.KindArray {
		return k.IntOr(fallback, key)
	}
	all, err := k.File.Int32s(full)
	if err == nil && len(all) == 0 {
		err = errors.New("gguf: key " + full + ": an empty array")
	}
	if err != nil {
		k.keep(err)
		return 0
	}
	for _, n := range all {
		if n != all[0] {
			k.Refuse("%s is %d in one layer and %d in another: layers that differ are not supported", full, all[0], n)
		}
	}
	return int(all[0])
}

// Refuse keeps an error about something that is not supported.
func (k *Keys) Refuse(format string, args ...any) { k.keep(fmt.Errorf(format, args...)) }
