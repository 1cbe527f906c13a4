package engine

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// Step computes all works. Rows that are more than a pass takes go through in several passes, each of which is checked,
// computed, compared and done before the next; nothing of the results depends on where they were cut.
func (e *Engine) Step(work []Work, results []Result) { e.step(work, results, true) }

// Unguarded is a runner that neither checks sequences nor compares sums, to measure what that costs. It is for nothing
// else. Sequences that it has written to fail every guarded step.
func (e *Engine) Unguarded() Runner { return unguarded{e} }

type unguarded struct{ e *Engine }

func (u unguarded) Step(work []Work, results []Result) { u.e.step(work, results, false) }
func (u unguarded) Info() Info                         { return u.e.Info() }

func (e *Engine) step(work []Work, results []Result, guarded bool) {
	if e.busy.Swap(true) {
		panic("engine: two steps at once")
	}
	defer e.busy.Store(false)
	clear(results[:len(work)])
	e.plan(work)
	logits := e.wanted(work)
	for i := range e.passes {
		p := &e.passes[i]
		p.open(work, results, guarded)
		if len(p.parts) > 0 {
			e.forward.run(p, logits, guarded)
			e.forward.compareAll()
			logits = logits[p.settle(results, logits, e.m.spec.Vocab):]
		}
	}
}

// wanted is memory for the logits of all works that ask for them.
func (e *Engine) wanted(work []Work) []float32 {
	n := 0
	for i := range work {
		if work[i].Logits {
			n += e.m.spec.Vocab
		}
	}
	e.logits = grown(e.logits, n)
	return e.logits
}

// grown is a slice of n elements that reuses what is there.
func grown[T any](s []T, n int) []T {
	if n > cap(s) {
		s = make([]T, n+n/4)
	}
	return s[:n]
}

// part is the tokens of one work that go through in one pass.
type part struct {
	work   int
	tokens []bulkhead.Token
	logits bool // of its last token

	seq   *kv.Sequence
	app   *kv.Append
	pages [][]byte
	start int // position of the first token
	row   int // first row of the pass
	unit  int // first unit of attention
	bands int // of its rows, in attention
	out   int // row of logits; -1 for none

	sums      sums // what attention read
	violation *bulkhead.Violation
}

// end is how many tokens the sequence has with the part.
func (p *part) end() int { return p.start + len(p.tokens) }

// segments is how many segments of keys the part attends over.
func (p *part) segments() int { return segments(p.end()) }

// pass is what goes through the weights at once.
type pass struct {
	planned []part
	parts   []part // of those, the ones whose sequences passed the check
	rows    int
	wanted  int // rows of logits
}

// plan cuts the works into passes.
func (e *Engine) plan(work []Work) {
	f := e.forward
	e.passes = e.passes[:0]
	rows, acc := f.maxRows, 0 // of the open pass; full at first
	for i := range work {
		w := &work[i]
		if len(w.Tokens) == 0 {
			panic("engine: a work without tokens")
		}
		for _, t := range w.Tokens {
			if t < 0 || int(t) >= e.m.spec.Vocab {
				panic(fmt.Sprintf("engine: token %d, the vocabulary has %d", t, e.m.spec.Vocab))
			}
		}
		start := int(w.Seq.Len())
		for from := 0; from < len(w.Tokens); {
			perRow := segments(start + len(w.Tokens))
			n := min(len(w.Tokens)-from, f.maxRows-rows, (f.maxAcc-acc)/perRow)
			if n < 1 {
				if rows > 0 {
					rows, acc = 0, 0
					e.newPass()
					continue
				}
				n = 1 // a row alone always fits
			}
			p := &e.passes[len(e.passes)-1]
			p.planned = append(p.planned, part{work: i, seq: w.Seq, tokens: w.Tokens[from : from+n], start: start + from, row: rows,
				logits: w.Logits && from+n == len(w.Tokens)})
			rows, acc, from = rows+n, acc+n*perRow, from+n
		}
	}
}

func (e *Engine) newPass() {
	if len(e.passes) < cap(e.passes) {
		e.passes = e.passes[:len(e.passes)+1] // with the memory of an earlier step
	} else {
		e.passes = append(e.passes, pass{})
	}
	p := &e.passes[len(e.passes)-1]
	p.planned, p.parts = p.planned[:0], p.parts[:0]
}

// open checks the sequences and opens the appends. Works that had a violation, now or in an earlier pass, are left out.
func (p *pass) open(work []Work, results []Result, guarded bool) {
	p.rows, p.wanted = 0, 0
	for _, t := range p.planned {
		r := &results[t.work]
		if r.Violation != nil {
			continue
		}
		if guarded {
			if r.Violation = t.seq.Check(); r.Violation != nil {
				continue
			}
		}
		t.app = t.seq.Append(t.tokens)
		t.pages = t.seq.Pages()
		t.row, t.out = p.rows, -1
		p.rows += len(t.tokens)
		if t.logits {
			t.out = p.wanted
			p.wanted++
		}
		p.parts = append(p.parts, t)
	}
}

// settle ends the appends, those that had a violation without their tokens, and hands out logits; it returns how many it used.
func (p *pass) settle(results []Result, logits []float32, vocab int) (used int) {
	for i := range p.parts {
		t := &p.parts[i]
		r := &results[t.work]
		if r.Violation = t.violation; r.Violation != nil {
			t.app.Fail(r.Violation)
			continue
		}
		t.app.Done()
		if t.out >= 0 {
			r.Logits = logits[t.out*vocab:][:vocab:vocab]
		}
	}
	return p.wanted * vocab
}
