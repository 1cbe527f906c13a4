package engine_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// Whatever a file says, it is refused or it runs: a step over it neither panics nor reports a violation. The bytes of a
// header as such are for the fuzzer of package gguf; here two places of good files are changed.
func FuzzLoad(f *testing.F) {
	var files [][]byte
	for _, kind := range []gguf.Type{gguf.F32, gguf.Q8_0, gguf.Q4_1} {
		m := enginetest.Model{Type: kind, Layers: 1, Heads: 2, KVHeads: 1, HeadSize: 16, Hidden: 32, Vocab: 4}
		files = append(files, m.GGUF(f))
		m.Edit = func(w *gguf.Writer) {
			w.Set("llama.rope.scaling.type", "linear")
			w.Set("llama.rope.scaling.factor", float32(2))
			w.Set("llama.rope.freq_base", float32(1e4))
			w.Set("llama.expert_count", uint32(0))
			w.Add("rope_freqs.weight", gguf.F32, []int{8}, make([]byte, 32))
		}
		files = append(files, m.GGUF(f))
	}
	for i := range files {
		f.Add(byte(i), uint16(90), uint32(3), uint16(1200), uint32(0xff00))
	}
	f.Fuzz(func(t *testing.T, file byte, at uint16, x uint32, at2 uint16, x2 uint32) {
		data := bytes.Clone(files[int(file)%len(files)])
		for _, c := range []struct {
			at uint16
			x  uint32
		}{{at, x}, {at2, x2}} {
			b := data[int(c.at)%(len(data)-4):]
			binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)^c.x)
		}
		e, err := engine.Load(data, engine.Options{Threads: 1, MaxRows: 8})
		if err != nil {
			return
		}
		defer e.Close()
		if l := e.Layout(16); l.Check() != nil || l.PageBytes() > 1<<24 {
			return // the pool refuses it
		}
		s := serve(t, e, 16, 32)
		seq := s.begin(nil, 3)
		s.step(engine.Work{Seq: seq, Tokens: make([]bulkhead.Token, 3), Logits: true})
	})
}
