package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

const boot = `"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":7`

var both = map[string]string{
	"/generate":            `{"text":"hi","stream":%v,` + boot + `}`,
	"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":%v,` + boot + `}`,
	"/v1/completions":      `{"model":"m","prompt":"hi","stream":%v,` + boot + `}`,
}

// Prefill says nothing, not even a header, before decode has committed; and then the truth.
func TestPrefillWaitsForTheOutcome(t *testing.T) {
	s, g, _ := newGated(t, worker.Prefill, nil)
	n := 0
	for path, body := range both {
		for _, stream := range []bool{false, true} {
			for reason, status := range map[bulkhead.Reason]int{bulkhead.HandedOver: 200, bulkhead.Violated: 500, bulkhead.Failed: 500} {
				t.Run(fmt.Sprint(path, stream, reason), func(t *testing.T) {
					a := ask(t, s, path, fmt.Sprintf(body, stream))
					w := g.stream(t, n)
					n++
					a.mustWait(t)
					w.end(reason)
					part := map[bool]string{true: `"error"`, false: "length"}[status != 200]
					got := a.want(t, status, part)
					if done := strings.Contains(got, "[DONE]"); done != (stream && status == 200) {
						t.Errorf("[DONE]: %v in %s", done, got)
					}
				})
			}
		}
	}
}

// Of several choices prefill waits for all.
func TestPrefillWaitsForEveryChoice(t *testing.T) {
	s, g, _ := newGated(t, worker.Prefill, nil)
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"n":3,` + boot + `}`
	a := ask(t, s, "/v1/chat/completions", body)
	for i := range 2 {
		g.stream(t, i).end(bulkhead.HandedOver)
	}
	g.stream(t, 2)
	a.mustWait(t)
	g.stream(t, 2).end(bulkhead.Violated)
	a.want(t, 500, "kv_integrity_violation")
	if !g.stream(t, 0).left() || !g.stream(t, 1).left() {
		t.Error("the other choices were not left")
	}
	a = ask(t, s, "/v1/chat/completions", body)
	for i := range 3 {
		g.stream(t, 3+i).end(bulkhead.HandedOver)
	}
	a.want(t, 200, "[DONE]")
}

// Decode's first byte is its first token.
func TestDecodeWaitsForTheFirstToken(t *testing.T) {
	s, g, _ := newGated(t, worker.Decode, nil)
	n := 0
	for path, body := range both {
		a := ask(t, s, path, fmt.Sprintf(body, true))
		w := g.stream(t, n)
		n++
		a.mustWait(t)
		w.events <- bulkhead.Event{Token: 'h'}
		w.end(bulkhead.Violated)
		if got := a.want(t, 200, "kv_integrity_violation"); strings.Contains(got, "[DONE]") {
			t.Errorf("%s: a failed answer ends as a whole one: %s", path, got)
		}
	}
}

// A client that hangs up is told of to the worker, at both workers and on every route.
func TestHangingUpLeaves(t *testing.T) {
	for _, side := range []worker.Side{worker.Prefill, worker.Decode} {
		s, g, _ := newGated(t, side, nil)
		n := 0
		for path, body := range both {
			a := ask(t, s, path, fmt.Sprintf(body, true))
			w := g.stream(t, n)
			n++
			a.cancel()
			if !w.left() {
				t.Errorf("%v %s: the worker was not told", side, path)
			}
			<-a.status
		}
	}
}

// An abort ends the request of that whole id and no other; the id is free again afterwards.
func TestAbortByWholeID(t *testing.T) {
	s, g, _ := newGated(t, worker.Decode, nil)
	request := func(rid string) *asked {
		return ask(t, s, "/generate", fmt.Sprintf(`{"text":"hi","rid":%q,%s}`, rid, boot))
	}
	abort := func(rid string, n int) {
		t.Helper()
		ask(t, s, "/abort_request", fmt.Sprintf(`{"rid":%q}`, rid)).want(t, 200, fmt.Sprintf(`{"aborted":%d}`, n))
	}
	a := request("abcdef")
	g.stream(t, 0)
	b := request("abcd")
	g.stream(t, 1)
	request("abcd").want(t, 400, "running")
	abort("a", 0)
	abort("abcdefg", 0)
	abort("abcd", 1)
	b.want(t, 499, "request_aborted")
	a.mustWait(t)
	abort("abcdef", 1)
	a.want(t, 499, "request_aborted")
	c := request("abcd")
	g.stream(t, 2).end(bulkhead.Length)
	c.want(t, 200, `"id":"abcd"`)
}

// An operator can end everything.
func TestAbortAll(t *testing.T) {
	role := "gateway"
	var mu sync.Mutex
	s, g, _ := newGated(t, worker.Decode, func(c *api.Config) {
		c.Peer = func(*http.Request) (string, string, bool) { mu.Lock(); defer mu.Unlock(); return role, "x", true }
	})
	var all []*asked
	for i := range 3 {
		all = append(all, ask(t, s, "/generate", `{"text":"hi",`+boot+`}`))
		g.stream(t, i)
	}
	mu.Lock()
	role = "operator"
	mu.Unlock()
	ask(t, s, "/abort_request", `{"abort_all":true}`).want(t, 200, `{"aborted":3}`)
	for _, a := range all {
		a.want(t, 499, "request_aborted")
	}
}

// What is inside is bounded by what the worker runs and queues.
func TestRequestsInsideAreBounded(t *testing.T) {
	s, g, _ := newGated(t, worker.Decode, nil)
	limit := limits.Queue + 2*limits.Running + 16
	var all []*asked
	for i := range limit {
		all = append(all, ask(t, s, "/generate", `{"text":"hi",`+boot+`}`))
		g.stream(t, i)
	}
	for path, body := range both {
		ask(t, s, path, fmt.Sprintf(body, false)).want(t, 429, "rate_limit_exceeded")
	}
	for i, a := range all {
		g.stream(t, i).end(bulkhead.Length)
		a.want(t, 200, "")
	}
	a := ask(t, s, "/generate", `{"text":"hi",`+boot+`}`)
	g.stream(t, limit).end(bulkhead.Length)
	a.want(t, 200, "")
}

// A worker that drains takes nothing new, says so, and lets what runs end.
func TestDrain(t *testing.T) {
	s, g, a := newGated(t, worker.Decode, nil)
	running := ask(t, s, "/generate", `{"text":"hi",`+boot+`}`)
	w := g.stream(t, 0)
	a.Drain()
	for path, body := range both {
		ask(t, s, path, fmt.Sprintf(body, false)).want(t, 503, "server_draining")
	}
	for _, path := range []string{"/health", "/health_generate", "/server_info"} {
		resp, err := s.Client().Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(b), "drain") || resp.StatusCode != 503 && path != "/server_info" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, b)
		}
	}
	w.end(bulkhead.Length)
	running.want(t, 200, "length")
}

// Whoever does not send the body does not hold a place for long.
func TestSlowBody(t *testing.T) {
	s, _, _ := newGated(t, worker.Decode, func(c *api.Config) { c.BodyTimeout = 50 * time.Millisecond })
	for path := range both {
		r, w := io.Pipe()
		req, _ := http.NewRequest("POST", s.URL+path, r)
		go w.Write([]byte(`{"text":`))
		resp, err := s.Client().Do(req)
		w.Close()
		if err != nil {
			continue // the connection was closed, which is as good
		}
		if resp.StatusCode != 408 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
		resp.Body.Close()
	}
}

// Each token of a stream is sent on its way at once.
func TestEventsAreFlushed(t *testing.T) {
	s, g, _ := newGated(t, worker.Decode, nil)
	resp := make(chan *http.Response, 1)
	go func() {
		r, err := s.Client().Post(s.URL+"/generate", "application/json", strings.NewReader(`{"text":"hi","stream":true,`+boot+`}`))
		if err != nil {
			t.Error(err)
		}
		resp <- r
	}()
	w := g.stream(t, 0)
	w.events <- bulkhead.Event{Token: 'h'}
	r := <-resp
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for _, want := range []string{"h", "ho"} {
		for lines.Scan() && lines.Text() == "" {
		}
		var got struct{ Text string }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &got); err != nil || got.Text != want {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		w.events <- bulkhead.Event{Token: 'o'}
	}
	w.end(bulkhead.Length)
	io.Copy(io.Discard, r.Body)
}

// A handler that panics has told the worker to stop, and its client that it failed.
func TestPanic(t *testing.T) {
	s, _, _ := newGated(t, worker.Decode, func(c *api.Config) { c.Worker = broken{c.Worker} })
	for path, body := range both {
		ask(t, s, path, fmt.Sprintf(body, false)).want(t, 500, "internal_error")
	}
	ask(t, s, "/abort_request", `{"rid":"a"}`).want(t, 200, `{"aborted":0}`)
}

type broken struct{ api.Worker }

func (broken) Submit(worker.Order) (gateway.Stream, *bulkhead.Refusal) { panic("broken") }
