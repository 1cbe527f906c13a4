package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// On both sides of every limit: one less, the limit, one more. What is refused, no worker has heard of.
func TestAdmissionBorders(t *testing.T) {
	g, b := newGateway(t, nil)
	frame := len(must(gatewaytest.Text{}.Chat(messages(""))))
	window := int(limits.Window)
	for _, c := range []struct {
		prompt, max int // tokens; max 0: none given
		n           int
		ok          bool
	}{
		{window - 1, 0, 1, true}, {window, 0, 1, false}, {window + 1, 0, 1, false},
		{window - 1, 1, 1, true}, {window - 1, 2, 1, false}, {window - 2, 1, 1, true},
		{frame, window - frame, 1, true}, {frame, window - frame + 1, 1, false}, {frame, window, 1, false}, {frame, 1 << 40, 1, false},
		{frame, 1, limits.QueueTenant, true}, {frame, 1, limits.QueueTenant + 1, false},
	} {
		for _, stream := range []bool{false, true} {
			more := fmt.Sprintf(`,"n":%d,"stream":%v`, c.n, stream)
			if c.max > 0 {
				more += fmt.Sprintf(`,"max_tokens":%d`, c.max)
			}
			before := len(b.Taken())
			w := post(t, g.Handler(), "/v1/chat/completions", chatBody(strings.Repeat("x", c.prompt-frame), more))
			taken := len(b.Taken()) - before
			if ok := w.Code == 200; ok != c.ok || !ok && (w.Code != 400 || taken != 0) || ok && taken != c.n {
				t.Errorf("%+v, stream %v: status %d, %d submitted: %s", c, stream, w.Code, taken, w.Body)
			}
			if !c.ok && c.n == 1 && !strings.Contains(w.Body.String(), "context_length_exceeded") {
				t.Errorf("%+v: %s", c, w.Body)
			}
		}
	}
}

// Whatever a client sends, the answer is a status that a client knows and a body that it can read.
func FuzzServe(f *testing.F) {
	g, _ := newGateway(f, nil)
	f.Add("/v1/chat/completions", []byte(chatBody("Hi", `,"stream":true,"n":2,"stop":"i","logprobs":true`)))
	f.Add("/v1/completions", []byte(`{"model":"m","prompt":[[1,2,256],[257]],"echo":true,"max_tokens":3}`))
	f.Add("/tokenize", []byte(`{"prompt":"x","return_token_strs":true}`))
	f.Add("/detokenize", []byte(`{"tokens":[195,1,258]}`))
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " ?#%") || strings.ContainsFunc(path, func(r rune) bool { return r < '!' || r > '~' }) {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(string(body))))
		switch w.Code {
		case 200:
		case 400, 404, 405:
			var answer struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Error.Message == "" || answer.Error.Code == "" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		for _, event := range strings.Split(w.Body.String(), "\n") {
			event = strings.TrimPrefix(event, "data: ")
			if event != "" && event != "[DONE]" && !json.Valid([]byte(event)) {
				t.Fatalf("no JSON: %q", event)
			}
		}
	})
}

// BenchmarkStream is what the gateway costs for each token of a stream.
func BenchmarkStream(b *testing.B) {
	g, backend := newGateway(b, nil)
	backend.Answer = gatewaytest.Repeat
	body := chatBody(strings.Repeat("x", 70), `,"stream":true`)
	for b.Loop() {
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/12, "ns/token")
}

func messages(content string) []openai.Message {
	return []openai.Message{{Role: "user", Content: content}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
