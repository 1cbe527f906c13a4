package wire

import (
	"encoding/binary"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

const stopFixed = 52

// Limits of the texts in a STOP, in bytes.
const (
	MaxCode    = 64
	MaxParam   = 128
	MaxMessage = 1024
	MaxCause   = 512
)

// Cause is what a source says of an end that is no refusal. It is for logs, never for clients.
type Cause struct {
	Text     string
	violated bool
	denied   bool
}

func (c *Cause) Error() string { return c.Text }

// Is makes errors.Is(c, bulkhead.ErrViolation) true of a violation at the source, and errors.Is(c, handoff.ErrLost) of a room that
// the source has not opened for who asks. That is the fault of neither: the request may never have reached the source.
func (c *Cause) Is(target error) bool {
	return c.violated && target == bulkhead.ErrViolation || c.denied && target == handoff.ErrLost
}

// deniedText is the cause in the STOP of every ENTER that is not served, whatever the reason.
const deniedText = "no such room was opened for this worker with this claim"

// Denied is the end of which that STOP speaks.
func Denied() *bulkhead.End {
	return &bulkhead.End{Reason: bulkhead.Failed, Err: &Cause{Text: deniedText, denied: true}}
}

// AppendStop appends a STOP frame that says how the request ended at the source; why may be nil. What cannot be said is
// left out, so that whatever a source says can be read.
func AppendStop(b []byte, room bulkhead.Room, why *bulkhead.End) []byte {
	le := binary.LittleEndian
	b, at := begin(b, TypeStop, room)
	e, ref, has, cause := sayable(why)
	code, param, message := printable(string(ref.Code), MaxCode), printable(ref.Param, MaxParam), printable(ref.Message, MaxMessage)
	b = append(b, byte(e.Reason), has, byte(len(code)), byte(len(param)))
	b = le.AppendUint16(b, uint16(len(message)))
	b = le.AppendUint16(b, uint16(len(cause)))
	b = le.AppendUint64(b, within(ref.Limit, 1<<53))
	b = le.AppendUint64(b, within(ref.Count, 1<<53))
	b = le.AppendUint64(b, uint64(max(0, min(ref.RetryAfter, maxRetry))))
	for _, n := range []bulkhead.Tokens{e.Prompt, e.Cached, e.Completion, 0, 0} {
		b = le.AppendUint32(b, uint32(within(n, 1<<31-1)))
	}
	b = append(append(append(append(b, code...), param...), message...), cause...)
	return end(b, at)
}

// maxRetry is the longest time after which a refused request may be told to come back.
const maxRetry = 24 * time.Hour

func within(n bulkhead.Tokens, most uint64) uint64 { return min(uint64(max(n, 0)), most) }

// sayable is an end as a STOP can say it: a reason that is known, and a refusal exactly where it was refused.
func sayable(why *bulkhead.End) (e bulkhead.End, ref bulkhead.Refusal, has byte, cause string) {
	if why == nil || why.Reason < bulkhead.Stopped || why.Reason > bulkhead.HandedOver {
		return e, ref, 0, ""
	}
	e = *why
	if e.Err != nil {
		cause = printable(e.Err.Error(), MaxCause)
	}
	switch {
	case e.Reason != bulkhead.Refused:
	case e.Refusal == nil || e.Refusal.Code == "":
		e.Reason = bulkhead.Failed
	default:
		ref, has = *e.Refusal, 1
	}
	return e, ref, has, cause
}

// ParseStop takes a STOP frame apart. The end is nil where the source does not say how the request ended.
func ParseStop(f Frame) (*bulkhead.End, error) {
	r := fields(f, TypeStop)
	reason, has := bulkhead.Reason(r.u8()), r.u8()
	codeLen, paramLen, messageLen, causeLen := int(r.u8()), int(r.u8()), int(r.u16()), int(r.u16())
	limit, count, retry := r.tokens("limit"), r.tokens("count"), time.Duration(r.u64())
	why := &bulkhead.End{Reason: reason}
	why.Prompt = bulkhead.Tokens(r.count("prompt", 0, 1<<31-1))
	why.Cached = bulkhead.Tokens(r.count("cached", 0, 1<<31-1))
	why.Completion = bulkhead.Tokens(r.count("completion", 0, 1<<31-1))
	r.zero(8)
	if codeLen > MaxCode || paramLen > MaxParam || messageLen > MaxMessage || causeLen > MaxCause {
		r.fail("texts of %d, %d, %d and %d bytes, at most %d, %d, %d and %d", codeLen, paramLen, messageLen, causeLen,
			MaxCode, MaxParam, MaxMessage, MaxCause)
	}
	if r.err != nil {
		return nil, r.err
	}
	code, param := r.text(codeLen, "code"), r.text(paramLen, "param")
	message, cause := r.text(messageLen, "message"), r.text(causeLen, "cause")
	refusal := &bulkhead.Refusal{Code: bulkhead.Code(code), Message: message, Param: param, Limit: limit, Count: count, RetryAfter: retry}
	switch {
	case reason < 0 || reason > bulkhead.HandedOver:
		r.fail("reason %d", reason)
	case retry < 0 || retry > maxRetry:
		r.fail("retry after %v", retry)
	case has > 1 || (has == 1) != (reason == bulkhead.Refused) || has == 1 && code == "":
		r.fail("reason %v, and a refusal: %d, of code %q", reason, has, code)
	case has == 0 && *refusal != (bulkhead.Refusal{}):
		r.fail("numbers or texts of a refusal, and none was made")
	case reason == 0 && (cause != "" || *why != (bulkhead.End{})):
		r.fail("how the request ended, without a reason")
	}
	if err := r.end(); err != nil || reason == 0 {
		return nil, err
	}
	if has == 1 {
		why.Refusal = refusal
	}
	if cause != "" {
		why.Err = &Cause{Text: cause, violated: reason == bulkhead.Violated, denied: reason == bulkhead.Failed && cause == deniedText}
	}
	return why, nil
}

// tokens is a count of tokens of 64 bits.
func (r *reader) tokens(what string) bulkhead.Tokens {
	n := r.u64()
	if n > 1<<53 {
		r.fail("%s is %d, must be 0 to %d", what, n, uint64(1)<<53)
		return 0
	}
	return bulkhead.Tokens(n)
}
