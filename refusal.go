package bulkhead

import (
	"fmt"
	"time"
)

// Code says why a request was refused. It survives every hop up to the client.
type Code string

// The codes of refusals. HTTP status and exit status are derived from them in one place each.
const (
	CodeInvalid       Code = "invalid_request"         // malformed, of the wrong type, or out of range
	CodeUnsupported   Code = "unsupported_parameter"   // known, and not done here
	CodeForbidden     Code = "forbidden_parameter"     // a control field that only Bulkhead may set
	CodeUnauthorized  Code = "invalid_api_key"         // no key, or one that is not known
	CodeNotFound      Code = "model_not_found"         // no such model
	CodeContextLength Code = "context_length_exceeded" // prompt plus max_tokens is over the window
	CodeBusy          Code = "rate_limit_exceeded"     // the tenant's or the worker's queue is full
	CodeDraining      Code = "server_draining"         // shutting down
	CodeUnavailable   Code = "service_unavailable"     // too much of the pools was set aside to serve anything
	CodeDeadline      Code = "deadline_exceeded"       // the request's own deadline passed in a queue
	CodeInternal      Code = "internal_error"          // a worker failed
)

// Refusal is a request that was not admitted. It is a value of another type than a request, so nothing that allocates,
// computes or sends can take it; it keeps its code, message and numbers up to the client.
type Refusal struct {
	Code       Code
	Message    string        // fit for users: names the value, the limit and the way out
	Param      string        // the field at fault; empty where there is none
	Limit      Tokens        // the limit that was passed, where one was
	Count      Tokens        // what the request came to
	RetryAfter time.Duration // when to try again; 0 where it is no use
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Message) }

// Refuse makes a refusal with a formatted message.
func Refuse(code Code, param, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}
