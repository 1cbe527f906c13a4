package algebra

import (
	"errors"
	"slices"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/kv"
	"pgregory.net/rapid"
)

func newPool(t interface{ Fatal(...any) }, l bulkhead.Layout, pages int) *kv.Pool {
	p, err := kv.New(kv.Options{Layout: l, Arena: make([]byte, pages*l.PageBytes())})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func prompt(n int, seed uint64) []bulkhead.Token {
	s := stream(seed)
	out := make([]bulkhead.Token, n)
	for i := range out {
		out[i] = bulkhead.Token(s.next() % 97)
	}
	return out
}

func step(m *Model, s *kv.Sequence, tokens []bulkhead.Token) engine.Result {
	var r [1]engine.Result
	m.Step([]engine.Work{{Seq: s, Tokens: tokens, Logits: true}}, r[:])
	return r[0]
}

// Through pages, in any chunks, at any page size, the answer is the one that follows from the tokens.
func TestEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Small(rapid.SampledFrom([]int{16, 32, 64}).Draw(t, "page"))
		m := New(l, 97, 5)
		tokens := prompt(rapid.IntRange(1, 150).Draw(t, "tokens"), rapid.Uint64().Draw(t, "seed"))
		pool := newPool(t, l, 16)
		s := pool.Begin(kv.NewIdentities([32]byte{}, "a", [32]byte{}, l), nil)
		pool.Grow(s, bulkhead.Tokens(len(tokens)))
		var r engine.Result
		for rest := tokens; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			if r = step(m, s, rest[:n]); r.Violation != nil {
				t.Fatal(r.Violation)
			}
			rest = rest[n:]
		}
		if !slices.Equal(r.Logits, m.Logits(tokens)) {
			t.Error("the logits are not those of the tokens")
		}
	})
}

// Any wrong byte that attention reads changes the digest, and is a violation besides.
func TestEveryByteCounts(t *testing.T) {
	l := Small(16)
	m := New(l, 97, 5)
	rapid.Check(t, func(t *rapid.T) {
		pool := newPool(t, l, 4)
		s := pool.Begin(kv.NewIdentities([32]byte{}, "a", [32]byte{}, l), nil)
		n := rapid.IntRange(1, 40).Draw(t, "tokens")
		pool.Grow(s, bulkhead.Tokens(n+1))
		if r := step(m, s, prompt(n, 3)); r.Violation != nil {
			t.Fatal(r.Violation)
		}
		at := rapid.IntRange(0, (n-1)/16).Draw(t, "page")
		page, slot := s.Pages()[at], rapid.IntRange(0, s.Filled(at)-1).Draw(t, "slot")
		layer, head, d := rapid.IntRange(0, 1).Draw(t, "layer"), rapid.IntRange(0, 1).Draw(t, "head"), rapid.IntRange(0, 3).Draw(t, "d")
		where := rapid.SampledFrom([]int{m.kAt(layer, head, slot, d), m.vAt(layer, head, slot, d)}).Draw(t, "where")
		before := m.read(page, at, s.Filled(at))
		page[where+rapid.IntRange(0, 1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if m.read(page, at, s.Filled(at)) == before {
			t.Error("the digest does not see it")
		}
		if r := step(m, s, prompt(1, 4)); !errors.Is(r.Violation, bulkhead.ErrViolation) || r.Logits != nil {
			t.Errorf("violation %v", r.Violation)
		}
	})
}

// Answer is a loop over Logits.
func TestAnswer(t *testing.T) {
	m := New(Small(16), 97, 5)
	p := prompt(20, 8)
	n := 0
	got := m.Answer(p, func(l []float32) (bulkhead.Token, bool) { n++; return best(l), n < 10 })
	for _, want := range got {
		if b := best(m.Logits(p)); b != want {
			t.Fatalf("answered %v, the tokens call for %v", want, b)
		}
		p = append(p, want)
	}
}

func best(l []float32) (b bulkhead.Token) {
	for i := range l {
		if l[i] > l[b] {
			b = bulkhead.Token(i)
		}
	}
	return b
}
