package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// gated is a worker whose requests end when the test says so.
type gated struct {
	*fake
	mu      sync.Mutex
	streams []*gatedStream
}

type gatedStream struct {
	events chan bulkhead.Event
	gone   chan struct{}
	once   sync.Once
}

func (g *gated) Submit(o worker.Order) (gateway.Stream, *bulkhead.Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &gatedStream{events: make(chan bulkhead.Event, 100), gone: make(chan struct{})}
	g.streams = append(g.streams, s)
	return s, nil
}

// stream waits for the request of a number.
func (g *gated) stream(t *testing.T, i int) *gatedStream {
	t.Helper()
	for range 500 {
		g.mu.Lock()
		if i < len(g.streams) {
			defer g.mu.Unlock()
			return g.streams[i]
		}
		g.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("there is no request %d", i)
	return nil
}

func (s *gatedStream) Next(ctx context.Context) (bulkhead.Event, bool) {
	select {
	case e := <-s.events:
		return e, true
	case <-s.gone:
		return bulkhead.Event{End: &bulkhead.End{Reason: bulkhead.Aborted}}, true
	case <-ctx.Done():
		return bulkhead.Event{}, false
	}
}

func (s *gatedStream) Leave() { s.once.Do(func() { close(s.gone) }) }
func (s *gatedStream) end(reason bulkhead.Reason) {
	s.events <- bulkhead.Event{End: &bulkhead.End{Reason: reason}}
}

func (s *gatedStream) left() bool {
	select {
	case <-s.gone:
		return true
	case <-time.After(3 * time.Second):
		return false
	}
}

// newGated is a server whose worker is gated.
func newGated(t *testing.T, side worker.Side, change func(*api.Config)) (*httptest.Server, *gated, *api.API) {
	t.Helper()
	g := &gated{}
	a, _ := newAPI(t, side, func(c *api.Config, f *fake) {
		g.fake = f
		c.Worker = g
		if change != nil {
			change(c)
		}
	})
	s := httptest.NewUnstartedServer(nil)
	s.Config = a.Server()
	s.Start()
	t.Cleanup(func() { s.Close(); s.Client().CloseIdleConnections() })
	return s, g, a
}

// asked is an answer that may be waited for.
type asked struct {
	status chan int
	body   chan string
	cancel func()
}

func ask(t *testing.T, s *httptest.Server, path, body string) *asked {
	ctx, cancel := context.WithCancel(context.Background())
	a := &asked{make(chan int, 1), make(chan string, 1), cancel}
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	go func() {
		defer cancel()
		resp, err := s.Client().Do(r)
		if err != nil {
			a.status <- 0
			a.body <- err.Error()
			return
		}
		a.status <- resp.StatusCode
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		a.body <- string(b)
	}()
	return a
}

func (a *asked) mustWait(t *testing.T) {
	t.Helper()
	select {
	case status := <-a.status:
		t.Fatalf("an answer of status %d came before the outcome: %s", status, <-a.body)
	case <-time.After(50 * time.Millisecond):
	}
}

func (a *asked) want(t *testing.T, status int, part string) string {
	t.Helper()
	select {
	case got := <-a.status:
		body := <-a.body
		if got != status || !strings.Contains(body, part) {
			t.Errorf("status %d, want %d with %q: %s", got, status, part, body)
		}
		return body
	case <-time.After(5 * time.Second):
		t.Fatal("no answer")
		return ""
	}
}
