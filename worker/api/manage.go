package api

import (
	"net/http"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

var abortFields = fields[sglang.Abort]{
	"rid":       text(func(b *sglang.Abort) *string { return &b.Rid }),
	"abort_all": flag(func(b *sglang.Abort) *bool { return &b.AbortAll }),
	"abort_message": func(path string, v []byte, _ *sglang.Abort) *bulkhead.Refusal { // SGLang's; nobody reads it here
		return scalar(path, "a string", v, new(string))
	},
}

// abort is POST /abort_request. An id is a whole one: nothing matches by its beginning. An id that is not live is no error,
// since the request may just have ended; the answer says how many were.
func (a *API) abort(p *reply, r *http.Request) *bulkhead.Refusal {
	from := a.peer(r)
	if !from.is(roleGateway) && !from.is(roleOperator) {
		return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "requests are aborted by a gateway or an operator, and this connection is none's")
	}
	if ref := checkHeaders(r.Header); ref != nil {
		return ref
	}
	body, ref := a.readBody(p, r)
	if ref != nil {
		return ref
	}
	var b sglang.Abort
	members, ref := openai.Split(body)
	if ref == nil {
		ref = abortFields.read("", members, &b)
	}
	switch {
	case ref != nil:
		return ref
	case b.AbortAll && !from.is(roleOperator):
		return bulkhead.Refuse(bulkhead.CodeForbidden, "abort_all", "`abort_all` ends the requests of every gateway: only an operator may; name a `rid`")
	case b.AbortAll == (b.Rid != ""):
		return bulkhead.Refuse(bulkhead.CodeInvalid, "rid", "exactly one of `rid` and `abort_all` is needed")
	}
	found := a.live.find(bulkhead.RequestID(b.Rid), b.AbortAll)
	for _, o := range found {
		o.leave()
	}
	if b.AbortAll {
		a.cfg.Log.Warn("every request was aborted", "by", from.name, "requests", len(found))
	}
	p.json(http.StatusOK, struct {
		Aborted int `json:"aborted"`
	}{len(found)})
	return nil
}

// flush is POST /flush_cache. It needs no body.
func (a *API) flush(p *reply, r *http.Request) *bulkhead.Refusal {
	from := a.peer(r)
	switch {
	case !from.is(roleGateway) && !from.is(roleOperator):
		return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "the cache is flushed by a gateway or an operator, and this connection is none's")
	case a.cfg.Flush == nil:
		return bulkhead.Refuse(bulkhead.CodeUnsupported, "", "this worker has no cache to flush")
	}
	n := a.cfg.Flush()
	a.cfg.Log.Info("cached pages were dropped", "by", from.name, "pages", n)
	p.json(http.StatusOK, struct {
		Pages int `json:"pages"`
	}{n})
	return nil
}
