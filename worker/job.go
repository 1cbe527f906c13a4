package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// job is one request on its way through both loops. What is not fixed belongs to one loop at a time: to prefill's while
// the request waits, to decode's once it has been handed over, and back when it is set back; what stands in tokens never
// changes, so prefill may read the prefix that it computes while decode appends behind it.
type job struct {
	ticket  sched.Ticket
	req     bulkhead.Request
	arrived time.Time
	stream  *Stream

	tokens  []bulkhead.Token // the prompt, and the answer so far
	sampler *sample.Sampler  // from the first token on, and kept when the request is set back
	begun   bool             // has had pages in prefill before
	last    time.Time        // when the last token was sent
}

// prefix is what has to stand in pages before decode can compute the next token: all tokens but the last.
func (j *job) prefix() []bulkhead.Token { return j.tokens[: len(j.tokens)-1 : len(j.tokens)-1] }

// generated is how many tokens of the answer there are.
func (j *job) generated() bulkhead.Tokens { return bulkhead.Tokens(len(j.tokens) - len(j.req.Prompt)) }

// over says whether the request has ended, or must end now because its deadline has passed; it ends it then.
func (p *Pair) over(j *job, now time.Time) bool {
	if d := j.req.Deadline; !d.IsZero() && !now.Before(d) {
		p.refuse(j, sched.DeadlinePassed())
	}
	return j.stream.isEnded()
}

// end ends a request, if nobody has ended it yet, counts it and wakes both loops, which let go of what it holds.
func (p *Pair) end(j *job, e bulkhead.End) {
	e.Prompt = bulkhead.Tokens(len(j.req.Prompt))
	if !j.stream.finish(&e) {
		return
	}
	p.count.ended(&e)
	p.cfg.Observer.Ended(j.req.Tenant.Name, e, time.Since(j.arrived))
	p.forget(j)
	p.prefill.bell.ring()
	p.decode.bell.ring()
}

// sample gives the request its sampler, when its first token is about to be drawn: penalties make it as large as a
// vocabulary, and many requests wait.
func (p *Pair) sample(j *job) {
	if j.sampler != nil {
		return
	}
	s, err := sample.New(j.req.Sampling, p.cfg.Runner.Info().Vocab, j.req.Prompt)
	if err != nil {
		p.refuse(j, bulkhead.Refuse(bulkhead.CodeInvalid, "", "%v", err))
	}
	j.sampler = s
}

func (p *Pair) refuse(j *job, r *bulkhead.Refusal) {
	p.end(j, bulkhead.End{Reason: bulkhead.Refused, Refusal: r})
}

func (p *Pair) fail(j *job, err error) {
	p.cfg.Log.Error("a request failed", "request", j.req.ID, "tenant", j.req.Tenant.Name, "error", err)
	p.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: err})
}

// violated ends the request that met a page that was not its own. The log line says which page, and nothing of what it
// holds.
func (p *Pair) violated(j *job, side Side, where string, v *bulkhead.Violation) {
	p.report(j, side, where, v)
	p.end(j, bulkhead.End{Reason: bulkhead.Violated, Err: v})
}

// report counts and logs a violation.
func (p *Pair) report(j *job, side Side, where string, v *bulkhead.Violation) {
	p.count.violation(v.Part)
	p.cfg.Log.Error("kv integrity violation", "request", j.req.ID, "tenant", j.req.Tenant.Name, "side", side.String(),
		"where", where, "page", v.Page, "at", v.At, "layer", v.Layer, "part", v.Part, "expected", v.Expected, "found", v.Found)
}
