package worker

import (
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

// hollow is an engine that takes no time: it appends and answers one token, so that what is measured is the loop, the
// scheduler and the pool's books.
type hollow struct {
	info   engine.Info
	logits []float32
}

func (h *hollow) Info() engine.Info { return h.info }

func (h *hollow) Step(work []engine.Work, results []engine.Result) {
	for i, w := range work {
		if v := w.Seq.Check(); v != nil {
			results[i].Violation = v
			continue
		}
		a := w.Seq.Append(w.Tokens) // of zeros, whose sums are zero
		for layer := range h.info.Layers {
			for i := range w.Tokens {
				a.ExtendK(layer, i, 0)
				a.ExtendV(layer, i, 0)
			}
		}
		a.Done()
		if w.Logits {
			results[i].Logits = h.logits
		}
	}
}

// What the loops cost a token, with eight requests running.
func BenchmarkLoop(b *testing.B) {
	l := limitsFor(4096, 40960, 40960)
	l.Running = 8
	info := newModel().Info()
	p, err := NewPair(Config{Runner: &hollow{info, make([]float32, vocab)}, Layout: layout, Limits: l})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	var wg sync.WaitGroup
	for n := b.N; n > 0; n -= 8 * 1000 {
		for i := range 8 {
			a, _ := l.Admit(request("acme", words(2, uint64(i)), min(1000, bulkhead.Tokens(n/8+1))))
			s, refusal := p.Submit(a)
			if refusal != nil {
				b.Fatal(refusal)
			}
			wg.Go(func() { read(b, s) })
		}
		wg.Wait()
	}
}
