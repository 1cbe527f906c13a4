package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

const (
	lightBody   = 64 << 10 // bytes: smaller ones are not bounded
	heavyBodies = 4        // larger ones that are read and counted at once
	spare       = 16       // requests inside beyond those that the worker runs and queues, to be refused with its reasons
)

// controlHeaders begin the names of headers by which routers steer SGLang's workers. Here the body does, and nothing else, so
// they are refused: a router that counts on them would be told nothing if they were dropped.
var controlHeaders = []string{"X-Override-", "X-Data-Parallel-", "X-Bootstrap-", "X-Kv-", "X-Disagg-", "X-Bulkhead-"}

// arrive takes a request for tokens: who sent it, its headers, its body. leave is to be called when it is over; it is not nil
// where the refusal is.
func (a *API) arrive(p *reply, r *http.Request) (body []byte, leave func(), ref *bulkhead.Refusal) {
	if ref := a.peer(r).mayGenerate(); ref != nil {
		return nil, nil, ref
	}
	if ref := a.checkDraining(); ref != nil {
		return nil, nil, ref
	}
	if ref := checkHeaders(r.Header); ref != nil {
		return nil, nil, ref
	}
	l := a.cfg.Worker.Limits()
	if limit := int64(l.Queue + 2*l.Running + spare); a.inside.Add(1) > limit {
		a.inside.Add(-1)
		ref := bulkhead.Refuse(bulkhead.CodeBusy, "", "%d requests are running or waiting at this worker, which is the limit", limit)
		ref.RetryAfter = retryLater
		return nil, nil, ref
	}
	if body, ref = a.readBody(p, r); ref != nil {
		a.inside.Add(-1)
		return nil, nil, ref
	}
	return body, func() { a.inside.Add(-1) }, nil
}

// weigh waits until a large body may be counted. done is to be called when it has been.
func (a *API) weigh(r *http.Request, n int) (done func(), ref *bulkhead.Refusal) {
	if n < lightBody {
		return func() {}, nil
	}
	select {
	case a.heavy <- struct{}{}:
		return func() { <-a.heavy }, nil
	case <-r.Context().Done():
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "", "the request ended early")
	}
}

func checkHeaders(h http.Header) *bulkhead.Refusal {
	for name := range h {
		for _, prefix := range controlHeaders {
			if strings.HasPrefix(name, prefix) {
				return bulkhead.Refuse(bulkhead.CodeForbidden, strings.ToLower(name),
					"the header %s steers nothing here: a worker takes its orders from the body; leave it out", short(strings.ToLower(name)))
			}
		}
	}
	for _, e := range h.Values("Content-Encoding") {
		if e != "" && e != "identity" {
			return bulkhead.Refuse(openai.CodeMediaType, "", "the body is encoded as %q: it must be plain JSON", short(e))
		}
	}
	for _, t := range h.Values("Content-Type") {
		if kind, _, err := mime.ParseMediaType(t); t != "" && (err != nil || kind != openai.ContentJSON) {
			return bulkhead.Refuse(openai.CodeMediaType, "", "the body is declared as %q: it must be %s", short(t), openai.ContentJSON)
		}
	}
	return nil
}

// readBody reads the body once. Whoever sends it too slowly, or too much of it, is refused.
func (a *API) readBody(p *reply, r *http.Request) ([]byte, *bulkhead.Refusal) {
	limit := a.cfg.MaxBody
	tooLarge := bulkhead.Refuse(openai.CodeTooLarge, "", "the request body is over the limit of %d bytes", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	p.control.SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(p.w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, bulkhead.Refuse(openai.CodeSlow, "", "the request body did not arrive within %s", a.cfg.BodyTimeout)
	case err != nil:
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "", "the request body ended early")
	}
	p.control.SetReadDeadline(time.Time{}) // what is read from now on is only whether the client is there
	return body, nil
}
