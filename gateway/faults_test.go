package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
)

func post(t testing.TB, h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func chatBody(content, more string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]%s}`, content, more)
}

// What ends a request in the workers reaches the client as a status before the first token, as an event after it, and
// says nothing of what is inside.
func TestFaults(t *testing.T) {
	violation := &bulkhead.Violation{Page: 987654321, At: 3, Layer: 2, Part: bulkhead.PartK, Expected: "wanted-sum", Found: "other-sum"}
	deadline := bulkhead.Refuse(bulkhead.CodeDeadline, "", "the deadline passed in the queue")
	for _, c := range []struct {
		name   string
		end    bulkhead.End
		status int
		want   string // in the error
	}{
		{"violation", bulkhead.End{Reason: bulkhead.Violated, Err: violation}, 500, `"type":"kv_integrity_violation"`},
		{"refusal", bulkhead.End{Reason: bulkhead.Refused, Refusal: deadline}, 504, `"code":"deadline_exceeded"`},
		{"fault", bulkhead.End{Reason: bulkhead.Failed, Err: errors.New("wanted-sum, other-sum at 10.0.0.7:987654321")}, 500, `"code":"internal_error"`},
		{"abort that nobody asked for", bulkhead.End{Reason: bulkhead.Aborted}, 500, `"code":"internal_error"`},
	} {
		for _, at := range []int{0, 2} {
			for _, n := range []int{1, 3} {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s at %d, %d choices, stream %v", c.name, at, n, stream), func(t *testing.T) {
						g, b := newGateway(t, nil)
						b.Fault = func(r bulkhead.Request, i int) *bulkhead.End {
							if i == at && strings.HasSuffix(string(r.ID), fmt.Sprintf("-%03d", n-1)) {
								return &c.end
							}
							if i == at && at == 0 { // the others wait, so that the fault is first
								time.Sleep(5 * time.Millisecond)
							}
							return nil
						}
						w := post(t, g.Handler(), "/v1/chat/completions", chatBody("abcdef", fmt.Sprintf(`,"n":%d,"stream":%v`, n, stream)))
						body := w.Body.String()
						begun := stream && at > 0
						switch {
						case !begun && w.Code != c.status, begun && w.Code != 200:
							t.Errorf("status %d", w.Code)
						case !strings.Contains(body, c.want), strings.Contains(body, "[DONE]"):
							t.Errorf("body %s", body)
						case begun && !strings.Contains(body[strings.LastIndex(body, "data: "):], c.want):
							t.Errorf("the error is not the last event: %s", body)
						}
						for _, secret := range []string{"987654321", "wanted-sum", "other-sum", "10.0.0.7"} {
							if strings.Contains(body, secret) {
								t.Errorf("%s reached the client: %s", secret, body)
							}
						}
					})
				}
			}
		}
	}
}

// A choice that the workers do not take takes back those before it.
func TestAllChoicesOrNone(t *testing.T) {
	g, b := newGateway(t, nil)
	b.Refuse = func(r bulkhead.Request) *bulkhead.Refusal {
		if strings.HasSuffix(string(r.ID), "-002") {
			return &bulkhead.Refusal{Code: bulkhead.CodeBusy, Message: "the queue is full", RetryAfter: 3 * time.Second}
		}
		return nil
	}
	w := post(t, g.Handler(), "/v1/chat/completions", chatBody("Hi", `,"n":4`))
	if w.Code != 429 || w.Header().Get("Retry-After") != "3" || len(b.Taken()) != 2 || b.Left() != 2 || b.Open() != 0 {
		t.Errorf("status %d, retry after %q, %d taken, %d left, %d open", w.Code, w.Header().Get("Retry-After"), len(b.Taken()), b.Left(), b.Open())
	}
}

// A client that hangs up leaves its streams, whenever it does.
func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name, more string
		read       int // events before it leaves
		streams    int
	}{
		{"before the first token", `,"stream":true`, 0, 1},
		{"in a stream", `,"stream":true`, 3, 1},
		{"in a stream of three choices", `,"stream":true,"n":3`, 3, 3},
		{"while it waits for the whole", ``, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, b := newGateway(t, nil)
			b.Pace = 20 * time.Millisecond
			server := httptest.NewServer(g.Handler())
			defer server.Close()
			ctx, leave := context.WithCancel(context.Background())
			r, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions",
				strings.NewReader(chatBody(strings.Repeat("x", 70), c.more)))
			if c.read == 0 {
				time.AfterFunc(10*time.Millisecond, leave)
			}
			answer, err := http.DefaultClient.Do(r)
			if err == nil {
				events := bufio.NewScanner(answer.Body)
				for range 2 * c.read {
					events.Scan()
				}
				leave()
				answer.Body.Close()
			} else if c.read > 0 {
				t.Fatal(err)
			}
			leave()
			within(t, func() bool { return b.Left() == c.streams && b.Open() == 0 })
		})
	}
}

func within(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 5 s")
		}
	}
}

// A stop string ends the workers' stream by name, and the answer does not wait for more tokens.
func TestStopStringLeaves(t *testing.T) {
	g, b := newGateway(t, nil)
	w := post(t, g.Handler(), "/v1/chat/completions", chatBody("one two three", `,"stop":"tw"`))
	if !strings.Contains(w.Body.String(), `"content":"one "`) || b.Left() != 1 {
		t.Errorf("%d left: %s", b.Left(), w.Body)
	}
}

// After Drain what runs goes on and nothing new is taken.
func TestDrain(t *testing.T) {
	g, b := newGateway(t, nil)
	b.Pace = 5 * time.Millisecond
	var running sync.WaitGroup
	running.Go(func() {
		if w := post(t, g.Handler(), "/v1/chat/completions", chatBody("a running request", "")); w.Code != 200 {
			t.Errorf("the running request ended with %d: %s", w.Code, w.Body)
		}
	})
	within(t, func() bool { return b.Open() == 1 })
	g.Drain()
	for path, body := range map[string]string{"/v1/chat/completions": chatBody("Hi", ""), "/tokenize": `{"prompt":"a"}`} {
		w := post(t, g.Handler(), path, body)
		if w.Code != 503 || w.Header().Get("Retry-After") != "20" || !strings.Contains(w.Body.String(), "server_draining") {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
	if w.Code != 503 {
		t.Errorf("health is %d", w.Code)
	}
	running.Wait()
}

// The gate has room for what the workers run and queue of one tenant, and no more; a full gate says when to come again.
func TestGate(t *testing.T) {
	g, b := newGateway(t, func(c *gateway.Config) { c.Keys, _ = gateway.ParseKeys([]byte(testKeys)) })
	b.Pace = 50 * time.Millisecond
	ctx, leave := context.WithCancel(context.Background())
	var inside sync.WaitGroup
	const room = 4 + 4 + 16 // QueueTenant, Running, spare
	for range room {
		inside.Go(func() {
			r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(chatBody(strings.Repeat("x", 50), ""))).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer sk-harbor-0123456789")
			g.Handler().ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	within(t, func() bool { return b.Open() == room })
	w := post(t, g.Handler(), "/v1/chat/completions", chatBody("Hi", ""), "Authorization", "Bearer sk-harbor-0123456789")
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("one too many: %d %v", w.Code, w.Header())
	}
	w = post(t, g.Handler(), "/tokenize", `{"prompt":"a"}`, "Authorization", "Bearer sk-ops-0123456789abc")
	if w.Code != 200 {
		t.Errorf("another tenant: %d %s", w.Code, w.Body)
	}
	leave()
	inside.Wait()
	if w = post(t, g.Handler(), "/tokenize", `{"prompt":"a"}`, "Authorization", "Bearer sk-harbor-0123456789"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// A body that does not come holds nothing for long, also where the answer does not depend on it.
func TestSlowBody(t *testing.T) {
	g, _ := newGateway(t, func(c *gateway.Config) { c.BodyTimeout = 50 * time.Millisecond })
	send := serveRaw(t, g)
	for _, c := range []struct {
		head   string
		status int
		code   string
	}{
		{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n", 408, "request_timeout"},
		{"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n", 415, "unsupported_media_type"},
		{"PUT /v1/chat/completions HTTP/1.1\r\nHost: x\r\n", 405, "method_not_supported"},
		{"POST /nowhere HTTP/1.1\r\nHost: x\r\n", 404, "unknown_url"},
		{"GET /health HTTP/1.1\r\nHost: x\r\n", 200, "ok"},
	} {
		for _, body := range []string{"Content-Length: 100\r\n\r\n{\"model\"", "Transfer-Encoding: chunked\r\n\r\n8\r\n{\"model\""} {
			answer, text := send(c.head + body)
			if answer.StatusCode != c.status || !strings.Contains(text, c.code) {
				t.Errorf("%q: %d %s", c.head, answer.StatusCode, text)
			}
		}
	}
}

// A client that does not read its stream is dropped, and its stream is left.
func TestStuckReader(t *testing.T) {
	g, b := newGateway(t, func(c *gateway.Config) {
		l := limits
		l.Window, l.PrefillPool, l.DecodePool, l.ModelWindow = 1<<20, 1<<20, 1<<20, 1<<20
		c.Backend = gatewaytest.NewBackend(l)
		c.WriteTimeout = 100 * time.Millisecond
	})
	b.Answer = func(bulkhead.Request) []bulkhead.Token { return gatewaytest.Bytes(strings.Repeat("x", 1<<19)) }
	server := httptest.NewServer(g.Handler())
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := chatBody("Hi", `,"stream":true`)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	within(t, func() bool { return b.Left() == 1 && b.Open() == 0 })
}
