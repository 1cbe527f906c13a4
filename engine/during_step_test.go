package engine_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
)

// A late writer that replaces a page while a step runs, by another page of the same place with its own valid seal, is found
// by that step where attention read any of it, and by the next one where it did not. Logits are those of the sequence's own
// pages or there are none.
func TestPageReplacedDuringAStep(t *testing.T) {
	if race {
		t.Skip("the writer races with attention: that is the point")
	}
	e := load(t, enginetest.Model{Seed: 5, Layers: 6, Type: 8}.GGUF(t), engine.Options{Threads: 2})
	const length = 1500
	tokens, next := randomTokens(1, length, e.Info().Vocab), randomTokens(9, 1, e.Info().Vocab)
	foreign := randomTokens(2, length, e.Info().Vocab)
	s := serve(t, e, 16, 3*length+64)
	compute := func(tokens []bulkhead.Token) [][]byte {
		seq := s.begin(tokens, 0)
		defer seq.Release()
		s.step(engine.Work{Seq: seq, Tokens: tokens[seq.Len():]})
		var pages [][]byte
		for _, p := range seq.Pages() {
			pages = append(pages, bytes.Clone(p))
		}
		return pages
	}
	own, others := compute(tokens), compute(foreign)
	want := alone(t, e, 16, append(tokens[:length:length], next...), length)
	seq := s.begin(tokens, 1)
	s.step(engine.Work{Seq: seq, Tokens: tokens[seq.Len():]})
	start := time.Now()
	s.step(engine.Work{Seq: seq, Tokens: next, Logits: true})
	took := time.Since(start)
	seq.Release()

	inTime, late := 0, 0
	for try := 0; try < 60 || inTime == 0 && try < 1200; try++ { // more on a machine that is too busy for its timers
		seq := s.begin(tokens, 1)
		if rest := tokens[seq.Len():]; len(rest) > 0 {
			s.step(engine.Work{Seq: seq, Tokens: rest})
		}
		at := []int{0, 40, len(own) - 1}[try%3]
		page, done := seq.Pages()[at], make(chan struct{})
		time.AfterFunc(took*time.Duration(try%60)/60, func() {
			copy(page, others[at])
			close(done)
		})
		results := make([]engine.Result, 1)
		e.Step([]engine.Work{{Seq: seq, Tokens: next, Logits: true}}, results)
		switch v := results[0].Violation; {
		case v == nil && bits(t, results[0].Logits) != want:
			t.Fatalf("try %d: logits of a page of another", try)
		case v == nil:
			late++
		case !errors.Is(v, bulkhead.ErrViolation) || v.At != at:
			t.Errorf("try %d: %v", try, v)
		default:
			inTime++
		}
		<-done
		if results[0].Violation == nil {
			if v := seq.Check(); v == nil && at < len(own)-1 {
				t.Errorf("try %d: the next step finds nothing", try)
			}
		}
		seq.Release()
	}
	t.Logf("a step takes about %v; %d were found in the step, %d came too late to be read", took, inTime, late)
	if inTime == 0 {
		t.Error("no page was replaced in time: the test shows nothing")
	}
}
