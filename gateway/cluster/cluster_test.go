package cluster_test

import (
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster/clustertest"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// Both workers are told the same of a request, and what decode answers is the answer.
func TestAnswer(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	req := request(100, 5)
	req.StopIDs, req.Sampling = []bulkhead.Token{9}, bulkhead.Sampling{Seed: 1 << 63, Temperature: 0.5, Logprobs: true, TopLogprobs: 1}
	req.Deadline = time.Now().Add(time.Minute)
	a := r.ask(req)
	r.whole(a, req)
	for _, e := range a.events {
		if e.Logprobs == nil || e.Logprobs.Token != -0.5 || len(e.Logprobs.Top) != 1 || e.Logprobs.Top[0].Token != e.Token {
			t.Errorf("log-probabilities %+v", e.Logprobs)
		}
	}
	r.over()
	r.rooms()
	p, d := r.prefill[0].Requests()[0], r.decode[0].Requests()[0]
	if p.Stream || !d.Stream || !d.Native.Incremental || p.Host != "127.0.0.1" || p.Port != 9 {
		t.Errorf("prefill %+v, decode %+v", p.Generate, d.Generate)
	}
	for _, q := range []clustertest.Request{p, d} {
		n := q.Native
		if n.Tenant != "t" || n.Domain != "t" || n.Prefill != "prefill-0" || n.Decode != "decode-0" || n.Seconds < 50 || n.Seconds > 60 ||
			len(q.InputIDs) != 100 || *q.Sampling.Seed != 1<<63 || q.Rid == string(req.ID) {
			t.Errorf("told %+v, %+v", q.Generate, n)
		}
	}
	if len(r.prefill[0].Aborts())+len(r.decode[0].Aborts()) != 0 {
		t.Error("something was aborted")
	}
}

// The token that stops an answer is counted and not given out.
func TestStop(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Tokens = 3 })
	a := r.ask(request(10, 100))
	if a.end.Reason != bulkhead.Stopped || a.end.StopToken != 255 || len(a.tokens) != 3 || a.end.Completion != 4 {
		t.Errorf("%+v", a)
	}
}

// Each fault of a worker before the first token: the request is answered by another pair, the other side was told to stop by its
// whole id, and only the side at fault is charged.
func TestFaultBeforeFirstToken(t *testing.T) {
	for _, tt := range []struct {
		role  string
		fault clustertest.Fault
	}{
		{"prefill", clustertest.Reset}, {"prefill", clustertest.Refuse},
		{"decode", clustertest.Reset}, {"decode", clustertest.Refuse},
	} {
		t.Run(tt.role+" "+string(tt.fault), func(t *testing.T) {
			r := newRig(t, 2, 2, func(c *cluster.Config, _ *rig) { c.Breaker.Failures = 1 })
			all := r.prefill
			if tt.role == "decode" {
				all = r.decode
			}
			faulty := 0 // whoever is asked first
			for i, w := range all {
				w.Do(func(s *clustertest.Settings) {
					*s.Fault = func(n int) clustertest.Fault {
						if n > 0 || len(all[1-i].Requests()) > 0 {
							return clustertest.None
						}
						faulty = i
						return tt.fault
					}
					*s.Status, *s.Failure = 500, clustertest.Failure(bulkhead.CodeInternal, "a bug")
				})
			}
			req := request(200, 6)
			r.whole(r.ask(req), req)
			r.over()
			r.rooms()
			for _, w := range append(r.prefill, r.decode...) {
				want := "closed"
				if w == all[faulty] {
					want = "open"
				}
				if got := r.state(w); got.Breaker != want {
					t.Errorf("%s: breaker %s, want %s", got.Name, got.Breaker, want)
				}
			}
			r.abortedOther(tt.role, all[faulty])
			r.logged("tried again", tt.role)
		})
	}
}

// abortedOther checks that the other side of a worker's first request was told to stop.
func (r *rig) abortedOther(role string, faulty *clustertest.Worker) {
	r.t.Helper()
	rid := faulty.Requests()[0].Rid
	others := r.decode
	if role == "decode" {
		others = r.prefill
	}
	n := 0
	for _, w := range others {
		for _, a := range w.Aborts() {
			if a != rid {
				r.t.Errorf("an abort of %q, and the request was %q", a, rid)
			}
			n++
		}
	}
	if n == 0 {
		r.t.Error("the other side was not told to stop")
	}
}

// A worker that cannot be reached at all is charged, and the other side is told.
func TestUnreached(t *testing.T) {
	r := newRig(t, 1, 1, func(c *cluster.Config, _ *rig) {
		c.Retries = 1
		c.Probes.GenerateEvery = time.Hour
		c.Probes.Out = 1000
	})
	r.prefill[0].Server.Listener.Close()
	r.prefill[0].Server.CloseClientConnections()
	a := r.ask(request(10, 5))
	if a.end.Reason != bulkhead.Refused || a.end.Refusal.Code != bulkhead.CodeUnavailable || a.end.Refusal.RetryAfter == 0 || len(a.tokens) != 0 {
		t.Errorf("%+v", a.end)
	}
	r.over()
	if n := len(r.decode[0].Requests()); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	if len(r.decode[0].Aborts()) < 2 {
		t.Error("decode was not told")
	}
	r.rooms()
	r.logged("prefill unreached")
}

// What a worker refuses for what the request is keeps its code, message and numbers, is not tried again, and charges nobody,
// however often it happens.
func TestRefusalIsFinal(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		t.Run(role, func(t *testing.T) {
			r := newRig(t, 1, 1, nil)
			w := r.prefill[0]
			if role == "decode" {
				w = r.decode[0]
			}
			f := clustertest.Failure(bulkhead.CodeContextLength, "this model's maximum context length is 7 tokens")
			f.Error.Limit, f.Error.Count = 7, 15
			param := "input_ids"
			f.Error.Param = &param
			w.Do(func(s *clustertest.Settings) {
				*s.Fault, *s.Status, *s.Failure = clustertest.Always(clustertest.Refuse), 400, f
			})
			for range 10 {
				a := r.ask(request(10, 5))
				ref := a.end.Refusal
				if a.end.Reason != bulkhead.Refused || ref.Code != bulkhead.CodeContextLength || ref.Limit != 7 || ref.Count != 15 ||
					ref.Param != "prompt" || ref.Message != f.Error.Message {
					t.Fatalf("%+v: %+v", a.end, ref)
				}
			}
			r.over()
			if n := len(w.Requests()); n != 10 {
				t.Errorf("%d requests came, want 10: a refusal was tried again", n)
			}
			for _, s := range r.c.Snapshot().Workers {
				if s.Breaker != "closed" {
					t.Errorf("%s: breaker %s", s.Name, s.Breaker)
				}
			}
		})
	}
}

// A full queue sends the request to another pair; where there is none, its refusal reaches the client with its Retry-After.
func TestBusy(t *testing.T) {
	busy := func(s *clustertest.Settings) {
		*s.Fault, *s.Status = clustertest.Always(clustertest.Refuse), 429
		*s.Failure = clustertest.Failure(bulkhead.CodeBusy, "the queue is full")
		s.Header.Set("Retry-After", "7")
	}
	r := newRig(t, 1, 2, nil)
	r.decode[0].Do(busy)
	for range 4 {
		req := request(10, 5)
		r.whole(r.ask(req), req)
	}
	r.decode[1].Do(busy)
	a := r.ask(request(10, 5))
	if a.end.Reason != bulkhead.Refused || a.end.Refusal.Code != bulkhead.CodeBusy || a.end.Refusal.RetryAfter != 7*time.Second ||
		a.end.Refusal.Message != "the queue is full" {
		t.Errorf("%+v %+v", a.end, a.end.Refusal)
	}
	r.over()
	for _, s := range r.c.Snapshot().Workers {
		if s.Breaker != "closed" {
			t.Errorf("%s: breaker %s", s.Name, s.Breaker)
		}
	}
}

// After the first token nothing is tried again: the answer ends with what happened.
func TestFaultAfterFirstToken(t *testing.T) {
	for _, tt := range []struct {
		fault  clustertest.Fault
		code   bulkhead.Code
		reason bulkhead.Reason
		tokens int
	}{
		{clustertest.CutStream, "", bulkhead.Failed, 2},
		{clustertest.ErrorEvent, bulkhead.CodeInternal, bulkhead.Failed, 2},
		{clustertest.ErrorEvent, "kv_integrity_violation", bulkhead.Violated, 2},
		{clustertest.ErrorEvent, bulkhead.CodeDraining, bulkhead.Refused, 2},
		{clustertest.Garbage, "", bulkhead.Failed, 2},
		{clustertest.LongLine, "", bulkhead.Failed, 2},
		{clustertest.TooMany, "", bulkhead.Failed, 6},
		{clustertest.HangAfter, "", bulkhead.Failed, 2},
	} {
		t.Run(string(tt.fault)+" "+string(tt.code), func(t *testing.T) {
			r := newRig(t, 1, 2, func(c *cluster.Config, _ *rig) { c.Timeouts.Idle = 300 * time.Millisecond })
			for _, w := range r.decode {
				w.Do(func(s *clustertest.Settings) {
					*s.Fault, *s.Failure = clustertest.Always(tt.fault), clustertest.Failure(tt.code, "because")
				})
			}
			a := r.ask(request(10, 6))
			if a.end.Reason != tt.reason || len(a.tokens) != tt.tokens || int(a.end.Completion) != tt.tokens {
				t.Errorf("%v after %d tokens, want %v after %d: %v", a.end.Reason, len(a.tokens), tt.reason, tt.tokens, a.end.Err)
			}
			r.over()
			if n := len(r.prefill[0].Requests()); n != 1 {
				t.Errorf("%d attempts", n)
			}
			if tt.fault != clustertest.ErrorEvent { // it may be working still
				r.until("decode was told to stop", func() bool { return len(r.decode[0].Aborts())+len(r.decode[1].Aborts()) > 0 })
			}
		})
	}
}

// An answer that is none before the first token: wrong tokens, another prompt. Nothing of it is let out.
func TestNoAnswer(t *testing.T) {
	for _, fault := range []clustertest.Fault{clustertest.BadToken, clustertest.Miscount} {
		t.Run(string(fault), func(t *testing.T) {
			r := newRig(t, 1, 1, nil)
			r.decode[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(fault) })
			a := r.ask(request(10, 6))
			if a.end.Reason != bulkhead.Failed || len(a.tokens) != 0 {
				t.Errorf("%v after %v", a.end.Reason, a.tokens)
			}
			r.over()
			r.rooms()
		})
	}
}

// Prefill's own count is held against the gateway's: an answer of which prefill has computed another prompt is not believed.
func TestPrefillMiscounts(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Miscount) })
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Gap = 50 * time.Millisecond })
	a := r.ask(request(10, 6))
	if a.end.Reason != bulkhead.Failed || len(a.tokens) == 6 {
		t.Errorf("%v after %d tokens", a.end.Reason, len(a.tokens))
	}
	r.over()
	if len(r.prefill[0].Requests()) != 1 {
		t.Error("it was tried again")
	}
	if len(r.decode[0].Aborts()) == 0 {
		t.Error("decode was not told to stop")
	}
	r.logged("prompt has 1 tokens, and it has 10")
}

// A handoff that is lost between two workers that both answer charges their link alone: each goes on with others.
func TestLink(t *testing.T) {
	r := newRig(t, 1, 2, func(c *cluster.Config, _ *rig) { c.Breaker.Failures = 1 })
	r.decode[0].Do(func(s *clustertest.Settings) {
		*s.Fault, *s.Status = clustertest.Always(clustertest.Refuse), 500
		*s.Failure = clustertest.Failure(sglang.CodeHandoff, "no route")
	})
	for range 6 {
		req := request(10, 3)
		r.whole(r.ask(req), req)
	}
	r.over()
	if n := len(r.decode[0].Requests()); n != 1 {
		t.Errorf("%d requests went over the broken link", n)
	}
	for _, s := range r.c.Snapshot().Workers {
		if s.Breaker != "closed" {
			t.Errorf("%s: breaker %s", s.Name, s.Breaker)
		}
	}
}

// Nothing of the machinery reaches a client, and what only a gateway can set wrong is no client's error.
func TestNothingOfTheMachinery(t *testing.T) {
	r := newRig(t, 1, 1, func(c *cluster.Config, _ *rig) { c.Breaker.Failures = 100 })
	r.decode[0].Do(func(s *clustertest.Settings) {
		*s.Fault, *s.Status = clustertest.Always(clustertest.Refuse), 400
		*s.Failure = clustertest.Failure(bulkhead.CodeInvalid, "decode-0 does not like it")
	})
	a := r.ask(request(10, 3))
	if a.end.Reason != bulkhead.Refused || a.end.Refusal.Message != "the request was refused: invalid_request" {
		t.Errorf("%+v", a.end.Refusal)
	}
	for _, f := range []func(*sglang.Failure){
		func(f *sglang.Failure) { p := "bootstrap_room"; f.Error.Param = &p },
		func(f *sglang.Failure) { f.Error.Code = string(bulkhead.CodeForbidden) },
		func(f *sglang.Failure) { f.Error.Code = "unknown_url" },
	} {
		r.decode[0].Do(func(s *clustertest.Settings) { f(s.Failure) })
		a := r.ask(request(10, 3))
		if a.end.Reason != bulkhead.Failed {
			t.Errorf("%+v", a.end)
		}
		r.decode[0].Do(func(s *clustertest.Settings) { s.Failure.Error.Code = string(bulkhead.CodeInvalid) })
	}
}
