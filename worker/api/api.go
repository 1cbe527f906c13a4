package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/native"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// API is the handler. Make one with New.
type API struct {
	cfg      Config
	openai   *gateway.Gateway // the OpenAI routes
	inner    http.Handler     // its handler
	port     int
	live     live
	pulse    pulse
	requests *prometheus.CounterVec      // of /generate
	inside   atomic.Int64                // requests of /generate whose bodies are held
	heavy    chan struct{}               // holds one for each large body that is read
	origin   *http.CrossOriginProtection // a browser on the worker's machine is no gateway, though it comes over loopback
	draining atomic.Bool
}

// New checks the config and makes an API. Nothing runs until requests come.
func New(cfg Config) (*API, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a := &API{cfg: cfg, live: live{byID: map[bulkhead.RequestID]*order{}}, heavy: make(chan struct{}, heavyBodies), origin: http.NewCrossOriginProtection()}
	a.port, _ = cfg.handoffPort()
	var err error
	a.openai, err = gateway.New(gateway.Config{
		Backend: backend{a}, Text: cfg.Text, Model: cfg.Model, Version: cfg.Version, Log: cfg.Log, Registry: cfg.Registry,
		Tenant:  func(r *http.Request) bulkhead.Tenant { return orderOf(r.Context()).control.tenant() },
		MaxBody: cfg.MaxBody, BodyTimeout: cfg.BodyTimeout, WriteTimeout: cfg.WriteTimeout,
	})
	if err != nil {
		return nil, err
	}
	a.inner = a.openai.Handler()
	a.requests = newRequests(cfg.Registry)
	native.CollectSide(cfg.Registry, cfg.Worker, cfg.Role)
	cfg.Registry.MustRegister(routersMetrics{a})
	return a, nil
}

// Handler serves every route.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Server is an http.Server for the handler, with the limits of gateway.Gateway's. Serve it with a gateway.Listener.
func (a *API) Server() *http.Server {
	s := a.openai.Server()
	s.Handler = a.Handler()
	return s
}

// Drain refuses new requests from now on, with 503 and Retry-After; those that run go on. /health says so.
func (a *API) Drain() {
	a.draining.Store(true)
	a.openai.Drain()
}

// route is one path.
type route struct {
	method string // GET includes HEAD
	serve  func(*API, *reply, *http.Request) *bulkhead.Refusal
}

const modelsPath = "/v1/models/"

var routes = map[string]route{
	"/generate":            {http.MethodPost, (*API).generate},
	"/v1/chat/completions": {http.MethodPost, (*API).completions},
	"/v1/completions":      {http.MethodPost, (*API).completions},
	"/tokenize":            {http.MethodPost, (*API).pass},
	"/detokenize":          {http.MethodPost, (*API).pass},
	"/v1/models":           {http.MethodGet, (*API).pass},
	modelsPath:             {http.MethodGet, (*API).pass},
	"/metrics":             {http.MethodGet, (*API).pass},
	"/server_info":         {http.MethodGet, (*API).serverInfo},
	"/get_server_info":     {http.MethodGet, (*API).serverInfo},
	"/model_info":          {http.MethodGet, (*API).modelInfo},
	"/get_model_info":      {http.MethodGet, (*API).modelInfo},
	"/v1/loads":            {http.MethodGet, (*API).loads},
	"/get_load":            {http.MethodGet, (*API).loads},
	"/health":              {http.MethodGet, (*API).health},
	"/health_generate":     {http.MethodGet, (*API).healthGenerate},
	"/abort_request":       {http.MethodPost, (*API).abort},
	"/flush_cache":         {http.MethodPost, (*API).flush},
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	p := newReply(a, w)
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		a.cfg.Log.Error("a handler panicked", "path", short(r.URL.Path), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		p.refuse(internal())
	}()
	if ref := a.dispatch(p, r); ref != nil {
		p.refuse(ref)
	}
}

func (a *API) dispatch(p *reply, r *http.Request) *bulkhead.Refusal {
	path := r.URL.Path
	if strings.HasPrefix(path, modelsPath) {
		path = modelsPath
	}
	rt, ok := routes[path]
	if !ok {
		return bulkhead.Refuse(openai.CodeNoRoute, "", "there is no %s %s here", short(r.Method), short(r.URL.Path))
	}
	if r.Method != rt.method && !(r.Method == http.MethodHead && rt.method == http.MethodGet) {
		allow := rt.method
		if allow == http.MethodGet {
			allow = "GET, HEAD"
		}
		p.w.Header().Set("Allow", allow)
		return bulkhead.Refuse(openai.CodeNoMethod, "", "%s does not take %s; it takes %s", short(r.URL.Path), short(r.Method), allow)
	}
	if a.origin.Check(r) != nil {
		return bulkhead.Refuse(bulkhead.CodeForbidden, "", "this request comes from a web page of another site: a worker takes requests from a gateway or router only")
	}
	if ref := checkHost(r); ref != nil {
		return ref
	}
	return rt.serve(a, p, r)
}

// short cuts what a client wrote for a message to the same client.
func short(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "..."
	}
	return s
}

// pass has the gateway answer what is the same there. Headers steer nothing and stay behind.
func (a *API) pass(p *reply, r *http.Request) *bulkhead.Refusal {
	a.inner.ServeHTTP(p.w, bare(r, r.Context()))
	return nil
}

// bare is a request without the headers that nothing here reads.
func bare(r *http.Request, ctx context.Context) *http.Request {
	out := r.WithContext(ctx)
	out.Header = http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Accept"} {
		if v, ok := r.Header[name]; ok {
			out.Header[name] = v
		}
	}
	return out
}

func (a *API) checkDraining() *bulkhead.Refusal {
	if !a.draining.Load() && !a.cfg.Worker.Snapshot().Draining {
		return nil
	}
	ref := bulkhead.Refuse(bulkhead.CodeDraining, "", "this %v worker is shutting down and takes no new requests", a.cfg.Role)
	ref.RetryAfter = retryLater
	return ref
}
