package gateway_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
)

// slowText tokenises plain texts when it is told to, and knows how many it is at.
type slowText struct {
	gatewaytest.Text
	at, most atomic.Int32
	goOn     chan struct{}
}

func (s *slowText) Prompt(text string) []bulkhead.Token {
	if len(text) > 1000 {
		s.most.Store(max(s.most.Load(), s.at.Add(1)))
		<-s.goOn
		s.at.Add(-1)
	}
	return s.Text.Prompt(text[:min(len(text), 10)])
}

// Large bodies of one tenant are counted one at a time. Meanwhile its small ones and other tenants' large ones pass, and
// one that waits has its deadline and may be left.
func TestLargeBodiesTakeTurns(t *testing.T) {
	text := &slowText{goOn: make(chan struct{})}
	g, _ := newGateway(t, func(c *gateway.Config) {
		c.Text = text
		c.Keys, _ = gateway.ParseKeys([]byte(testKeys))
	})
	large := `{"prompt":"` + strings.Repeat("a", 70<<10) + `"}`
	const harbor, ops = "Bearer sk-harbor-0123456789", "Bearer sk-ops-0123456789abc"
	var running sync.WaitGroup
	ask := func(key string) {
		running.Go(func() {
			if w := post(t, g.Handler(), "/tokenize", large, "Authorization", key); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	for range 5 {
		ask(harbor)
	}
	within(t, func() bool { return text.at.Load() == 1 })
	time.Sleep(20 * time.Millisecond) // for others to go wrong
	if w := post(t, g.Handler(), "/tokenize", `{"prompt":"a"}`, "Authorization", harbor); w.Code != 200 {
		t.Errorf("a small body: %d %s", w.Code, w.Body)
	}
	if w := post(t, g.Handler(), "/tokenize", large, "Authorization", harbor, "x-request-timeout", "0.01"); w.Code != 504 {
		t.Errorf("a deadline: %d %s", w.Code, w.Body)
	}
	ctx, leave := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer leave()
	r := httptest.NewRequest("POST", "/tokenize", strings.NewReader(large)).WithContext(ctx)
	r.Header.Set("Authorization", harbor)
	g.Handler().ServeHTTP(httptest.NewRecorder(), r) // returns, though nothing is counted
	if text.most.Load() != 1 {
		t.Errorf("%d large bodies of one tenant at once", text.most.Load())
	}
	ask(ops)
	within(t, func() bool { return text.at.Load() == 2 })
	close(text.goOn)
	running.Wait()
	if text.most.Load() != 2 {
		t.Errorf("%d large bodies at once of two tenants", text.most.Load())
	}
}
