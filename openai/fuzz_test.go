package openai

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
)

// seeds are the bodies of the vectors.
func seeds(f *testing.F, kind string) {
	data, err := os.ReadFile("testdata/" + kind + ".txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "=>") {
			f.Add([]byte(line))
		}
	}
}

// Whatever arrives: no crash, a refusal is fit for a client, and what is accepted is JSON by the standard library's
// measure too, with the same strings in it.
func FuzzChat(f *testing.F) {
	seeds(f, "chat")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, ref := ParseChat(body)
		if ref != nil {
			checkRefusal(t, ref)
			return
		}
		var want struct {
			Model    string
			Messages []struct{ Role string }
			Stop     any
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted %q, which is no JSON: %v", body, err)
		}
		if want.Model != req.Model || len(want.Messages) != len(req.Messages) {
			t.Fatalf("read %+v, the standard library %+v", req, want)
		}
		for i, m := range req.Messages {
			if m.Role != want.Messages[i].Role || !utf8.ValidString(m.Content) {
				t.Fatalf("message %d: read %+v, the standard library %+v", i, m, want.Messages[i])
			}
		}
		checkGeneration(t, req.Generation)
	})
}

func FuzzCompletion(f *testing.F) {
	seeds(f, "completion")
	f.Fuzz(func(t *testing.T, body []byte) {
		req, ref := ParseCompletion(body)
		if ref != nil {
			checkRefusal(t, ref)
			return
		}
		if n := len(req.Prompts) * req.N; n < 1 || n > MaxChoices {
			t.Fatalf("%d answers", n)
		}
		checkGeneration(t, req.Generation)
	})
}

// The reader accepts what the standard library accepts, but for what it refuses on purpose.
func FuzzReader(f *testing.F) {
	seeds(f, "chat")
	f.Add([]byte(`{"a":[1,-0.5e+3,true,false,null,"\u0041\n",{}],"b":{"":{}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ref := parse(body, func(r *reader) { r.object(func(string) { r.skip() }) })
		var object map[string]json.RawMessage
		err := json.Unmarshal(body, &object)
		switch {
		case ref == nil && (err != nil || !utf8.Valid(body)):
			t.Fatalf("accepted %q: %v", body, err)
		case ref == nil || err != nil:
		case strings.Contains(ref.Message, "twice"), strings.Contains(ref.Message, "nested deeper"),
			strings.Contains(ref.Message, "surrogate"), strings.Contains(ref.Message, "characters: at most"),
			strings.Contains(ref.Message, "UTF-8"), strings.Contains(ref.Message, "must be a JSON object"):
		default:
			t.Fatalf("refused %q: %v", body, ref)
		}
	})
}

func checkRefusal(t *testing.T, ref *bulkhead.Refusal) {
	t.Helper()
	status, body := Failure(ref)
	if status != 400 || body.Error.Message == "" || !utf8.ValidString(ref.Message) || !utf8.ValidString(ref.Param) {
		t.Fatalf("status %d: %+v", status, ref)
	}
	if len(ref.Message) > 2000 || len(ref.Param) > 200 {
		t.Fatalf("a refusal of %d bytes: %.200s", len(ref.Message), ref.Message)
	}
}

func checkGeneration(t *testing.T, g Generation) {
	t.Helper()
	s := g.Sampling
	if g.Model == "" || g.N < 1 || g.N > MaxChoices || g.MaxTokens < 0 || len(g.Stop) > MaxStops || len(g.StopIDs) > MaxStopTokens ||
		s.Temperature < 0 || s.Temperature > 2 || s.TopP < 0 || s.TopP > 1 || s.TopK < 0 || s.MinP < 0 || s.MinP > 1 ||
		s.TopLogprobs < 0 || s.TopLogprobs > MaxTopLogprobs || len(s.LogitBias) > MaxBias {
		t.Fatalf("out of range: %+v", g)
	}
	for i, b := range s.LogitBias {
		if b.Token < 0 || i > 0 && s.LogitBias[i-1].Token >= b.Token {
			t.Fatalf("biases out of order: %v", s.LogitBias)
		}
	}
}
