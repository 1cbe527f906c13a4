package sglang

import (
	"net/http"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// CodeAborted is the code of a request that POST /abort_request ended, or whose client left.
const CodeAborted bulkhead.Code = "request_aborted"

// StatusAborted is its HTTP status, as nginx has it for clients that left.
const StatusAborted = 499

// FailureOf is how a refusal reaches whoever sent the request: its HTTP status and body, by the one map of package openai,
// and its numbers.
func FailureOf(ref *bulkhead.Refusal) (status int, f Failure) {
	status, body := openai.Failure(ref)
	f.Error.Message, f.Error.Type, f.Error.Param, f.Error.Code = body.Error.Message, body.Error.Type, body.Error.Param, string(ref.Code)
	f.Error.Limit, f.Error.Count = int(ref.Limit), int(ref.Count)
	if ref.Code == CodeAborted {
		status, f.Error.Type = StatusAborted, "invalid_request_error"
	}
	return status, f
}

// Refusal is the refusal that a failure tells of. When to try again is in the header Retry-After.
func (f *Failure) Refusal() *bulkhead.Refusal {
	e := &f.Error
	ref := &bulkhead.Refusal{Code: bulkhead.Code(e.Code), Message: e.Message, Limit: bulkhead.Tokens(e.Limit), Count: bulkhead.Tokens(e.Count)}
	if e.Param != nil {
		ref.Param = *e.Param
	}
	return ref
}

// Headers sets what goes with a refusal beside its body: when to try again, or that there is no use.
func Headers(h http.Header, ref *bulkhead.Refusal) { openai.FailureHeaders(h, ref) }
