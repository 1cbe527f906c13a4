package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

// How long the engine takes in these tests.
const (
	chunkTime = 10 * time.Millisecond
	stepTime  = 3 * time.Millisecond
)

// slow makes each step take its time, on the clock of the bubble.
func slow(work []engine.Work) {
	if work[0].Logits {
		time.Sleep(stepTime)
	} else {
		time.Sleep(chunkTime)
	}
}

// timed runs a test on a clock that stands still while anything runs.
func timed(t *testing.T, name string, l bulkhead.Limits, f func(t *testing.T, r *rig)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, setup{limits: l, before: slow})
			f(t, r)
			r.finish(0)
		})
	})
}

func deadlined(r *rig, q bulkhead.Request, d time.Duration) {
	r.t.Helper()
	q.Deadline = time.Now().Add(d)
	tokens, end := read(r.t, r.start(q))
	r.check(q, tokens, end)
	if end.Reason != bulkhead.Refused || end.Refusal.Code != bulkhead.CodeDeadline {
		r.t.Errorf("ended as %v: %v", end.Reason, end.Refusal)
	}
	if late := time.Since(q.Deadline); late < 0 || late > chunkTime+stepTime {
		r.t.Errorf("ended %v after its deadline", late)
	}
}

// The deadline is kept wherever a request is: in the queue, without pages, in prefill, in decode's line, and running.
func TestDeadlines(t *testing.T) {
	one := limitsFor(512, 1024, 1024)
	one.Running = 1
	timed(t, "running", one, func(t *testing.T, r *rig) { deadlined(r, request("acme", words(10, 1), 400), 100*time.Millisecond) })
	timed(t, "in prefill", one, func(t *testing.T, r *rig) { deadlined(r, request("acme", words(400, 1), 4), 55*time.Millisecond) })
	timed(t, "in decode's line", one, func(t *testing.T, r *rig) {
		first := r.start(request("acme", words(10, 1), 300))
		synctest.Wait()
		deadlined(r, request("bolt", words(10, 2), 300), 100*time.Millisecond)
		first.Leave()
	})
	timed(t, "in the queue", one, func(t *testing.T, r *rig) {
		first, second := r.start(request("acme", words(10, 1), 300)), r.start(request("acme", words(10, 2), 300))
		synctest.Wait()
		deadlined(r, request("bolt", words(10, 3), 300), 100*time.Millisecond)
		first.Leave()
		second.Leave()
	})
	full := limitsFor(512, 512, 1024)
	timed(t, "without pages", full, func(t *testing.T, r *rig) {
		first := r.start(request("acme", words(400, 1), 4))
		time.Sleep(chunkTime)
		deadlined(r, request("bolt", words(300, 2), 4), 50*time.Millisecond)
		first.Leave()
	})
	late := one
	late.RequestTimeout = 50 * time.Millisecond
	timed(t, "by default", late, func(t *testing.T, r *rig) {
		start := time.Now()
		_, end := read(t, r.start(request("acme", words(10, 1), 400)))
		if took := time.Since(start); end.Reason != bulkhead.Refused || took < 50*time.Millisecond || took > 70*time.Millisecond {
			t.Errorf("ended as %v after %v", end.Reason, took)
		}
		q := request("acme", words(10, 1), 4)
		q.Deadline = time.Now()
		if _, refusal := r.Submit(r.admit(q)); refusal == nil || refusal.Code != bulkhead.CodeDeadline {
			t.Errorf("refusal %v", refusal)
		}
	})
}

// Rule I6: a client that leaves stops prefill before the handoff and decode after it, and what it held comes back while
// others go on.
func TestLeave(t *testing.T) {
	l := limitsFor(512, 1024, 1024)
	l.Running = 2
	left := func(r *rig, s *Stream) {
		r.t.Helper()
		s.Leave()
		if _, end := read(r.t, s); end.Reason != bulkhead.Aborted {
			r.t.Errorf("ended as %v", end.Reason)
		}
		time.Sleep(2 * (chunkTime + stepTime))
		synctest.Wait()
	}
	timed(t, "in prefill", l, func(t *testing.T, r *rig) {
		s := r.start(request("acme", words(400, 1), 4))
		time.Sleep(3*chunkTime + time.Millisecond)
		if n := r.Snapshot(); n.Prefilling != 1 || n.Prefill.Live == 0 {
			t.Errorf("before: %+v", n)
		}
		left(r, s)
		if n := r.Snapshot(); n.Counters.PrefillRows > 4*uint64(l.Chunk) || n.Prefilling+n.HandingOver != 0 || n.Prefill.Live+n.Decode.Live != 0 {
			t.Errorf("after: %+v", n)
		}
	})
	timed(t, "during the transfer", l, func(t *testing.T, r *rig) {
		s := r.start(request("acme", words(65, 1), 4)) // chunks of 24, 24 and 16
		time.Sleep(2*chunkTime + chunkTime/2)
		if n := r.Snapshot(); n.Prefill.Live != 4 || n.Decode.Live != 4 {
			t.Errorf("before: %+v", n)
		}
		s.Leave()
		synctest.Wait() // decode has let go, and prefill waits for its chunk
		if n := r.Snapshot(); n.Prefill.Live != 4 || n.Decode.Live != 0 {
			t.Errorf("during: %+v", n)
		}
		left(r, s)
		if n := r.Snapshot(); n.Prefill.Live != 0 || n.Counters.HandoffPages != 0 || n.Counters.DecodeRows != 0 {
			t.Errorf("after: %+v", n)
		}
	})
	timed(t, "running", l, func(t *testing.T, r *rig) {
		s := r.start(request("acme", words(40, 1), 400))
		time.Sleep(2*chunkTime + 10*stepTime)
		left(r, s)
		if n := r.Snapshot(); n.Counters.OutputTokens < 5 || n.Counters.OutputTokens > 12 || n.Running != 0 || n.Decode.Live != 0 {
			t.Errorf("after: %+v", n)
		}
	})
	timed(t, "in line and in the queue, while others run", l, func(t *testing.T, r *rig) {
		q := request("acme", words(40, 1), 200)
		running, other := r.start(q), r.start(request("acme", words(41, 1), 200))
		time.Sleep(5*chunkTime + 10*stepTime)
		inLine, inQueue := r.start(request("bolt", words(40, 2), 4)), r.start(request("bolt", words(400, 3), 4))
		time.Sleep(2 * (chunkTime + stepTime))
		third := r.start(request("bolt", words(40, 4), 4))
		time.Sleep(chunkTime)
		if n := r.Snapshot(); n.Running != 2 || n.Waiting != 1 || n.Prefilling+n.HandingOver != 2 {
			t.Errorf("before: %+v", n)
		}
		left(r, third)
		left(r, inQueue)
		left(r, inLine)
		if n := r.Snapshot(); n.Running != 2 || n.Waiting+n.Prefilling+n.HandingOver != 0 || n.Prefill.Live != 0 {
			t.Errorf("after: %+v", n)
		}
		other.Leave()
		tokens, end := read(t, running)
		r.check(q, tokens, end)
	})
}

// While a long prompt is computed, a running request gets a token after each chunk, and the prompt a chunk after each
// token.
func TestTurns(t *testing.T) {
	timed(t, "long prompt", limitsFor(1024, 2048, 2048), func(t *testing.T, r *rig) {
		s := r.start(request("acme", words(10, 1), 200))
		ctx := context.Background()
		s.Next(ctx)
		start := time.Now()
		long := r.start(request("bolt", words(24*20+1, 2), 1)) // twenty chunks
		last, worst := start, time.Duration(0)
		var took time.Duration
		for {
			e, ok := s.Next(ctx)
			if !ok || e.End != nil {
				break
			}
			worst, last = max(worst, time.Since(last)), time.Now()
			if n := r.Snapshot(); took == 0 && n.Counters.Ended[bulkhead.Length] == 1 {
				took = time.Since(start)
			}
		}
		if worst > chunkTime+stepTime {
			t.Errorf("a token took %v", worst)
		}
		if limit := 22 * (chunkTime + stepTime); took == 0 || took > limit {
			t.Errorf("the long prompt took %v, more than %v", took, limit)
		}
		read(t, long)
	})
}

// What decode computes for a tenant counts in prefill: after a long answer the other tenant goes first, though it came later.
func TestAnswersCount(t *testing.T) {
	l := limitsFor(512, 1024, 1024)
	l.Running = 1
	timed(t, "answers", l, func(t *testing.T, r *rig) {
		streams := []*Stream{r.start(request("acme", words(10, 1), 100))} // runs
		synctest.Wait()
		for _, tenant := range []string{"acme", "acme", "bolt"} { // in line, in the queue twice
			streams = append(streams, r.start(request(tenant, words(10, 2), 2)))
			time.Sleep(chunkTime)
		}
		var ended [4]time.Time
		for _, i := range []int{0, 1, 3, 2} {
			read(t, streams[i])
			ended[i] = time.Now()
		}
		if !ended[3].Before(ended[2]) {
			t.Error("the tenant with the long answer went first again")
		}
	})
}

// Draining takes nothing new and lets what runs end; what has not ended in time is cut off with the reason.
func TestDrain(t *testing.T) {
	l := limitsFor(512, 1024, 1024)
	l.DrainTimeout = time.Second
	timed(t, "in time", l, func(t *testing.T, r *rig) {
		q := request("acme", words(40, 1), 100)
		s := r.start(q)
		done := make(chan error)
		go func() { done <- r.Drain(context.Background()) }()
		synctest.Wait()
		_, refusal := r.Submit(r.admit(q))
		if refusal == nil || refusal.Code != bulkhead.CodeDraining || refusal.RetryAfter != time.Second || !r.Snapshot().Draining {
			t.Errorf("refusal %v", refusal)
		}
		tokens, end := read(t, s)
		r.check(q, tokens, end)
		if err := <-done; err != nil || end.Reason != bulkhead.Length {
			t.Errorf("drained with %v, ended as %v", err, end.Reason)
		}
		if err := r.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	timed(t, "cut off", l, func(t *testing.T, r *rig) {
		s, waits := r.start(request("acme", words(40, 1), 450)), r.start(request("acme", words(40, 2), 450))
		start := time.Now()
		err := r.Drain(context.Background())
		if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "2 requests") || took < time.Second || took > time.Second+chunkTime {
			t.Errorf("drained after %v with %v", took, err)
		}
		for _, s := range []*Stream{s, waits} {
			if _, end := read(t, s); end.Reason != bulkhead.Refused || end.Refusal.Code != bulkhead.CodeDraining {
				t.Errorf("ended as %v: %v", end.Reason, end.Refusal)
			}
		}
	})
	timed(t, "closed", l, func(t *testing.T, r *rig) {
		s := r.start(request("acme", words(400, 1), 100))
		time.Sleep(chunkTime)
		r.Close()
		if _, end := read(t, s); end.Reason != bulkhead.Failed || end.Err == nil {
			t.Errorf("ended as %v: %v", end.Reason, end.Err)
		}
		if _, refusal := r.Submit(r.admit(request("acme", words(4, 1), 1))); refusal == nil {
			t.Error("taken after Close")
		}
	})
}

// Everything that is queued is bounded, by all requests and by a tenant's.
func TestBounds(t *testing.T) {
	l := limitsFor(512, 4096, 4096)
	l.Queue, l.QueueTenant, l.Running = 6, 4, 2
	timed(t, "full", l, func(t *testing.T, r *rig) {
		var streams []*Stream
		taken := map[string]int{}
		for i := range 60 {
			tenant := []string{"acme", "bolt"}[i%2]
			s, refusal := r.Submit(r.admit(request(tenant, words(40, uint64(i)), 400)))
			if refusal == nil {
				streams = append(streams, s)
				taken[tenant]++
			} else if refusal.Code != bulkhead.CodeBusy || refusal.RetryAfter <= 0 {
				t.Errorf("refusal %+v", refusal)
			}
			time.Sleep(chunkTime)
		}
		if n := r.Snapshot(); n.Waiting != l.Queue || n.WaitingTenant["acme"] > l.QueueTenant || n.Running != l.Running ||
			len(streams) > l.Queue+2*l.Running || n.Counters.Refusals[bulkhead.CodeBusy] != uint64(60-len(streams)) {
			t.Errorf("%d were taken (%v): %+v", len(streams), taken, n)
		}
		for _, s := range streams {
			s.Leave()
		}
	})
}

// A worker admits by its own limits, whatever somebody else has admitted by.
func TestAdmitsAgain(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(100, 112, 112)})
	wide := limitsFor(200, 208, 208)
	for _, c := range []struct {
		q    bulkhead.Request
		code bulkhead.Code
	}{
		{request("acme", words(99, 1), 1), ""},
		{request("acme", words(99, 1), 2), bulkhead.CodeContextLength},
		{request("acme", words(100, 1), 1), bulkhead.CodeContextLength},
		{request("acme", []bulkhead.Token{vocab - 1}, 1), ""},
		{request("acme", []bulkhead.Token{vocab}, 1), bulkhead.CodeInvalid},
		{request("acme", []bulkhead.Token{-1}, 1), bulkhead.CodeInvalid},
	} {
		a, refusal := wide.Admit(c.q)
		if refusal != nil {
			t.Fatal(refusal)
		}
		s, refusal := r.Submit(a)
		if c.code == "" && refusal == nil {
			read(t, s)
		} else if refusal == nil || refusal.Code != c.code {
			t.Errorf("prompt of %d, max %d: refusal %v, want %q", len(c.q.Prompt), c.q.MaxTokens, refusal, c.code)
		}
	}
	bad := request("acme", words(20, 1), 10)
	bad.Sampling.TopP = 3
	if _, end := read(t, r.start(bad)); end.Reason != bulkhead.Refused || end.Refusal.Code != bulkhead.CodeInvalid {
		t.Errorf("a top_p of 3 ended as %v", end.Reason)
	}
	if n := r.Snapshot().Counters; n.Submitted != 3 {
		t.Errorf("counters %+v", n)
	}
	r.finish(0)
}
