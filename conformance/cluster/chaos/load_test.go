package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
)

const (
	rightBody = `{"choices":[{"index":0,"message":{"content":"7QK2M"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	begun     = `data: {"choices":[{"index":0,"delta":{"content":"7Q"},"finish_reason":null}]}` + "\n\n"
)

func failure(code string) string {
	return fmt.Sprintf(`{"error":{"message":"m","type":"server_error","param":null,"code":%q}}`, code)
}

// What the load takes for right, for a clean error, and for wrong.
func TestJudge(t *testing.T) {
	var status int
	var body string
	header := http.Header{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k := range header {
			w.Header().Set(k, header.Get(k))
		}
		if strings.HasPrefix(body, "data:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	q := ask.Question{Name: "q", Path: "/", Body: map[string]any{}}
	status, body = 200, rightBody
	want, err := q.Ask(t.Context(), s.Client(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, retry string
		status      int
		body, wrong string
	}{
		{"right", "", 200, rightBody, ""},
		{"a worker failed", "", 500, failure("internal_error"), ""},
		{"shed", "1", 429, failure("rate_limit_exceeded"), ""},
		{"failed in mid-stream", "", 200, begun + "data: " + failure("internal_error") + "\n\n", ""},
		{"a wrong token", "", 200, strings.Replace(rightBody, "7QK2M", "7QK2N", 1), "a wrong token"},
		{"a wrong token before a failure", "", 200, strings.Replace(begun, "7Q", "8Q", 1) + "data: " + failure("internal_error") + "\n\n", "a wrong token"},
		{"fewer tokens", "", 200, strings.Replace(rightBody, "7QK2M", "7QK", 1), "7QK"},
		{"a stream that breaks off", "", 200, begun, "ends without"},
		{"the client is blamed", "", 400, failure("invalid_request"), "may not be"},
		{"a violation", "", 500, failure("kv_integrity_violation"), "may not be"},
		{"shed without a time", "", 429, failure("rate_limit_exceeded"), "Retry-After"},
		{"no OpenAI error", "", 502, "Bad Gateway", "Bad Gateway"},
	} {
		status, body = c.status, c.body
		header.Del("Retry-After")
		if c.retry != "" {
			header.Set("Retry-After", c.retry)
		}
		l := &load{url: s.URL, questions: []ask.Question{q}, want: []*ask.Answer{want}, tally: &tally{}, abort: t.Context()}
		err := l.one(s.Client(), 0, -1)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, must be %q", c.name, err, c.wrong)
		}
	}
}

// A client that hangs up is counted, and what it had heard until then is held to the answer.
func TestLeave(t *testing.T) {
	said := begun
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, said)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	want := &ask.Answer{Status: 200, Choices: map[int]*ask.Choice{0: {Text: "7QK2M", Finish: "stop"}}}
	q := ask.Question{Name: "q", Path: "/", Body: map[string]any{}}
	l := &load{url: s.URL, questions: []ask.Question{q}, want: []*ask.Answer{want}, tally: &tally{}, abort: t.Context()}
	if err := l.one(s.Client(), 0, 200*time.Millisecond); err != nil || l.tally.left != 1 {
		t.Errorf("%v, %d left", err, l.tally.left)
	}
	said = strings.Replace(begun, "7Q", "8Q", 1)
	if err := l.one(s.Client(), 0, 200*time.Millisecond); err == nil {
		t.Error("a wrong token before the client left is not seen")
	}
}
