package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// outcome is how a worker's part in an attempt ended.
type outcome struct {
	kind    outcomeKind
	refusal *bulkhead.Refusal // with refused and crowded
	detail  string            // for logs: what it said, or what happened to the connection

	reason     bulkhead.Reason // with done, at decode: Stopped or Length
	stop       bulkhead.Token  // with Stopped
	prompt     int             // tokens of the prompt as the worker counted them; -1: it has not said
	cached     int             // -1: it has not said
	completion int
}

type outcomeKind uint8

const (
	done      outcomeKind = iota // prefill has handed over; decode has answered
	refused                      // for what the request is: nobody else will take it either
	crowded                      // its queue is full, or it takes no more requests: another may
	violated                     // a page was not the request's own
	aborted                      // it was told to stop
	lost                         // it and the other worker of the pair do not reach each other
	failed                       // a fault of its own
	unreached                    // no connection; it has not heard of the request
	cut                          // the connection ended in the middle
	stalled                      // it does not answer any more
	garbage                      // what it says is no answer
	dropped                      // this gateway closed the connection
)

var outcomeNames = [...]string{"done", "refused", "crowded", "violated", "aborted", "lost", "failed", "unreached", "cut",
	"stalled", "garbage", "dropped"}

func (k outcomeKind) String() string { return outcomeNames[k] }

// errorOutcome is what an error of a worker means. Codes that only speak of the machinery are faults of ours, not of the
// request; so is an error without a code, unless its status says that there is no room.
func errorOutcome(status int, header http.Header, f *sglang.Failure) outcome {
	o := outcome{kind: failed, prompt: -1, cached: -1, detail: fmt.Sprintf("status %d, code %q, param %q: %.500s",
		status, f.Error.Code, f.Refusal().Param, f.Error.Message)}
	ref := f.Refusal()
	ref.RetryAfter = retryAfter(header)
	switch ref.Code {
	case openai.CodeViolation:
		o.kind = violated
	case sglang.CodeHandoff:
		o.kind = lost
	case sglang.CodeAborted:
		o.kind = aborted
	case bulkhead.CodeBusy:
		o.kind, o.refusal = crowded, ref
	case bulkhead.CodeDraining, bulkhead.CodeUnavailable: // of a worker, which clients do not know of
		o.kind, o.refusal = crowded, unavailable()
	case bulkhead.CodeInvalid, bulkhead.CodeUnsupported, bulkhead.CodeContextLength, bulkhead.CodeDeadline:
		if param, ours := clientParam(ref.Param); !ours {
			ref.Param = param
			o.kind, o.refusal = refused, ref
		}
	case "":
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			o.kind, o.refusal = crowded, busy(retryBusy)
		}
	}
	if o.refusal != nil && o.refusal.RetryAfter == 0 && o.kind == crowded {
		o.refusal.RetryAfter = retryBusy
	}
	return o
}

// clientParam is the name that clients have for a field of /generate. ours says that the gateway alone sets the field, so that
// an error in it is no client's.
func clientParam(param string) (name string, ours bool) {
	field := strings.TrimPrefix(param, "sampling_params.")
	switch {
	case field == "input_ids":
		return "prompt", false
	case field == "max_new_tokens":
		return "max_tokens", false
	case field == "rid", field == "stream", strings.HasPrefix(field, "bootstrap_"), field == "bulkhead", strings.HasPrefix(field, "bulkhead."):
		return "", true
	case field == "sampling_params":
		return "", false
	}
	return field, false
}

// retryAfter reads the header, in seconds; 0 where there is none, or more than an hour.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 || n > 3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}

func busy(after time.Duration) *bulkhead.Refusal {
	ref := bulkhead.Refuse(bulkhead.CodeBusy, "", "too many requests are waiting; send it again in a moment")
	ref.RetryAfter = after
	return ref
}

func unavailable() *bulkhead.Refusal {
	ref := bulkhead.Refuse(bulkhead.CodeUnavailable, "", "no workers are ready to serve this model right now; send the request again in a moment")
	ref.RetryAfter = retryGone
	return ref
}

func deadline() *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeDeadline, "", "the request's deadline passed before it was answered")
}

// withoutMachinery is a refusal as a client may see it (rule I8): a message in which a worker names itself, a room or a request
// id is exchanged for one that does not.
func withoutMachinery(ref *bulkhead.Refusal, names ...string) *bulkhead.Refusal {
	out := *ref
	for _, name := range names {
		if len(name) >= 3 && strings.Contains(out.Message, name) {
			out.Message = "the request was refused: " + string(ref.Code)
		}
	}
	if out.Message == "" || len(out.Message) > 2000 {
		out.Message = "the request was refused: " + string(ref.Code)
	}
	return &out
}

// decodeAnswer is one event of decode's stream: part of an answer, or an error.
type decodeAnswer struct {
	sglang.Answer
	Error json.RawMessage `json:"error"`
}

var errNoAnswer = errors.New("neither an answer nor an error")

// parseAnswer reads prefill's answer or an event of decode's. failure is set where it is an error.
func parseAnswer(data []byte) (a *sglang.Answer, failure *sglang.Failure, err error) {
	var d decodeAnswer
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, nil, err
	}
	if len(d.Error) > 0 && string(d.Error) != "null" {
		failure = &sglang.Failure{}
		if err := json.Unmarshal(data, failure); err != nil {
			return nil, nil, err
		}
		return nil, failure, nil
	}
	if d.Meta.ID == "" {
		return nil, nil, errNoAnswer
	}
	return &d.Answer, nil, nil
}
