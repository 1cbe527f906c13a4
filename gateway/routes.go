package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// route is one path. Its name is the label of metrics and logs, so that what clients write is not.
type route struct {
	name   string
	method string // GET includes HEAD
	access access
	serve  func(*Gateway, *call) *bulkhead.Refusal
}

// access says who may call a route where there are keys.
type access int

const (
	anybody  access = iota // no key needed
	tenants                // any key
	operator               // a key of an operator: the answer speaks of other tenants
)

const modelsPath = "/v1/models/"

var routes = map[string]route{
	"/v1/chat/completions": {"chat", http.MethodPost, tenants, (*Gateway).chat},
	"/v1/completions":      {"completions", http.MethodPost, tenants, (*Gateway).completions},
	"/v1/models":           {"models", http.MethodGet, tenants, (*Gateway).models},
	modelsPath:             {"model", http.MethodGet, tenants, (*Gateway).model},
	"/tokenize":            {"tokenize", http.MethodPost, tenants, (*Gateway).tokenize},
	"/detokenize":          {"detokenize", http.MethodPost, tenants, (*Gateway).detokenize},
	"/server_info":         {"server_info", http.MethodGet, tenants, (*Gateway).serverInfo},
	"/health":              {"health", http.MethodGet, anybody, (*Gateway).health},
	"/metrics":             {"metrics", http.MethodGet, operator, (*Gateway).showMetrics},
}

// find is the route of a path.
func find(path string) (route, bool) {
	if strings.HasPrefix(path, modelsPath) && len(path) > len(modelsPath) {
		path = modelsPath
	} else if path == modelsPath {
		return route{}, false
	}
	r, ok := routes[path]
	return r, ok
}

// serve is the whole of an HTTP request: it runs the route and writes what it refuses.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	c := g.newCall(w, r)
	defer g.finish(c)
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler:
			panic(p)
		default:
			g.log.Error("the gateway panicked", "id", c.id, "route", c.row.Route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			g.refuse(c, internal())
		}
	}()
	if ref := g.dispatch(c); ref != nil {
		g.refuse(c, ref)
	}
}

func (g *Gateway) dispatch(c *call) *bulkhead.Refusal {
	rt, ok := find(c.r.URL.Path)
	if !ok {
		return bulkhead.Refuse(openai.CodeNoRoute, "", "there is no %s %s here", short(c.r.Method), short(c.r.URL.Path))
	}
	c.row.Route = rt.name
	if m := c.r.Method; m != rt.method && !(m == http.MethodHead && rt.method == http.MethodGet) {
		allow := allowed(rt.method)
		c.w.Header().Set("Allow", allow)
		return bulkhead.Refuse(openai.CodeNoMethod, "", "%s does not take %s; it takes %s", short(c.r.URL.Path), short(m), allow)
	}
	if ref := g.authenticate(c, rt.access); ref != nil {
		return ref
	}
	return rt.serve(g, c)
}

func allowed(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

// short cuts what a client wrote for a message to the same client.
func short(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "..."
	}
	return s
}

// refuse writes a refusal, as the body where nothing has been written and as the last event where a stream has begun.
func (g *Gateway) refuse(c *call, ref *bulkhead.Refusal) {
	c.row.Code = ref.Code
	g.metrics.refusals.WithLabelValues(string(ref.Code)).Inc()
	if c.events != nil {
		c.row.failed(c.events.Fail(ref))
		return
	}
	if c.row.Status != 0 { // a body is on its way; all that is left is to break it off
		panic(http.ErrAbortHandler)
	}
	status, body := openai.Failure(ref)
	openai.FailureHeaders(c.w.Header(), ref)
	c.row.failed(c.json(status, body))
}

// internal is what a client is told of a fault of ours; the log has the rest.
func internal() *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeInternal, "", "the server failed to answer this request; it is logged under the request id")
}
