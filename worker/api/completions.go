package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// completions are the OpenAI routes: what is the router's is taken out of the body, and the gateway does the rest with this
// worker behind it. It writes nothing before an answer's first event, which at prefill is the last.
func (a *API) completions(p *reply, r *http.Request) *bulkhead.Refusal {
	body, leave, ref := a.arrive(p, r)
	if ref != nil {
		return ref
	}
	defer leave()
	done, ref := a.weigh(r, len(body))
	if ref != nil {
		return ref
	}
	control, rest, ref := Separate(body)
	done()
	if ref != nil {
		return ref
	}
	if ref := control.check(a.cfg.Role, a.peer(r)); ref != nil {
		return ref
	}
	o, ref := a.live.enter(&control, time.Now())
	if ref != nil {
		return ref
	}
	defer a.live.exit(o)
	inner := bare(r, context.WithValue(r.Context(), orderKey{}, o))
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(rest)), int64(len(rest))
	a.inner.ServeHTTP(p.w, inner)
	return nil
}
