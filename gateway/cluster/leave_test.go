package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster/clustertest"
)

// A client that leaves before the transfer: prefill is stopped by name, and decode when prefill has answered.
func TestLeaveBeforeTransfer(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Hang) })
	s, ref := r.submit(request(10, 5))
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("both have heard", func() bool { return len(r.prefill[0].Requests()) == 1 && len(r.decode[0].Requests()) == 1 })
	s.Leave()
	s.Leave()
	if a := r.read(s); a.end.Reason != bulkhead.Aborted || len(a.tokens) != 0 {
		t.Errorf("%+v", a.end)
	}
	r.over()
	rid := r.prefill[0].Requests()[0].Rid
	if a := r.prefill[0].Aborts(); len(a) == 0 || a[0] != rid {
		t.Errorf("prefill was told %q", a)
	}
	if a := r.decode[0].Aborts(); len(a) == 0 || a[0] != rid {
		t.Errorf("decode was told %q", a)
	}
}

// A client that leaves during the transfer changes nothing before it is over: decode is held until its first token, and stopped
// then.
func TestLeaveDuringTransfer(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Slow) })
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Gap = 20 * time.Millisecond })
	s, ref := r.submit(request(10, 500))
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("both have heard", func() bool { return len(r.prefill[0].Requests()) == 1 && len(r.decode[0].Requests()) == 1 })
	s.Leave()
	if a := r.read(s); a.end.Reason != bulkhead.Aborted || len(a.tokens) != 0 {
		t.Errorf("%+v", a.end)
	}
	time.Sleep(250 * time.Millisecond)
	if n := len(r.prefill[0].Aborts()); n == 0 {
		t.Error("prefill was not told")
	}
	if a := r.decode[0].Aborts(); len(a) != 0 {
		t.Errorf("decode was stopped while the transfer ran: %q", a)
	}
	if n := r.c.Snapshot().Flights; n != 1 {
		t.Errorf("%d attempts in flight: the pair is not held", n)
	}
	r.prefill[0].Release()
	r.over()
	if a := r.decode[0].Aborts(); len(a) == 0 || a[0] != r.decode[0].Requests()[0].Rid {
		t.Errorf("decode was told %q", a)
	}
}

// A client that leaves after the first token: decode is stopped by name.
func TestLeaveAfterFirstToken(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Gap = 20 * time.Millisecond })
	s, ref := r.submit(request(10, 500))
	if ref != nil {
		t.Fatal(ref)
	}
	if _, ok := s.Next(context.Background()); !ok {
		t.Fatal("no token")
	}
	s.Leave()
	if a := r.read(s); a.end.Reason != bulkhead.Aborted || a.end.Cached != 8 {
		t.Errorf("%+v", a.end)
	}
	r.over()
	if a := r.decode[0].Aborts(); len(a) == 0 {
		t.Error("decode was not told")
	}
}

// The hold is bounded: a worker that does not answer to aborts is told again and again, and then its connection is closed.
func TestHoldIsBounded(t *testing.T) {
	r := newRig(t, 1, 1, func(c *cluster.Config, _ *rig) { c.Timeouts.Hold = 600 * time.Millisecond })
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Deaf) })
	s, ref := r.submit(request(10, 5))
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("both have heard", func() bool { return len(r.prefill[0].Requests()) == 1 && len(r.decode[0].Requests()) == 1 })
	s.Leave()
	if a := r.read(s); a.end.Reason != bulkhead.Aborted {
		t.Errorf("%+v", a.end)
	}
	r.over()
	if n := len(r.prefill[0].Aborts()); n < 3 {
		t.Errorf("prefill was told %d times", n)
	}
	r.logged("not done in time", "role=prefill")
}

// Close ends what runs with 503, tells both workers, and waits for nothing long.
func TestClose(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Deaf) })
	s, ref := r.submit(request(10, 5))
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("both have heard", func() bool { return len(r.prefill[0].Requests()) == 1 && len(r.decode[0].Requests()) == 1 })
	start := time.Now()
	r.c.Close()
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("closing took %v", d)
	}
	if a := r.read(s); a.end.Reason != bulkhead.Refused || a.end.Refusal.Code != bulkhead.CodeDraining {
		t.Errorf("%+v", a.end)
	}
	if len(r.prefill[0].Aborts()) == 0 || len(r.decode[0].Aborts()) == 0 {
		t.Error("the workers were not told")
	}
	if _, ref := r.submit(request(10, 5)); ref == nil || ref.Code != bulkhead.CodeUnavailable {
		t.Errorf("after Close: %v", ref)
	}
}

// A request's own deadline ends it even where no worker does.
func TestDeadline(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Hang) })
	req := request(10, 5)
	req.Deadline = time.Now().Add(50 * time.Millisecond)
	a := r.ask(req)
	if a.end.Reason != bulkhead.Refused || a.end.Refusal.Code != bulkhead.CodeDeadline {
		t.Errorf("%+v", a.end)
	}
	r.over()
}
