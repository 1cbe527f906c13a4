package engine_test

import (
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// server is an engine with a pool of its own.
type server struct {
	t    testing.TB
	e    *engine.Engine
	pool *kv.Pool
	ids  *kv.Identities

	arena []byte
	l     bulkhead.Layout
}

func serve(t testing.TB, e *engine.Engine, pageTokens, tokens int) *server {
	t.Helper()
	s := &server{t: t, e: e, l: e.Layout(pageTokens)}
	s.arena = make([]byte, s.l.Pages(bulkhead.Tokens(tokens))*s.l.PageBytes())
	var err error
	if s.pool, err = kv.New(kv.Options{Layout: s.l, Arena: s.arena, Summer: e.Kernels()}); err != nil {
		t.Fatal(err)
	}
	s.ids = kv.NewIdentities([32]byte{1}, "domain", e.Info().Fingerprint, s.l)
	return s
}

// begin opens a sequence on what the cache has of tokens, with room for them and some more.
func (s *server) begin(tokens []bulkhead.Token, more int) *kv.Sequence {
	s.t.Helper()
	seq := s.pool.Begin(s.ids, tokens)
	if !s.pool.Grow(seq, bulkhead.Tokens(len(tokens)+more)) {
		s.t.Fatal("the pool is too small for the test")
	}
	return seq
}

// step runs works, none of which may fail.
func (s *server) step(work ...engine.Work) []engine.Result {
	s.t.Helper()
	results := make([]engine.Result, len(work))
	s.e.Step(work, results)
	for i, r := range results {
		if r.Violation != nil {
			s.t.Fatalf("work %d: %v", i, r.Violation)
		}
	}
	return results
}

// greedy answers a prompt with n tokens: all of the prompt but its last token first, then token by token.
func greedy(t testing.TB, e *engine.Engine, pageTokens int, prompt []bulkhead.Token, n int) []bulkhead.Token {
	t.Helper()
	s := serve(t, e, pageTokens, len(prompt)+n+pageTokens)
	seq := s.begin(nil, len(prompt)+n)
	last := len(prompt) - 1
	if last > 0 {
		s.step(engine.Work{Seq: seq, Tokens: prompt[:last]})
	}
	sampler, err := sample.New(bulkhead.Sampling{}, e.Info().Vocab, nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer []bulkhead.Token
	for next := prompt[last:]; len(answer) < n; next = answer[len(answer)-1:] {
		r := s.step(engine.Work{Seq: seq, Tokens: next, Logits: true})
		token, _, err := sampler.Next(r[0].Logits)
		if err != nil {
			t.Fatal(err)
		}
		answer = append(answer, token)
	}
	seq.Release()
	if err := s.pool.Audit(); err != nil {
		t.Error(err)
	}
	return answer
}
