package cluster_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster/clustertest"
)

// The window is the least of all workers', and follows each change; without a pair it is 0 and every request is refused with 503.
func TestWindowIsTheLeast(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	window := func(w bulkhead.Tokens) func() bool {
		return func() bool { return r.c.Limits().Window == w }
	}
	r.until("the window is that of all", window(1024))
	r.decode[1].Do(func(s *clustertest.Settings) {
		n := &s.Info.Native
		n.Window, n.Pool, n.Queue, n.Chunk = 500, 512, 3, 32
	})
	r.until("the window is the smaller one", window(500))
	if l := r.c.Limits(); l.DecodePool != 512 || l.PrefillPool != 4096 || l.Queue != 3 || l.ModelWindow != 2048 || l.PageTokens != 16 || l.Chunk != 64 {
		t.Errorf("%+v", l)
	}
	if err := r.c.Limits().Check(); err != nil {
		t.Error(err)
	}
	if _, ref := r.submit(request(400, 200)); ref == nil || ref.Code != bulkhead.CodeContextLength || ref.Limit != 500 {
		t.Errorf("a request over the window: %v", ref)
	}
	r.decode[1].Do(func(s *clustertest.Settings) { s.Info.Native.Draining = true })
	r.until("the window is that of those that take requests", window(1024))
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Deaf = true })
	r.until("there is no pair", func() bool { return r.c.Ready() != nil })
	if l := r.c.Limits(); l.Window != 0 {
		t.Errorf("the window without a pair is %d", l.Window)
	}
	if ref := r.c.Ready(); ref.Code != bulkhead.CodeUnavailable || ref.RetryAfter == 0 {
		t.Errorf("%+v", ref)
	}
	if _, ref := r.submit(request(10, 5)); ref == nil || ref.Code != bulkhead.CodeUnavailable || ref.RetryAfter == 0 {
		t.Errorf("a request without a pair: %v", ref)
	}
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Deaf = false })
	r.until("the worker is back", func() bool { return r.c.Ready() == nil })
	req := request(10, 5)
	r.whole(r.ask(req), req)
}

// Workers that do not fit are never used, and the log says what they have and what was wanted.
func TestUnusable(t *testing.T) {
	for name, change := range map[string]func(*clustertest.Settings){
		"fingerprint": func(s *clustertest.Settings) { s.Info.Native.Fingerprint = strings.Repeat("12", 32) },
		"certificate": func(s *clustertest.Settings) { s.Info.Mode = "decode" },
		"larger than": func(s *clustertest.Settings) { s.Info.Native.Window = 4097 },
		"queue is 0":  func(s *clustertest.Settings) { s.Info.Native.Queue = 0 },
		"handoff":     func(s *clustertest.Settings) { s.Info.Native.Handoff = "nowhere" },
		"names must":  func(s *clustertest.Settings) { s.Info.Native.Name = "prefill-0" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, 1, nil)
			r.prefill[1].Do(change)
			r.until("it is out", func() bool { return r.in() == 2 })
			for range 5 {
				req := request(10, 3)
				r.whole(r.ask(req), req)
			}
			if n := len(r.prefill[1].Requests()); n != 0 {
				t.Errorf("it got %d requests", n)
			}
			if p := r.state(r.prefill[1]).Problem; p == "" || name != "certificate" && !strings.Contains(p, name) {
				t.Errorf("the problem is %q", p)
			}
			r.logged("cannot be used")
		})
	}
}

// A pair is made only of workers with one layout.
func TestLayoutsAreNotMixed(t *testing.T) {
	r := newRig(t, 2, 2, nil)
	for _, w := range []*clustertest.Worker{r.prefill[1], r.decode[1]} {
		w.Do(func(s *clustertest.Settings) { s.Info.Native.Layout = "beef" })
	}
	time.Sleep(100 * time.Millisecond)
	layouts := map[string]string{"prefill-0": "0", "decode-0": "0", "prefill-1": "1", "decode-1": "1"}
	for i := range 20 {
		req := request(10+i, 3)
		r.whole(r.ask(req), req)
	}
	for _, w := range r.prefill {
		for _, q := range w.Requests() {
			if layouts[q.Native.Prefill] != layouts[q.Native.Decode] {
				t.Errorf("%s with %s", q.Native.Prefill, q.Native.Decode)
			}
		}
	}
}

// A worker that computes nothing is out, though it answers its probes, and so is one that does not answer them; what that one
// owed ends within the probes' time.
func TestSick(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Sick = true })
	r.until("the sick one is out", func() bool { return r.in() == 2 })
	r.prefill[1].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Deaf) })
	s, ref := r.submit(request(10, 5))
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("it has heard", func() bool { return len(r.prefill[1].Requests()) == 1 })
	r.prefill[1].Do(func(s *clustertest.Settings) { *s.Deaf = true })
	start := time.Now()
	if a := r.read(s); a.end.Reason != bulkhead.Failed {
		t.Errorf("%+v", a.end)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Sick = false })
	r.until("the other is back", func() bool { return r.c.Ready() == nil })
	req := request(10, 5)
	r.whole(r.ask(req), req)
}

// Requests with one beginning go to one worker, and others elsewhere. A restart is another start id: what was cached there is
// forgotten.
func TestAffinity(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	long := request(500, 2)
	for range 6 {
		r.whole(r.ask(long), long)
		r.over()
	}
	a, b := len(r.prefill[0].Requests()), len(r.prefill[1].Requests())
	if a != 6 && b != 6 {
		t.Errorf("%d and %d requests of one beginning", a, b)
	}
	for _, w := range r.prefill {
		w.Do(func(s *clustertest.Settings) { s.Info.Native.Start = "again" })
	}
	r.until("the restarts were seen", func() bool { return strings.Count(r.log.String(), "started again") == 2 })
	if got := r.metric("bulkhead_cluster_affinity_tokens_total"); !strings.Contains(got, `role="prefill"} 2240`) {
		t.Errorf("tokens thought to be cached: %s", got)
	}
	r.whole(r.ask(long), long)
	if got := r.metric("bulkhead_cluster_affinity_tokens_total"); !strings.Contains(got, `role="prefill"} 2240`) {
		t.Errorf("after the restarts: %s", got)
	}
}

// metric is the lines of one metric, as /metrics shows them.
func (r *rig) metric(name string) string {
	r.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var out []string
	for _, line := range strings.Split(w.Body.String(), "\n") {
		if strings.HasPrefix(line, name) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// Where all queues are full a request is refused before any worker hears of it.
func TestShedding(t *testing.T) {
	r := newRig(t, 1, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) {
		s.Info.Native.Queue, s.Info.Native.Running = 2, 1
		*s.Fault = clustertest.Always(clustertest.Hang)
	})
	r.until("the limits are known", func() bool { return r.c.Limits().Queue == 2 })
	for range 3 {
		s, ref := r.submit(request(10, 5))
		if ref != nil {
			t.Fatal(ref)
		}
		defer s.Leave()
	}
	if _, ref := r.submit(request(10, 5)); ref == nil || ref.Code != bulkhead.CodeBusy || ref.RetryAfter == 0 {
		t.Errorf("the fourth: %v", ref)
	}
	if got := r.metric("bulkhead_cluster_requests_in_flight"); !strings.Contains(got, `role="prefill",worker="`+r.prefill[0].URL+`"} 3`) {
		t.Error(got)
	}
}

// A worker that refuses because it drains gets nothing more until its next good probe, and is not charged.
func TestDraining(t *testing.T) {
	r := newRig(t, 1, 2, func(c *cluster.Config, _ *rig) { c.Probes.Every = time.Minute })
	r.decode[0].Do(func(s *clustertest.Settings) {
		*s.Fault, *s.Status, *s.Failure = clustertest.Always(clustertest.Refuse), 503, clustertest.Failure(bulkhead.CodeDraining, "shutting down")
	})
	for range 8 {
		req := request(10, 3)
		r.whole(r.ask(req), req)
	}
	if n := len(r.decode[0].Requests()); n != 1 {
		t.Errorf("it got %d requests, want 1", n)
	}
	if s := r.state(r.decode[0]); s.Breaker != "closed" || s.In {
		t.Errorf("%+v", s)
	}
}

// A list is exchanged while requests run: what a removed worker has goes on, and it gets nothing more.
func TestSetMembers(t *testing.T) {
	r := newRig(t, 1, 2, nil)
	r.decode[0].Do(func(s *clustertest.Settings) { *s.Gap = 20 * time.Millisecond })
	m := r.members()
	m.Decode = m.Decode[:1]
	if err := r.c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	req := request(10, 10)
	s, ref := r.submit(req)
	if ref != nil {
		t.Fatal(ref)
	}
	m.Decode = r.members().Decode[1:]
	if err := r.c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	r.whole(r.read(s), req)
	r.until("the other is in", func() bool { return r.in() == 2 })
	r.whole(r.ask(req), req)
	if a, b := len(r.decode[0].Requests()), len(r.decode[1].Requests()); a != 1 || b != 1 {
		t.Errorf("%d and %d requests", a, b)
	}
	m.Decode[0].URL = "http://192.0.2.1:1"
	if err := r.c.SetMembers(m); err == nil || !strings.Contains(err.Error(), "unencrypted") {
		t.Errorf("plaintext to another host: %v", err)
	}
	if len(r.c.Snapshot().Workers) != 2 {
		t.Error("a refused list changed something")
	}
}

// A worker that is taken off the list because it hangs is probed on, so that what it has is tried elsewhere.
func TestRemovedWhileItHangs(t *testing.T) {
	r := newRig(t, 2, 1, nil)
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Fault = clustertest.Always(clustertest.Deaf) })
	m, both := r.members(), r.members().Prefill
	m.Prefill = both[:1]
	if err := r.c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	req := request(10, 5)
	s, ref := r.submit(req)
	if ref != nil {
		t.Fatal(ref)
	}
	r.until("it has heard", func() bool { return len(r.prefill[0].Requests()) == 1 })
	m.Prefill = both[1:]
	if err := r.c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	r.until("the other is in", func() bool { return r.in() == 2 })
	r.prefill[0].Do(func(s *clustertest.Settings) { *s.Deaf = true })
	start := time.Now()
	r.whole(r.read(s), req)
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

// A file is followed; one that is wrong changes nothing, and is complained of once.
func TestWatch(t *testing.T) {
	r := newRig(t, 1, 2, nil)
	file := filepath.Join(t.TempDir(), "workers.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("prefill:\n  - url: " + r.prefill[0].URL + "\ndecode:\n  - url: " + r.decode[0].URL + "\n")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.c.Watch(ctx, file) }()
	defer func() { cancel(); <-done }()
	r.until("the file is in use", func() bool { return len(r.c.Snapshot().Workers) == 2 })
	write("prefill: []\n")
	r.until("the wrong file is noticed", func() bool { return strings.Contains(r.log.String(), "is not taken") })
	if len(r.c.Snapshot().Workers) != 2 {
		t.Error("a wrong file changed something")
	}
	write("prefill:\n  - url: " + r.prefill[0].URL + "\ndecode:\n  - url: " + r.decode[0].URL + "\n  - url: " + r.decode[1].URL + "\n")
	r.until("the right one is in use", func() bool { return len(r.c.Snapshot().Workers) == 3 })
	if n := strings.Count(r.log.String(), "is not taken"); n != 1 {
		t.Errorf("%d complaints", n)
	}
}
