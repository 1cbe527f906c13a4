package gateway_test

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
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// limits are those of the tests: a window of 100 tokens.
var limits = bulkhead.Limits{Window: 100, PrefillPool: 128, DecodePool: 256, ModelWindow: 2048, PageTokens: 32,
	Queue: 8, QueueTenant: 4, Running: 4, Chunk: 64, DrainTimeout: 20 * time.Second}

func newGateway(t testing.TB, change func(*gateway.Config)) (*gateway.Gateway, *gatewaytest.Backend) {
	t.Helper()
	cfg := gateway.Config{Backend: gatewaytest.NewBackend(limits), Text: gatewaytest.Text{}, Version: "v0",
		Model: gateway.Model{Name: "m", Created: time.Unix(1700000000, 0), Arch: "llama", Quantization: "Q8_0"}}
	if change != nil {
		change(&cfg)
	}
	backend := cfg.Backend.(*gatewaytest.Backend)
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := backend.Open(); n != 0 {
			t.Errorf("%d streams are left open", n)
		}
	})
	return g, backend
}

const testKeys = `
- key: sk-harbor-0123456789
  tenant: harbor
- key: sk-ops-0123456789abc
  tenant: ops
  operator: true
`

// Transcripts: each block of testdata/*.txt is "# what it pins", a request as METHOD PATH, headers and a body, and behind
// "=>" the answer with its status, the headers that matter, and its body. Files named keys-* are served with keys.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			g, _ := newGateway(t, func(c *gateway.Config) {
				c.MaxBody = 2000
				if strings.HasPrefix(filepath.Base(path), "keys") {
					if c.Keys, err = gateway.ParseKeys([]byte(testKeys)); err != nil {
						t.Fatal(err)
					}
				}
			})
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, block := range strings.Split(strings.TrimSpace(string(old)), "\n\n# ") {
				block = strings.TrimPrefix(block, "# ")
				request, _, _ := strings.Cut(block, "\n=>")
				title, rest, _ := strings.Cut(request, "\n")
				out = append(out, "# "+title+"\n"+rest+"\n=> "+exchange(t, g.Handler(), rest))
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

var changing = []struct{ find, put string }{
	{`"id":"(chatcmpl-|cmpl-)[0-9a-f]{24}"`, `"id":"${1}ID"`},
	{`"created":\d{10}`, `"created":NOW`},
}

// exchange sends one request of a transcript.
func exchange(t *testing.T, h http.Handler, text string) string {
	head, body, _ := strings.Cut(text, "\n")
	method, path, _ := strings.Cut(head, " ")
	r := httptest.NewRequest(method, path, nil)
	for {
		line, rest, _ := strings.Cut(body, "\n")
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.ContainsAny(name, `{" `) {
			break
		}
		r.Header.Add(name, value)
		body = rest
	}
	if body = strings.ReplaceAll(body, "AAAA*", strings.Repeat("A", 400)); body != "" {
		headers := r.Header
		r = httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header = headers
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if id := w.Header().Get("X-Request-Id"); !regexp.MustCompile(`^[0-9a-f]{24}$`).MatchString(id) {
		t.Errorf("%s: request id %q", head, id)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", w.Code, w.Header().Get("Content-Type"))
	for _, name := range []string{"Allow", "Retry-After", "WWW-Authenticate", "X-Should-Retry"} {
		if v := w.Header().Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	answer := strings.TrimRight(w.Body.String(), "\n")
	for _, c := range changing {
		answer = regexp.MustCompile(c.find).ReplaceAllString(answer, c.put)
	}
	return strings.TrimRight(out.String()+answer, "\n")
}
