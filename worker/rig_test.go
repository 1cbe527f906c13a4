package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/algebra"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	vocab    = 64
	eos      = bulkhead.Token(1)
	pageSize = 16
)

// rig is a pair over the algebra, with arenas that the test holds.
type rig struct {
	*Pair
	t      testing.TB
	arenas [2][]byte
	log    *logs
}

// hooked lets a test do something before each step, when no step runs.
type hooked struct {
	engine.Runner
	before func(work []engine.Work)
}

func (h *hooked) Step(work []engine.Work, results []engine.Result) {
	if h.before != nil {
		h.before(work)
	}
	h.Runner.Step(work, results)
}

// newModel is the model of all tests. A model is for one user at a time, so the reference has its own.
func newModel() *algebra.Model { return algebra.New(algebra.Small(pageSize), vocab, 11) }

type setup struct {
	limits   bulkhead.Limits
	before   func(work []engine.Work)
	observer Observer
	keep     bool
}

func limitsFor(window, prefill, decode bulkhead.Tokens) bulkhead.Limits {
	return bulkhead.Limits{Window: window, PrefillPool: prefill, DecodePool: decode, ModelWindow: 1 << 20, PageTokens: pageSize,
		Queue: 1000, QueueTenant: 1000, Running: 4, Chunk: 24}
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	l := algebra.Small(pageSize)
	r := &rig{t: t, log: &logs{}}
	r.arenas[Prefill] = make([]byte, ArenaBytes(l, s.limits.PrefillPool))
	r.arenas[Decode] = make([]byte, ArenaBytes(l, s.limits.DecodePool))
	p, err := NewPair(Config{Runner: &hooked{newModel(), s.before}, Layout: l, Limits: s.limits, EOS: []bulkhead.Token{eos},
		Secret: [32]byte{7}, KeepOnFree: s.keep, Observer: s.observer, Log: slog.New(r.log),
		PrefillArena: r.arenas[Prefill], DecodeArena: r.arenas[Decode]})
	if err != nil {
		t.Fatal(err)
	}
	r.Pair = p
	return r
}

// finish closes the pair and demands that every page is back where it belongs: free or cached, or set aside.
func (r *rig) finish(setAside int) {
	r.t.Helper()
	r.Close()
	bad := 0
	for side, pool := range map[Side]interface {
		Audit() error
	}{Prefill: r.Pair.prefill.pool, Decode: r.Pair.decode.pool} {
		if err := pool.Audit(); err != nil {
			r.t.Errorf("%v pool: %v", side, err)
		}
	}
	s := r.Snapshot()
	for side, u := range map[Side]PoolUse{Prefill: s.Prefill, Decode: s.Decode} {
		bad += u.SetAside
		if u.Live != 0 || u.Quarantined != 0 || u.Free+u.Cached+u.SetAside != u.Pages {
			r.t.Errorf("%v pool at the end: %+v", side, u)
		}
	}
	if bad != setAside {
		r.t.Errorf("%d pages are set aside, not %d: %+v %+v", bad, setAside, s.Prefill, s.Decode)
	}
	if s.Waiting+s.Prefilling+s.HandingOver+s.SetBack+s.Running != 0 || r.link.Rooms() != 0 || r.left() != 0 {
		r.t.Errorf("something is left: %+v, %d rooms", s, r.link.Rooms())
	}
	var ended uint64
	for _, n := range s.Counters.Ended {
		ended += n
	}
	if ended != s.Counters.Submitted {
		r.t.Errorf("%d requests were taken and %d ended", s.Counters.Submitted, ended)
	}
}

// left is how many requests either worker still knows.
func (r *rig) left() int {
	return len(r.prefill.jobs) + len(r.prefill.inUse) + len(r.prefill.tenants) + len(r.decode.jobs) + len(r.decode.inUse) + len(r.decode.tenants)
}

// reference is the whole answer that a request must get.
func (r *rig) reference(q bulkhead.Request) (answer []bulkhead.Token, end bulkhead.Reason) {
	s, err := sample.New(q.Sampling, vocab, q.Prompt)
	if err != nil {
		r.t.Error(err)
	}
	end = bulkhead.Length
	answer = newModel().Answer(q.Prompt, func(logits []float32) (bulkhead.Token, bool) {
		t, _, err := s.Next(logits)
		if err != nil {
			r.t.Error(err)
		}
		if slices.Contains(q.StopIDs, t) || !q.IgnoreEOS && t == eos {
			end = bulkhead.Stopped
			return t, false
		}
		q.MaxTokens--
		return t, q.MaxTokens > 0
	})
	if end == bulkhead.Stopped {
		answer = answer[:len(answer)-1]
	}
	return answer, end
}

func (r *rig) admit(q bulkhead.Request) bulkhead.Admitted {
	r.t.Helper()
	a, refusal := r.cfg.Limits.Admit(q)
	if refusal != nil {
		r.t.Fatal(refusal)
	}
	return a
}

// start submits a request that must be taken.
func (r *rig) start(q bulkhead.Request) *Stream {
	r.t.Helper()
	s, refusal := r.Submit(r.admit(q))
	if refusal != nil {
		r.t.Fatal(refusal)
	}
	return s
}

// read takes the whole answer: tokens, then exactly one end.
func read(t testing.TB, s *Stream) ([]bulkhead.Token, *bulkhead.End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var tokens []bulkhead.Token
	for {
		e, ok := s.Next(ctx)
		if !ok {
			t.Errorf("%s: no end after %d tokens", s.ID(), len(tokens))
			return tokens, &bulkhead.End{}
		}
		if e.End != nil {
			if _, again := s.Next(ctx); again {
				t.Errorf("%s: an event after the end", s.ID())
			}
			return tokens, e.End
		}
		tokens = append(tokens, e.Token)
	}
}

// check demands that what came is the reference's answer, or the beginning of it where the request was cut off.
func (r *rig) check(q bulkhead.Request, tokens []bulkhead.Token, end *bulkhead.End) {
	want, reason := r.reference(q)
	whole := end.Reason == bulkhead.Stopped || end.Reason == bulkhead.Length
	if whole && (end.Reason != reason || !slices.Equal(tokens, want)) ||
		!whole && (len(tokens) > len(want) || !slices.Equal(tokens, want[:len(tokens)])) {
		r.t.Errorf("%s (prompt of %d, max %d): got %v %v (%v), want %v %v", q.ID, len(q.Prompt), q.MaxTokens, tokens, end.Reason, end.Err, want, reason)
	}
	n := bulkhead.Tokens(len(tokens))
	if end.Reason == bulkhead.Stopped {
		n++
	}
	if end.Completion != n || end.Prompt != bulkhead.Tokens(len(q.Prompt)) || end.Cached > end.Prompt {
		r.t.Errorf("%s: end %+v after %d tokens", q.ID, *end, len(tokens))
	}
}

// run submits a request, reads its answer and demands that it is whole and right.
func (r *rig) run(q bulkhead.Request) *bulkhead.End {
	r.t.Helper()
	tokens, end := read(r.t, r.start(q))
	r.check(q, tokens, end)
	if end.Reason != bulkhead.Stopped && end.Reason != bulkhead.Length {
		r.t.Errorf("%s ended as %v: %v %v", q.ID, end.Reason, end.Err, end.Refusal)
	}
	return end
}

func request(tenant string, prompt []bulkhead.Token, max bulkhead.Tokens) bulkhead.Request {
	return bulkhead.Request{ID: bulkhead.RequestID(fmt.Sprintf("%s-%d-%d", tenant, len(prompt), max)),
		Tenant: bulkhead.Tenant{Name: tenant, Domain: tenant}, Prompt: prompt, MaxTokens: max, IgnoreEOS: true, Sampling: bulkhead.Sampling{Temperature: 1, Seed: uint64(max)}}
}

// words are n tokens that follow from a seed.
func words(n int, seed uint64) []bulkhead.Token {
	out := make([]bulkhead.Token, n)
	for i := range out {
		seed = seed*6364136223846793005 + 1442695040888963407
		out[i] = 2 + bulkhead.Token(seed>>33)%(vocab-2)
	}
	return out
}

// logs keeps what was logged.
type logs struct {
	mu      sync.Mutex
	records []map[string]any
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]any{"msg": r.Message}
	r.Attrs(func(a slog.Attr) bool { m[a.Key] = a.Value.Any(); return true })
	l.records = append(l.records, m)
	return nil
}

func (l *logs) with(msg string) (out []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r["msg"] == msg {
			out = append(out, r)
		}
	}
	return out
}
