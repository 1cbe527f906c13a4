package ask

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answerOf asks a server that says just this.
func answerOf(t *testing.T, status int, kind, body string) (*Answer, error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	return Question{Path: "/", Body: map[string]any{}}.Ask(t.Context(), s.Client(), s.URL)
}

const (
	events  = "text/event-stream"
	plain   = "application/json"
	chunkA  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"he"},"logprobs":{"content":[{"token":"he","logprob":-0.5}]},"finish_reason":null}],"usage":null}` + "\n\n"
	chunkB  = `data: {"choices":[{"index":0,"delta":{"content":"re"},"logprobs":{"content":[{"token":"re","logprob":-0.25}]},"finish_reason":null}]}` + "\n\n"
	chunkZ  = `data: {"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	used    = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}` + "\n\n"
	done    = "data: [DONE]\n\n"
	failure = `{"error":{"message":"m","type":"server_error","param":null,"code":"internal_error"}}`
	whole   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"here"},"logprobs":{"content":[{"token":"he","logprob":-0.5},{"token":"re","logprob":-0.25}]},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// A stream and a whole body that say the same are the same answer.
func TestSameAnswer(t *testing.T) {
	a, err := answerOf(t, 200, plain, whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := answerOf(t, 200, events, chunkA+": still here\n\n"+chunkB+chunkZ+used+done)
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Differs(a); d != "" {
		t.Error(d)
	}
	c, err := answerOf(t, 200, events, chunkA+"data: "+failure+"\n\n")
	if err != nil || c.Failure == nil || !c.Done {
		t.Fatalf("%+v, %v", c, err)
	}
	if d := c.Strays(a); d != "" {
		t.Error(d)
	}
	if c.Differs(a) == "" {
		t.Error("a failed answer is taken for the whole one")
	}
}

// What does not keep to the protocol is an error and never an answer.
func TestBrokenAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
	}{
		"a stream that is cut":                {200, events, chunkA + chunkB},
		"a stream that is cut before its end": {200, events, chunkA + chunkB + chunkZ},
		"done without a reason":               {200, events, chunkA + chunkB + done},
		"an event after the end":              {200, events, chunkA + chunkZ + done + chunkB},
		"text after the reason":               {200, events, chunkA + chunkZ + chunkB + done},
		"an error event and then more":        {200, events, chunkA + "data: " + failure + "\n\n" + done},
		"a line that is no event":             {200, events, chunkA + "oops\n\n" + chunkZ + done},
		"half an event":                       {200, events, chunkA + `data: {"choices":[`},
		"an error with 200":                   {200, plain, failure},
		"an answer with 500":                  {500, plain, whole},
		"no JSON":                             {502, plain, "Bad Gateway"},
		"usage that does not add up":          {200, plain, strings.Replace(whole, `"total_tokens":5`, `"total_tokens":6`, 1)},
		"no finish_reason":                    {200, plain, strings.Replace(whole, `"finish_reason":"stop"`, `"finish_reason":null`, 1)},
	} {
		if a, err := answerOf(t, c.status, c.kind, c.body); err == nil {
			t.Errorf("%s: taken as %+v", name, a)
		}
	}
}

// Every kind of wrong token is seen.
func TestDiffers(t *testing.T) {
	want, err := answerOf(t, 200, plain, whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"here"`, `"hero"`}, {`"here"`, `"her"`}, {`"here"`, `"here "`}, {`-0.25`, `-0.26`}, {`"token":"re"`, `"token":"ro"`},
		{`"stop"`, `"length"`}, {`"index":0`, `"index":1`}, {`:2,"total_tokens":5`, `:1,"total_tokens":4`},
		{`,{"token":"re","logprob":-0.25}`, ``},
	} {
		got, err := answerOf(t, 200, plain, strings.Replace(whole, change[0], change[1], 1))
		if err != nil {
			t.Fatal(err)
		}
		if got.Differs(want) == "" {
			t.Errorf("%s for %s is not seen", change[1], change[0])
		}
	}
	for body, strays := range map[string]bool{
		chunkA: false, chunkA + chunkB: false,
		strings.Replace(chunkA, `"he"`, `"ho"`, 1): true,
		strings.Replace(chunkA, "-0.5", "-0.4", 1): true,
		chunkA + chunkZ: true,
	} {
		got, _ := answerOf(t, 200, events, body+"data: "+failure+"\n\n")
		if d := got.Strays(want); (d != "") != strays {
			t.Errorf("%s: %q", body, d)
		}
	}
}
