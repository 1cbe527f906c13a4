package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
)

// away is a backend none of whose workers can be reached.
type away struct{ *gatewaytest.Backend }

func (away) Ready() *bulkhead.Refusal {
	ref := bulkhead.Refuse(bulkhead.CodeUnavailable, "", "no workers")
	ref.RetryAfter = 7 * time.Second
	return ref
}

// Without workers a request is told so, and when to come again, whatever the limits of nobody say; what needs none works.
func TestNoWorkers(t *testing.T) {
	g, err := gateway.New(gateway.Config{Backend: away{gatewaytest.NewBackend(bulkhead.Limits{})}, Text: gatewaytest.Text{},
		Model: gateway.Model{Name: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w
	}
	for _, w := range []*httptest.ResponseRecorder{
		ask("GET", "/health", ""),
		ask("POST", "/v1/completions", `{"model":"m","prompt":"x"}`),
		ask("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`),
	} {
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "7" || !strings.Contains(w.Body.String(), "no workers") {
			t.Error(w.Code, w.Header(), w.Body)
		}
	}
	if w := ask("POST", "/tokenize", `{"prompt":"x"}`); w.Code != http.StatusOK {
		t.Error(w.Code, w.Body)
	}
}
