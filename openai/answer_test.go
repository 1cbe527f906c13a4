package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// The shapes of answers, null and absent as the specification has them.
func TestShapes(t *testing.T) {
	head := Head{ID: "chatcmpl-1", Created: 7, Model: "m", SystemFingerprint: "fp_1"}
	text, stop := "<b>&", FinishStop
	usage := NewUsage(5, 4, 2)
	const headJSON = `"created":7,"model":"m","system_fingerprint":"fp_1","service_tier":null`
	const usageJSON = `{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,` +
		`"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	for _, c := range []struct {
		v    any
		want string
	}{
		{NewChatCompletion(head, []ChatChoice{{Message: NewAnswer(text), FinishReason: stop}}, usage),
			`{"id":"chatcmpl-1","object":"chat.completion",` + headJSON + `,"choices":[{"index":0,"message":` +
				`{"role":"assistant","content":"<b>&","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":` + usageJSON + `}`},
		{NewChatChunk(head, ChunkUsage{}, ChatDelta{Delta: Delta{Role: "assistant", Content: new(string), Refusal: &Null{}}}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk",` + headJSON + `,"choices":[{"index":0,"delta":` +
				`{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}`},
		{NewChatChunk(head, ChunkUsage{Asked: true}, ChatDelta{Index: 1, FinishReason: &stop}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk",` + headJSON +
				`,"choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`},
		{NewChatChunk(head, ChunkUsage{true, &usage}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk",` + headJSON + `,"choices":[],"usage":` + usageJSON + `}`},
		{NewCompletion(head, ChunkUsage{}, TextChoice{Text: text}),
			`{"id":"chatcmpl-1","object":"text_completion",` + headJSON +
				`,"choices":[{"index":0,"text":"<b>&","logprobs":null,"finish_reason":null}]}`},
		{ChatLogprobs{Content: []TokenLogprob{{NewAlternative([]byte("\xc3"), -0.5), []Alternative{}}}},
			`{"content":[{"token":"\ufffd","logprob":-0.5,"bytes":[195],"top_logprobs":[]}],"refusal":null}`},
	} {
		var buf bytes.Buffer
		if err := WriteJSON(&buf, c.v); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(buf.String()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A log-probability that JSON cannot hold does not break an answer.
func TestLogprobIsFinite(t *testing.T) {
	for _, x := range []float32{float32(math.Inf(-1)), float32(math.NaN()), -20000} {
		if got := Logprob(x); got != -9999 {
			t.Errorf("%v reads as %v", x, got)
		}
	}
	if got := Logprob(-0.25); got != -0.25 {
		t.Errorf("-0.25 reads as %v", got)
	}
}

// Every code of the vocabulary has a status of its own choice, and every failure an error body of OpenAI's shape.
func TestFailures(t *testing.T) {
	want := map[bulkhead.Code]int{
		bulkhead.CodeInvalid: 400, bulkhead.CodeUnsupported: 400, bulkhead.CodeForbidden: 400, bulkhead.CodeContextLength: 400,
		bulkhead.CodeUnauthorized: 401, bulkhead.CodeNotFound: 404, CodeNoRoute: 404, CodeNoMethod: 405, CodeSlow: 408,
		CodeTooLarge: 413, CodeMediaType: 415, bulkhead.CodeBusy: 429, bulkhead.CodeInternal: 500, CodeViolation: 500,
		bulkhead.CodeDraining: 503, bulkhead.CodeUnavailable: 503, bulkhead.CodeDeadline: 504, "never heard of": 500,
	}
	for code, status := range want {
		got, body := Failure(bulkhead.Refuse(code, "", "why"))
		if got != status {
			t.Errorf("%s is %d, want %d", code, got, status)
		}
		text, _ := json.Marshal(body)
		if !strings.HasPrefix(string(text), `{"error":{"message":"why","type":"`) || !strings.Contains(string(text), `"param":null`) {
			t.Errorf("%s: %s", code, text)
		}
	}
	if len(want) != len(statuses)+1 {
		t.Errorf("%d codes are tested, there are %d", len(want)-1, len(statuses))
	}
	ref := Violated()
	if _, body := Failure(ref); body.Error.Type != "kv_integrity_violation" {
		t.Errorf("a violation has the type %s", body.Error.Type)
	}
	h := http.Header{}
	FailureHeaders(h, &bulkhead.Refusal{Code: bulkhead.CodeBusy, RetryAfter: 1200 * time.Millisecond})
	FailureHeaders(h, ref)
	if h.Get("Retry-After") != "2" || h.Get("X-Should-Retry") != "false" {
		t.Errorf("headers %v", h)
	}
	h = http.Header{}
	FailureHeaders(h, &bulkhead.Refusal{Code: bulkhead.CodeUnavailable, RetryAfter: time.Second}) // workers that are away come back
	if h.Get("Retry-After") != "1" || h.Get("X-Should-Retry") != "" {
		t.Errorf("headers %v", h)
	}
}

// A stream is lines that clients can split, each event one write, and a failure is the end.
func TestEventStream(t *testing.T) {
	var w writes
	s := EventStream{W: &w}
	for _, err := range []error{s.Send(map[string]string{"a": "x\n\ny"}), s.Done(), s.Fail(Violated())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(w) != 3 || w[0] != "data: {\"a\":\"x\\n\\ny\"}\n\n" || w[1] != "data: [DONE]\n\n" ||
		!strings.HasPrefix(w[2], `data: {"error":{"message":`) || !strings.HasSuffix(w[2], "}}\n\n") {
		t.Errorf("wrote %q", []string(w))
	}
}

type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}
