package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// A loop that has work and takes no step for too long is not healthy, and is again when it steps. One without work is.
func TestHealthSeesAStalledLoop(t *testing.T) {
	for _, side := range []worker.Side{worker.Prefill, worker.Decode} {
		synctest.Test(t, func(t *testing.T) {
			a, f := newAPI(t, side, func(c *api.Config, _ *fake) { c.Stall = 10 * time.Second })
			look := func(want int) {
				t.Helper()
				if got, body := get(a.Handler(), "/health"); got != want {
					t.Errorf("%v: status %d, want %d: %s", side, got, want, body)
				}
			}
			set := func(work int, steps uint64) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.snapshot.Running, f.snapshot.Prefilling = work, work
				f.snapshot.Counters.DecodeSteps, f.snapshot.Counters.PrefillSteps = steps, steps
			}
			look(200)
			time.Sleep(time.Hour) // nothing to do
			look(200)
			set(2, 5)
			look(200)
			time.Sleep(9 * time.Second)
			look(200)
			time.Sleep(time.Second)
			look(503)
			set(2, 6)
			look(200)
			time.Sleep(9 * time.Second)
			set(0, 6)
			look(200)
			time.Sleep(time.Hour)
			set(1, 6)
			look(200)
		})
	}
}

// A pool of which too little is left to serve anything is not healthy.
func TestHealthSeesAnEmptyPool(t *testing.T) {
	a, _ := newAPI(t, worker.Decode, func(c *api.Config, f *fake) { c.Worker = shrunk{f} })
	if got, body := get(a.Handler(), "/health"); got != 503 || !strings.Contains(body, "set aside") {
		t.Errorf("%d %s", got, body)
	}
}

type shrunk struct{ *fake }

func (s shrunk) Limits() bulkhead.Limits {
	l := s.fake.Limits()
	l.Window = 1
	return l
}

// The generation of its own goes through the worker, and what becomes of it is the answer. Nothing is left of it.
func TestHealthGenerate(t *testing.T) {
	for name, c := range map[string]struct {
		end  *bulkhead.End
		want int
	}{
		"answered": {nil, 200}, "violated": {&bulkhead.End{Reason: bulkhead.Violated}, 500}, "failed": {&bulkhead.End{Reason: bulkhead.Failed}, 500},
		"refused": {&bulkhead.End{Reason: bulkhead.Refused, Refusal: bulkhead.Refuse(bulkhead.CodeDeadline, "", "late")}, 504},
	} {
		a, f := newAPI(t, worker.Decode, nil)
		if c.end != nil {
			f.Fault = func(bulkhead.Request, int) *bulkhead.End { return c.end }
		}
		if got, body := get(a.Handler(), "/health_generate"); got != c.want {
			t.Errorf("%s: %d %s", name, got, body)
		}
		o := f.taken()[0]
		if p := o.Peer; p.Name == "" || p.Addr != "" || o.Room == 0 || len(o.Request.Request().Prompt) != 1 {
			t.Errorf("%+v", o)
		}
	}
}

// At prefill nobody can be handed the room, so the probe waits for a computed token and leaves; a loop that computes nothing
// is told of, by either worker, within the limit.
func TestHealthGenerateOfALoopThatStands(t *testing.T) {
	for _, side := range []worker.Side{worker.Prefill, worker.Decode} {
		s, g, _ := newGated(t, side, func(c *api.Config) { c.ProbeTimeout = 60 * time.Millisecond })
		resp, err := s.Client().Get(s.URL + "/health_generate")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 503 || !strings.Contains(string(body), "computed nothing") {
			t.Errorf("%v: %d %s", side, resp.StatusCode, body)
		}
		if !g.stream(t, 0).left() {
			t.Errorf("%v: the probe is left behind", side)
		}
	}
	s, g, _ := newGated(t, worker.Prefill, nil)
	status := make(chan int, 1)
	go func() {
		resp, err := s.Client().Get(s.URL + "/health_generate")
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	w := g.stream(t, 0)
	g.fake.mu.Lock()
	g.fake.snapshot.Counters.PrefillRows++
	g.fake.mu.Unlock()
	if got := <-status; got != 200 || !w.left() {
		t.Errorf("status %d", got)
	}
}

// A probe that stands behind others in the line is no sign of a loop that stands: decode steps for those that run, and a prefill
// worker whose pages all wait for decode has nothing to compute.
func TestHealthGenerateUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		side worker.Side
		load func(*worker.Snapshot)
	}{
		"decode steps for others":  {worker.Decode, func(s *worker.Snapshot) { s.Running, s.Counters.DecodeRows = 1, s.Counters.DecodeRows+1 }},
		"prefill waits for decode": {worker.Prefill, func(s *worker.Snapshot) { s.Waiting, s.HandingOver = 2, 3 }},
	} {
		s, g, _ := newGated(t, c.side, func(c *api.Config) { c.ProbeTimeout = 2 * time.Second })
		status := make(chan int, 1)
		go func() {
			resp, err := s.Client().Get(s.URL + "/health_generate")
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			resp.Body.Close()
			status <- resp.StatusCode
		}()
		w := g.stream(t, 0)
		g.fake.mu.Lock()
		c.load(&g.fake.snapshot)
		g.fake.mu.Unlock()
		if got := <-status; got != 200 || !w.left() {
			t.Errorf("%s: status %d", name, got)
		}
	}
}

// What routers and operators read is there, by its name, for this side alone.
func TestMetrics(t *testing.T) {
	for _, side := range []worker.Side{worker.Prefill, worker.Decode} {
		a, f := newAPI(t, side, func(c *api.Config, _ *fake) { c.Rooms = func() int { return 5 } })
		f.snapshot.Counters.Violations = map[bulkhead.Part]uint64{bulkhead.PartK: 2}
		exchange(t, a.Handler(), f, "POST /generate\n{\"text\":\"hi\","+boot+"}")
		exchange(t, a.Handler(), f, "POST /generate\n{\"text\":\"hi\"}")
		_, text := get(a.Handler(), "/metrics")
		_, same := get(a.Handler(), "/v1/loads?format=prometheus")
		for _, want := range []string{"sglang:max_total_num_tokens 128", "sglang:num_running_reqs 0", "sglang:num_queue_reqs 0", "sglang:token_usage 0.25",
			`bulkhead_pages{state="cached",worker="` + side.String() + `"} 1`, `bulkhead_worker_violations_total{part="k"} 2`,
			`bulkhead_generate_total{code="",status="200"} 1`, `bulkhead_generate_total{code="invalid_request",status="400"} 1`, "bulkhead_window_tokens 100", "bulkhead_rooms 5"} {
			if !strings.Contains(text, want+"\n") || !strings.Contains(same, want+"\n") {
				t.Errorf("%v: no %s in:\n%s", side, want, text)
			}
		}
		if other := (1 - side).String(); strings.Contains(text, `worker="`+other+`"`) {
			t.Errorf("%v speaks of %s", side, other)
		}
	}
}
