package cluster

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// What the workers are told is the request again, on their side.
func TestBody(t *testing.T) {
	r := bulkhead.Request{ID: "client-facing", Tenant: bulkhead.Tenant{Name: "n", Domain: "d"}, Prompt: []bulkhead.Token{1, 2}, MaxTokens: 7,
		StopIDs: []bulkhead.Token{3}, IgnoreEOS: true, Sampling: bulkhead.Sampling{Temperature: 0.5, Seed: 1<<64 - 1, TopK: 4,
			LogitBias: []bulkhead.TokenBias{{Token: 5, Bias: -1}}}}
	d := dispatch{rid: "abc", room: 1<<63 - 1, host: "h", port: 8, prefill: "p", decode: "q", left: 1500 * time.Millisecond}
	var g sglang.Generate
	if err := json.Unmarshal(d.body(&r, true), &g); err != nil {
		t.Fatal(err)
	}
	got, ref := g.Request()
	if ref != nil {
		t.Fatal(ref)
	}
	if got.ID != "abc" || got.Tenant != r.Tenant || got.MaxTokens != 7 || got.Sampling.Seed != r.Sampling.Seed || got.Sampling.TopK != 4 || !got.IgnoreEOS ||
		g.Room != 1<<63-1 || g.Native.Prefill != "p" || g.Native.Decode != "q" || g.Native.Seconds != 1.5 || !g.Native.Incremental || !g.Stream {
		t.Errorf("%+v\n%+v", got, g)
	}
}

func TestEventReader(t *testing.T) {
	text := ": comment\n\ndata: {\"a\":1}\n\ndata:{\"b\":2}\r\n\r\nevent: x\ndata: [DONE]\n\nbehind"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		e := newEventReader(r)
		var got []string
		for {
			data, err := e.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			got = append(got, string(data))
		}
		if strings.Join(got, " ") != `{"a":1} {"b":2}` {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := newEventReader(strings.NewReader("data: {\"a\"")).next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a line without its end: %v", err)
	}
	if _, err := newEventReader(strings.NewReader(strings.Repeat("x", maxLine+1))).next(); !errors.Is(err, errLine) {
		t.Errorf("a line that is too long: %v", err)
	}
}

// No bytes from a worker make the reader or the parser of answers panic, or an event that the attempt does not bound.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`data: {"output_ids":[1],"meta_info":{"id":"x","prompt_tokens":3,"completion_tokens":1}}` + "\n\n"))
	f.Add([]byte(`data: {"output_ids":[],"meta_info":{"id":"x","prompt_tokens":3,"completion_tokens":1,"finish_reason":{"type":"stop","matched":2}}}` + "\n\n"))
	f.Add([]byte(`data: {"error":{"message":"m","code":"internal_error"}}` + "\n"))
	f.Add([]byte(`data: {"output_ids":[1],"meta_info":{"id":"x","prompt_tokens":3,"output_token_logprobs":[[0.5,1,null]],"output_top_logprobs":[[]]}}` + "\n"))
	want := expectation{prompt: 3, most: 4, vocab: 10, logprobs: true, top: 2}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := newEventReader(strings.NewReader(string(data)))
		a := newAttempt(Timeouts{}.withDefaults(), want, time.Unix(0, 0))
		given := 0
		for {
			line, err := e.next()
			if err != nil {
				break
			}
			m, failure, err := parseAnswer(line)
			if err != nil {
				break
			}
			var acts []action
			switch {
			case failure != nil:
				acts = a.decodeOver(errorOutcome(200, nil, failure), time.Unix(0, 0))
			case m.Meta.FinishReason != nil:
				acts = a.lastAnswer(m, time.Unix(0, 0))
			default:
				acts = a.answer(m, time.Unix(0, 0))
			}
			for _, act := range acts {
				given += len(act.events)
				for _, event := range act.events {
					if event.Token < 0 || event.Token >= 10 {
						t.Fatalf("token %d", event.Token)
					}
				}
			}
		}
		if given > 4 {
			t.Fatalf("%d tokens of 4", given)
		}
	})
}

func TestLoadMembers(t *testing.T) {
	dir := t.TempDir()
	load := func(text string) (Members, error) {
		file := filepath.Join(dir, "m.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadMembers(file)
	}
	m, err := load("prefill:\n  - url: https://[::1]:1\n    name: p\ndecode:\n  - url: http://localhost:2\n")
	if err != nil || m.Prefill[0] != (Member{"https://[::1]:1", "p"}) || m.Decode[0].URL != "http://localhost:2" {
		t.Errorf("%+v, %v", m, err)
	}
	const decode = "decode:\n  - url: http://a:1\n"
	for text, want := range map[string]string{
		decode: "0 prefill workers",
		decode + "prefill:\n  - url: http://a:1\n":                                            "twice",
		decode + "prefill:\n  - {url: http://b:1, name: p}\n  - {url: http://b:2, name: p}\n": "rooms are opened for names",
		decode + "prefill:\n  - url: http://a\n":                                              "no address",
		decode + "prefill:\n  - url: a:1\n":                                                   "no address",
		decode + "prefill:\n  - url: http://u:p@b:1\n":                                        "no address",
		decode + "prefill:\n  - url: http://b:1/v1\n":                                         "no address",
		decode + "prefill:\n  - url: http://b:1?x=1\n":                                        "no address",
		decode + "prefill:\n  - {url: http://b:1, nme: x}\n":                                  "nme",
		decode + decode: "decode",
		decode + "prefill:\n" + strings.Repeat("  - url: http://b:1\n", 257): "257",
		strings.Repeat("#", maxFile+1):                                       "at most",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"vocabulary": {},
		"--retries":  {Vocab: 1, Retries: 11},
		"timeout":    {Vocab: 1, Timeouts: Timeouts{Hold: -1}},
		"number":     {Vocab: 1, Probes: Probes{Out: -1}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c, err := New(Config{Vocab: 1, Retries: -1})
	if err != nil || c.cfg.Retries != 0 {
		t.Errorf("%v", err)
	}
	c.Close()
	c.Close()
}
