package api_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// Transcripts: each block of testdata/*.txt is "# what it pins", a request as METHOD PATH, headers and a body, and behind
// "=>" the answer with its status, the headers that matter, its body and what the worker was told. Files are named after the
// side, and after who asks where it is no gateway.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			side := worker.Decode
			if strings.HasPrefix(name, "prefill") {
				side = worker.Prefill
			}
			a, f := newAPI(t, side, func(c *api.Config, f *fake) { setUp(name, c, f) })
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, block := range strings.Split(strings.TrimSpace(string(old)), "\n\n# ") {
				block = strings.TrimPrefix(block, "# ")
				request, _, _ := strings.Cut(block, "\n=>")
				title, rest, _ := strings.Cut(request, "\n")
				out = append(out, "# "+title+"\n"+rest+"\n=> "+exchange(t, a.Handler(), f, rest))
			}
			got := strings.Join(out, "\n\n") + "\n"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(old) {
				t.Errorf("%s differs; see with -update and git diff. Got:\n%s", path, got)
			}
		})
	}
}

// setUp is what a transcript's name says of who asks and how the worker fares.
func setUp(name string, c *api.Config, f *fake) {
	c.MaxBody = 2000
	_, who, _ := strings.Cut(name, "-")
	switch who {
	case "stranger":
		c.Peer = nil
	case "operator":
		c.Peer = func(*http.Request) (string, string, bool) { return "operator", "op", true }
	case "violated":
		f.Fault = endAfter(bulkhead.End{Reason: bulkhead.Violated, Err: &bulkhead.Violation{Part: bulkhead.PartK}})
	case "failed":
		f.Fault = endAfter(bulkhead.End{Reason: bulkhead.Failed})
	case "lost":
		f.Fault = endAfter(bulkhead.End{Reason: bulkhead.Failed, Err: fmt.Errorf("%w: timed out", handoff.ErrLost)})
	case "refused":
		f.Fault = endAfter(bulkhead.End{Reason: bulkhead.Refused, Refusal: &bulkhead.Refusal{Code: bulkhead.CodeContextLength, Param: "messages",
			Message: "too long", Limit: 64, Count: 70}})
	case "aborted":
		f.Fault = endAfter(bulkhead.End{Reason: bulkhead.Aborted})
	}
}

// endAfter ends a request after as many tokens as its prompt begins with "x".
func endAfter(end bulkhead.End) func(bulkhead.Request, int) *bulkhead.End {
	return func(r bulkhead.Request, i int) *bulkhead.End {
		n := 0
		for n < len(r.Prompt) && r.Prompt[n] == 'x' {
			n++
		}
		if i < n {
			return nil
		}
		return &end
	}
}

var changing = []struct{ find, put string }{
	{`"id":"(chatcmpl-|cmpl-)?[0-9a-f]{24}"`, `"id":"${1}ID"`},
	{`"created":\d{10}`, `"created":NOW`},
	{`"layout":"[0-9a-f]+"`, `"layout":"HEX"`},
	{`"timestamp":"[^"]*"`, `"timestamp":"NOW"`},
	{`,"e2e_latency":[0-9.e-]+`, ``},
}

// exchange sends one request of a transcript.
func exchange(t *testing.T, h http.Handler, f *fake, text string) string {
	head, body, _ := strings.Cut(text, "\n")
	method, path, _ := strings.Cut(head, " ")
	headers := http.Header{}
	for {
		line, rest, _ := strings.Cut(body, "\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(name, `{" `) {
			break
		}
		headers.Add(name, value)
		body = rest
	}
	body = strings.ReplaceAll(body, "AAAA*", strings.Repeat("A", 400))
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header = headers
	before := len(f.taken())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
	for _, name := range []string{"Allow", "Retry-After", "X-Should-Retry"} {
		if v := w.Header().Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	answer := strings.TrimRight(w.Body.String(), "\n")
	for _, c := range changing {
		answer = regexp.MustCompile(c.find).ReplaceAllString(answer, c.put)
	}
	out.WriteString(answer)
	for _, o := range f.taken()[before:] {
		r := o.Request.Request()
		id := regexp.MustCompile(`[0-9a-f]{24}`).ReplaceAllString(string(r.ID), "ID")
		if r.Tenant.Name == "health" {
			o.Room = 0 // drawn
		}
		fmt.Fprintf(&out, "\n-> id %s, tenant %s/%s, room %d, peer %q at %q, %d tokens, at most %d, deadline %v", id, r.Tenant.Name, r.Tenant.Domain,
			uint64(o.Room), o.Peer.Name, o.Peer.Addr, len(r.Prompt), r.MaxTokens, !r.Deadline.IsZero())
	}
	return strings.TrimRight(out.String(), "\n")
}
