package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// arrival is hop 1, gateway in: a request whose sender is known, whose headers steer nothing, and whose body is here. Its
// place in the gate is held until leave is called.
type arrival struct {
	*call
	body     []byte
	deadline time.Time // zero: none
	turn     turn      // to count the body
	leave    func()
}

const (
	timeoutHeader = "X-Request-Timeout" // seconds that the client will wait; an extension
	maxTimeout    = 24 * time.Hour
)

// controlHeaders begin the names of headers by which SGLang, vLLM, llm-d and routers in front of them steer requests.
// They are refused like control fields. What tracing and proxies add (x-request-id, traceparent, x-forwarded-for) is
// not among them, and nothing here reads it.
var controlHeaders = []string{
	"X-Override-", "X-Data-Parallel-", "X-Bootstrap-", "X-Kv-", "X-Disagg-", "X-Smg-", "X-Sglang-", "X-Vllm-",
	"X-Prefill", "X-Decode", "X-Gateway-Destination-", "X-Bulkhead-",
}

// authenticate finds the tenant by the key in Authorization.
func (g *Gateway) authenticate(c *call, need access) *bulkhead.Refusal {
	if g.cfg.Keys == nil {
		c.setTenant(g.cfg.Tenant(c.r))
		return nil
	}
	if need == anybody {
		return nil
	}
	key, ok := bearer(c.r.Header.Values("Authorization"))
	if !ok {
		return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "no API key: send one in the header \"Authorization: Bearer KEY\"")
	}
	id, ok := g.cfg.Keys.find(key)
	if !ok {
		return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "this API key is not known here")
	}
	c.setTenant(id.tenant)
	if need == operator && !id.operator {
		return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "this needs the key of an operator")
	}
	return nil
}

func (c *call) setTenant(t bulkhead.Tenant) {
	c.tenant = t
	c.row.Tenant = t.Name
}

// bearer is the key of the one Authorization header.
func bearer(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	key = strings.TrimSpace(key)
	return key, strings.EqualFold(scheme, "Bearer") && key != ""
}

// arrive takes a request that is to be answered by a model or a tokenizer.
func (g *Gateway) arrive(c *call) (*arrival, *bulkhead.Refusal) {
	if ref := g.checkDraining(); ref != nil {
		return nil, ref
	}
	if ref := checkHeaders(c.r.Header); ref != nil {
		return nil, ref
	}
	deadline, ref := g.deadline(c)
	if ref != nil {
		return nil, ref
	}
	leave, ref := g.gate.enter(c.tenant.Name, g.cfg.Backend.Limits())
	if ref != nil {
		return nil, ref
	}
	body, ref := g.readBody(c)
	if ref != nil {
		leave()
		return nil, ref
	}
	turn, ref := g.turn(c, deadline, len(body))
	if ref != nil {
		leave()
		return nil, ref
	}
	return &arrival{call: c, body: body, deadline: deadline, turn: turn, leave: func() { turn.leave(); leave() }}, nil
}

// turn waits until a body of n bytes may be counted, no longer than the request's deadline or its client wait.
func (g *Gateway) turn(c *call, deadline time.Time, n int) (turn, *bulkhead.Refusal) {
	ctx := c.r.Context()
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	return g.heavy.wait(ctx, c.tenant.Name, n)
}

func checkHeaders(h http.Header) *bulkhead.Refusal {
	for name := range h {
		for _, prefix := range controlHeaders {
			if strings.HasPrefix(name, prefix) {
				return bulkhead.Refuse(bulkhead.CodeForbidden, strings.ToLower(name),
					"the header %s is a control header of the serving system: no client may set it; leave it out", short(strings.ToLower(name)))
			}
		}
	}
	for _, e := range h.Values("Content-Encoding") {
		if e != "" && e != "identity" {
			return bulkhead.Refuse(openai.CodeMediaType, "", "the body is encoded as %q: it must be plain JSON", short(e))
		}
	}
	for _, t := range h.Values("Content-Type") {
		if t == "" {
			continue
		}
		kind, params, err := mime.ParseMediaType(t)
		if charset := params["charset"]; err != nil || kind != openai.ContentJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
			return bulkhead.Refuse(openai.CodeMediaType, "", "the body is declared as %q: it must be %s", short(t), openai.ContentJSON)
		}
	}
	return nil
}

// deadline is when the client will not wait any more, by its header or by the server's default.
func (g *Gateway) deadline(c *call) (time.Time, *bulkhead.Refusal) {
	text := c.r.Header.Get(timeoutHeader)
	if text == "" {
		if d := g.cfg.Backend.Limits().RequestTimeout; d > 0 {
			return c.start.Add(d), nil
		}
		return time.Time{}, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s > 0 && s <= maxTimeout.Seconds()) {
		return time.Time{}, bulkhead.Refuse(bulkhead.CodeInvalid, strings.ToLower(timeoutHeader),
			"the header %s is %q: must be seconds, more than 0 and at most %.0f", strings.ToLower(timeoutHeader), short(text), maxTimeout.Seconds())
	}
	return c.start.Add(time.Duration(s * float64(time.Second))), nil
}

// readBody reads the body once. A client that sends it too slowly, or too much of it, is refused.
func (g *Gateway) readBody(c *call) ([]byte, *bulkhead.Refusal) {
	limit := g.cfg.MaxBody
	tooLarge := bulkhead.Refuse(openai.CodeTooLarge, "", "the request body is over the limit of %d bytes", limit)
	if c.r.ContentLength > limit {
		return nil, tooLarge
	}
	c.control.SetReadDeadline(time.Now().Add(g.cfg.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, bulkhead.Refuse(openai.CodeSlow, "", "the request body did not arrive within %s", g.cfg.BodyTimeout)
	case err != nil:
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "", "the request body ended early")
	}
	c.control.SetReadDeadline(time.Time{}) // what is read from now on is only whether the client is there
	return body, nil
}
