package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/kv"
)

var weightTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1}

func load(t testing.TB, data []byte, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Load(data, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func randomTokens(seed uint64, n, vocab int) []bulkhead.Token {
	r := rand.New(rand.NewPCG(seed, 2))
	tokens := make([]bulkhead.Token, n)
	for i := range tokens {
		tokens[i] = bulkhead.Token(r.IntN(vocab))
	}
	return tokens
}

// bits are the logits of the last token, to be compared exactly. Nothing random is that good: a NaN fails the test.
func bits(t testing.TB, logits []float32) string {
	t.Helper()
	b := make([]byte, 0, 4*len(logits))
	for _, l := range logits {
		if l != l {
			t.Fatal("a logit is NaN")
		}
		u := math.Float32bits(l)
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return string(b)
}

// alone computes tokens chunk by chunk in a pool of its own and gives the logits of the last.
func alone(t testing.TB, e *engine.Engine, pageTokens int, tokens []bulkhead.Token, chunk int) string {
	t.Helper()
	s := serve(t, e, pageTokens, len(tokens)+pageTokens)
	seq := s.begin(nil, len(tokens))
	defer seq.Release()
	for {
		n := min(chunk, len(tokens))
		r := s.step(engine.Work{Seq: seq, Tokens: tokens[:n], Logits: n == len(tokens)})
		if tokens = tokens[n:]; len(tokens) == 0 {
			return bits(t, r[0].Logits)
		}
	}
}

// The logits of a token are the same bits however the tokens before it came to be, for every type of weight and set of
// kernels, over the border of a segment.
func TestSameBitsHoweverCut(t *testing.T) {
	for _, kind := range weightTypes {
		data := enginetest.Model{Type: kind, Seed: 1, Untied: kind == gguf.Q8_0}.GGUF(t)
		for _, set := range kernel.All() {
			t.Run(fmt.Sprintf("%v/%s", kind, set.Name), func(t *testing.T) {
				e := load(t, data, engine.Options{Kernels: set.Name, Threads: 1})
				for _, n := range []int{1, 2, 37} {
					sameBits(t, e, data, n, []int{1, 2, 3}, []int{16, 32, 64}, []int{1, 2, 7, 16, 33, n})
				}
				if set.Name != "go" || kind == gguf.F32 || kind == gguf.Q4_1 {
					sameBits(t, e, data, 530, []int{3}, []int{16, 64}, []int{33, 128, 530})
				}
			})
		}
	}
}

func sameBits(t *testing.T, e *engine.Engine, data []byte, n int, threads, pageTokens, chunks []int) {
	t.Helper()
	tokens := randomTokens(uint64(n), n, e.Info().Vocab)
	want := alone(t, e, 32, tokens, n)
	for _, threads := range threads {
		e := load(t, data, engine.Options{Kernels: e.Info().Kernels, Threads: threads, MaxRows: 100 * threads})
		for _, pageTokens := range pageTokens {
			for _, chunk := range chunks {
				if alone(t, e, pageTokens, tokens, chunk) != want {
					t.Fatalf("%d tokens by %d, pages of %d, %d threads: other logits", n, chunk, pageTokens, threads)
				}
			}
		}
	}
}

// The same in company: sequences of different lengths that decode and prefill in the same steps, prefixes from the cache,
// and set back half way and computed again.
func TestSameBitsInCompany(t *testing.T) {
	for _, kind := range weightTypes {
		t.Run(kind.String(), func(t *testing.T) {
			data := enginetest.Model{Type: kind, Seed: 2}.GGUF(t)
			e := load(t, data, engine.Options{Threads: 2, MaxRows: 64})
			r := rand.New(rand.NewPCG(3, 4))
			s := serve(t, e, 16, 6000)
			var all [][]bulkhead.Token
			var want []string
			shared := randomTokens(9, 90, e.Info().Vocab)
			for i := range 6 {
				tokens := randomTokens(uint64(20+i), 1+r.IntN(600), e.Info().Vocab)
				if i%2 == 0 { // half of them begin alike
					tokens = append(shared[:r.IntN(90):90], tokens...)
				}
				all = append(all, tokens)
				want = append(want, alone(t, e, 32, tokens, len(tokens)))
			}
			for round := range 2 { // the second finds the first one's pages
				seqs := make([]*kv.Sequence, len(all))
				for i := range seqs {
					seqs[i] = s.begin(all[i][:len(all[i])-1], 1)
					if round == 1 && int(seqs[i].Len()) < (len(all[i])-1)/16*16 {
						t.Fatalf("sequence %d: %d tokens came from the cache", i, seqs[i].Len())
					}
				}
				rounds(t, s, r, all, want, seqs, round == 0)
			}
			if err := s.pool.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// rounds steps sequences in random company until all are done, and sets some back if it may.
func rounds(t *testing.T, s *server, r *rand.Rand, all [][]bulkhead.Token, want []string, seqs []*kv.Sequence, setBack bool) {
	t.Helper()
	for left := len(seqs); left > 0; {
		var work []engine.Work
		var who []int
		for i, seq := range seqs {
			if seq == nil || r.IntN(3) == 0 {
				continue
			}
			if setBack && r.IntN(10) == 0 {
				seq.Release()
				seqs[i] = s.begin(all[i][:0], len(all[i]))
				seq = seqs[i]
			}
			done := int(seq.Len())
			n := min(1+r.IntN(2)*r.IntN(150), len(all[i])-done)
			work = append(work, engine.Work{Seq: seq, Tokens: all[i][done : done+n], Logits: done+n == len(all[i]) || r.IntN(2) == 0})
			who = append(who, i)
		}
		if len(work) == 0 {
			continue
		}
		for j, res := range s.step(work...) {
			if i := who[j]; int(seqs[i].Len()) == len(all[i]) {
				if bits(t, res.Logits) != want[i] {
					t.Fatalf("sequence %d of %d tokens: other logits in company", i, len(all[i]))
				}
				seqs[i].Release()
				seqs[i] = nil
				left--
			}
		}
	}
}
