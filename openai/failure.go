package openai

import (
	"math"
	"net/http"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
)

// Codes that only HTTP and its clients know, beside those of package bulkhead.
const (
	CodeViolation bulkhead.Code = "kv_integrity_violation" // a page was not the request's own; the client is told no more
	CodeTooLarge  bulkhead.Code = "request_too_large"      // the body is over its limit
	CodeSlow      bulkhead.Code = "request_timeout"        // the body did not arrive in time
	CodeMediaType bulkhead.Code = "unsupported_media_type" // the body is declared as something else than JSON
	CodeNoRoute   bulkhead.Code = "unknown_url"            // no such path
	CodeNoMethod  bulkhead.Code = "method_not_supported"   // the path is there and takes other methods
)

// Types of errors, as OpenAI's clients know them.
const (
	typeInvalid = "invalid_request_error"
	typeRate    = "rate_limit_error"
	typeServer  = "server_error"
)

// ErrorBody is the body of every answer that is not a success.
type ErrorBody struct {
	Error Error `json:"error"`
}

// Error is OpenAI's error object.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// statuses maps each code to its HTTP status and type. Clients of OpenAI send a request again after 408, 409, 429 and
// 5xx, unless the header x-should-retry forbids it.
var statuses = map[bulkhead.Code]struct {
	status  int
	kind    string
	noRetry bool
}{
	bulkhead.CodeInvalid:       {http.StatusBadRequest, typeInvalid, false},
	bulkhead.CodeUnsupported:   {http.StatusBadRequest, typeInvalid, false},
	bulkhead.CodeForbidden:     {http.StatusBadRequest, typeInvalid, false},
	bulkhead.CodeContextLength: {http.StatusBadRequest, typeInvalid, false},
	bulkhead.CodeUnauthorized:  {http.StatusUnauthorized, typeInvalid, false},
	bulkhead.CodeNotFound:      {http.StatusNotFound, typeInvalid, false},
	CodeNoRoute:                {http.StatusNotFound, typeInvalid, false},
	CodeNoMethod:               {http.StatusMethodNotAllowed, typeInvalid, false},
	CodeSlow:                   {http.StatusRequestTimeout, typeInvalid, true},
	CodeTooLarge:               {http.StatusRequestEntityTooLarge, typeInvalid, false},
	CodeMediaType:              {http.StatusUnsupportedMediaType, typeInvalid, false},
	bulkhead.CodeBusy:          {http.StatusTooManyRequests, typeRate, false},
	bulkhead.CodeInternal:      {http.StatusInternalServerError, typeServer, false},
	CodeViolation:              {http.StatusInternalServerError, "kv_integrity_violation", true},
	bulkhead.CodeUnavailable:   {http.StatusServiceUnavailable, typeServer, true},
	bulkhead.CodeDraining:      {http.StatusServiceUnavailable, typeServer, false},
	bulkhead.CodeDeadline:      {http.StatusGatewayTimeout, typeServer, true},
}

// Failure is how a refusal reaches a client: the one map from codes to HTTP. A code that is not known is a fault of ours
// and reads as 500.
func Failure(ref *bulkhead.Refusal) (status int, body ErrorBody) {
	s, known := statuses[ref.Code]
	if !known {
		s = statuses[bulkhead.CodeInternal]
	}
	code := string(ref.Code)
	body.Error = Error{Message: ref.Message, Type: s.kind, Code: &code}
	if ref.Param != "" {
		body.Error.Param = &ref.Param
	}
	return s.status, body
}

// FailureHeaders sets the headers that go with a refusal: when to try again, or that there is no use.
func FailureHeaders(h http.Header, ref *bulkhead.Refusal) {
	if ref.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(ref.RetryAfter.Seconds()))))
	}
	if statuses[ref.Code].noRetry && ref.RetryAfter == 0 {
		h.Set("X-Should-Retry", "false")
	}
	if ref.Code == bulkhead.CodeUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// Violated is what a client is told of a violation: that there was one, and nothing of any page.
func Violated() *bulkhead.Refusal {
	return bulkhead.Refuse(CodeViolation, "", "a KV page that this request would have read was not its own. The request was stopped "+
		"before anything computed from that page left the server, and the page was set aside. Other requests are not concerned; "+
		"this one can be sent again")
}
