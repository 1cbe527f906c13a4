package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// answer is what a client gathers of an answer, whole or streamed.
type answer struct {
	Text     map[int]string
	Finish   map[int]string
	Logprobs map[int]string
	Usage    openai.Usage
}

// A streamed answer is the whole answer in parts: text, finish reasons, log-probabilities and usage are the same.
func TestStreamIsTheWholeInParts(t *testing.T) {
	g, b := newGateway(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab é\n😀")), 0, 8, -1)
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab é\n😀")), 1, 20, -1).Draw(t, "text")
		raw := append(gatewaytest.Bytes(text), bulkhead.Token(rapid.IntRange(0, 255).Draw(t, "byte")), gatewaytest.EOS)
		b.Answer = func(bulkhead.Request) []bulkhead.Token { return raw }
		more := map[string]any{"n": rapid.IntRange(1, 3).Draw(t, "n"), "logprobs": rapid.Bool().Draw(t, "logprobs")}
		if stop := letters.Draw(t, "stop"); stop != "" {
			more["stop"] = []string{stop, "zz"}
		}
		if n := rapid.IntRange(0, 20).Draw(t, "max"); n > 0 {
			more["max_tokens"] = n
		}
		whole := ask(t, g, more)
		more["stream"], more["stream_options"] = true, map[string]bool{"include_usage": true}
		if parts := ask(t, g, more); fmt.Sprint(parts) != fmt.Sprint(whole) {
			t.Fatalf("parts %+v\nwhole %+v", parts, whole)
		}
	})
}

func ask(t *rapid.T, g *gateway.Gateway, fields map[string]any) answer {
	fields["model"], fields["messages"] = "m", []map[string]string{{"role": "user", "content": "x"}}
	body, _ := json.Marshal(fields)
	r := httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(body))
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	a := answer{map[int]string{}, map[int]string{}, map[int]string{}, openai.Usage{}}
	parts := []string{w.Body.String()}
	if fields["stream"] != nil {
		parts = strings.Split(strings.TrimSuffix(strings.ReplaceAll(w.Body.String(), "data: ", ""), "\n\n[DONE]\n\n"), "\n\n")
	}
	for _, part := range parts {
		var v struct {
			Choices []struct {
				Index          int
				Message, Delta struct{ Content string }
				FinishReason   string `json:"finish_reason"`
				Logprobs       *struct{ Content []json.RawMessage }
			}
			Usage *openai.Usage
		}
		if err := json.Unmarshal([]byte(part), &v); err != nil {
			t.Fatalf("%v: %s", err, part)
		}
		for _, c := range v.Choices {
			a.Text[c.Index] += c.Message.Content + c.Delta.Content
			a.Finish[c.Index] += c.FinishReason
			if c.Logprobs != nil {
				for _, l := range c.Logprobs.Content {
					a.Logprobs[c.Index] += string(l)
				}
			}
		}
		if v.Usage != nil {
			a.Usage = *v.Usage
		}
	}
	return a
}

// What reaches the workers is what the client asked for, under ids and seeds that Bulkhead mints.
func TestWhatIsSubmitted(t *testing.T) {
	g, b := newGateway(t, nil)
	h := g.Handler()
	body := chatBody("Hi", `,"n":3,"seed":-1,"temperature":0.5,"top_p":0,"top_k":7,"min_p":0.25,"presence_penalty":1,"frequency_penalty":-1,
		"repetition_penalty":1.5,"logit_bias":{"65":5},"logprobs":true,"top_logprobs":4,"max_tokens":9,"ignore_eos":true,"stop_token_ids":[3]`)
	for range 2 {
		if w := post(t, h, "/v1/chat/completions", body, "X-Request-Timeout", "7.5", "X-Request-Id", "mine"); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	taken := b.Taken()
	seeds := []uint64{1<<64 - 1, 0, 1}
	ids := map[bulkhead.RequestID]bool{}
	for i, r := range taken {
		s := r.Sampling
		if !regexp.MustCompile(`^[0-9a-f]{24}-00[0-2]$`).MatchString(string(r.ID)) || ids[r.ID] {
			t.Errorf("id %s", r.ID)
		}
		ids[r.ID] = true
		if s.Seed != seeds[i%3] {
			t.Errorf("choice %d has the seed %d", i, s.Seed)
		}
		if r.Tenant != (bulkhead.Tenant{Name: "default", Domain: "default"}) || r.MaxTokens != 9 || !r.IgnoreEOS || r.StopIDs[0] != 3 {
			t.Errorf("submitted %+v", r)
		}
		if s.Temperature != 0.5 || s.TopP <= 0 || s.TopP > 1e-6 || s.TopK != 7 || s.MinP != 0.25 || s.PresencePenalty != 1 ||
			s.FrequencyPenalty != -1 || s.RepetitionPenalty != 1.5 || s.LogitBias[0] != (bulkhead.TokenBias{Token: 65, Bias: 5}) ||
			!s.Logprobs || s.TopLogprobs != 4 {
			t.Errorf("sampling %+v", s)
		}
		if left := time.Until(r.Deadline); left < 5*time.Second || left > 7500*time.Millisecond {
			t.Errorf("the deadline is in %s", left)
		}
	}
	if len(taken) != 6 {
		t.Fatalf("%d submitted", len(taken))
	}
	post(t, h, "/v1/chat/completions", chatBody("Hi", `,"n":2`))
	free := b.Taken()[6:]
	if free[0].Sampling.Seed == free[1].Sampling.Seed || free[0].Sampling.Temperature != 1 || !free[0].Deadline.IsZero() ||
		free[0].MaxTokens != limits.Window-bulkhead.Tokens(len(free[0].Prompt)) {
		t.Errorf("without fields: %+v", free[0])
	}
}

// A request leaves one line in the log and its figures in the metrics, and neither holds a word of anybody's.
func TestRow(t *testing.T) {
	var log bytes.Buffer
	g, _ := newGateway(t, func(c *gateway.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Keys, _ = gateway.ParseKeys([]byte(testKeys))
	})
	h, key := g.Handler(), "Bearer sk-harbor-0123456789"
	post(t, h, "/v1/chat/completions", chatBody("sesame", ""), "Authorization", key)
	post(t, h, "/v1/chat/completions", chatBody(strings.Repeat("sesame", 40), ""), "Authorization", key)
	post(t, h, "/v1/sesame", "", "Authorization", key)
	post(t, h, "/v1/chat/completions", chatBody("x", ""), "Authorization", "Bearer sesame-sesame-sesame")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "tenant=harbor route=chat status=200 code=\"\" left=false prompt=24 cached=12 completion=7 choices=1") ||
		!strings.Contains(lines[1], "route=chat status=400 code=context_length_exceeded") ||
		!strings.Contains(lines[2], "route=none status=404 code=unknown_url") || !strings.Contains(lines[3], "tenant=none route=chat status=401") {
		t.Errorf("log:\n%s", log.String())
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer sk-ops-0123456789abc")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, want := range []string{
		`bulkhead_requests_total{route="chat",status="200",tenant="harbor"} 1`,
		`bulkhead_requests_total{route="none",status="404",tenant="none"} 1`,
		`bulkhead_refusals_total{code="context_length_exceeded"} 1`,
		`bulkhead_refusals_total{code="invalid_api_key"} 1`,
		`bulkhead_tokens_total{kind="completion",tenant="harbor"} 7`,
		`bulkhead_tokens_total{kind="prompt",tenant="harbor"} 24`, // and not those of the refused one
		`bulkhead_violations_total{part="k"} 0`,
		`bulkhead_first_token_seconds_count 1`,
		`bulkhead_inter_token_seconds_count 6`,
		`bulkhead_window_tokens 100`,
		`bulkhead_requests_in_flight 0`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, w.Body)
		}
	}
	if both := log.String() + w.Body.String(); strings.Contains(both, "sesame") || strings.Contains(both, "sk-") {
		t.Errorf("what a client wrote is in the log or the metrics:\n%s", both)
	}
}

// A fault of the gateway's own is one request's, with OpenAI's error body.
func TestPanicIsOneRequests(t *testing.T) {
	var log bytes.Buffer
	g, _ := newGateway(t, func(c *gateway.Config) {
		c.Text = brokenText{}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	w := post(t, g.Handler(), "/v1/chat/completions", chatBody("Hi", ""))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "internal_error") || strings.Contains(w.Body.String(), "broken") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "broken") || !strings.Contains(log.String(), "status=500") {
		t.Errorf("log %s", log.String())
	}
	for range limits.QueueTenant + limits.Running + 17 { // its place in the gate was given back
		w = post(t, g.Handler(), "/tokenize", `{"prompt":"a"}`)
	}
	if w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

type brokenText struct{ gatewaytest.Text }

func (brokenText) Chat([]openai.Message) ([]bulkhead.Token, error) { panic("broken") }
