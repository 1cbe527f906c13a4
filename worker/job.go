package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// job is one request at one worker. Each of the two has its own, and nothing in common with the other's but what was
// ordered. What is not fixed belongs to the worker's loop; what stands in tokens never changes.
type job struct {
	ticket  sched.Ticket
	req     bulkhead.Request
	room    bulkhead.Room
	arrived time.Time
	stream  *Stream

	tokens  []bulkhead.Token // the prompt, and at decode the answer so far
	sampler *sample.Sampler  // at decode, from the first token on, and kept when the request is set back
	last    time.Time        // when the last token was sent
}

// prefix is what has to stand in pages before decode can compute the next token: all tokens but the last.
func (j *job) prefix() []bulkhead.Token { return j.tokens[: len(j.tokens)-1 : len(j.tokens)-1] }

// generated is how many tokens of the answer there are.
func (j *job) generated() bulkhead.Tokens { return bulkhead.Tokens(len(j.tokens) - len(j.req.Prompt)) }

// over says whether the request has ended, or must end now because its deadline has passed; it ends it then.
func (c *core) over(j *job, now time.Time) bool {
	if d := j.req.Deadline; !d.IsZero() && !now.Before(d) {
		c.refuse(j, sched.DeadlinePassed())
	}
	return j.stream.isEnded()
}

// end ends a request, if nobody has ended it yet, counts it and wakes the loop, which lets go of what it holds.
func (c *core) end(j *job, e bulkhead.End) {
	e.Prompt = bulkhead.Tokens(len(j.req.Prompt))
	if !j.stream.finish(&e) {
		return
	}
	c.count.ended(&e)
	c.cfg.Observer.Ended(j.req.Tenant.Name, e, time.Since(j.arrived))
	c.ended(j)
	c.bell.ring()
}

// sample gives the request its sampler, when its first token is about to be drawn: penalties make it as large as a
// vocabulary, and many requests wait.
func (c *core) sample(j *job) {
	if j.sampler != nil {
		return
	}
	s, err := sample.New(j.req.Sampling, c.cfg.Runner.Info().Vocab, j.req.Prompt)
	if err != nil {
		c.refuse(j, bulkhead.Refuse(bulkhead.CodeInvalid, "", "%v", err))
	}
	j.sampler = s
}

func (c *core) refuse(j *job, r *bulkhead.Refusal) {
	c.end(j, bulkhead.End{Reason: bulkhead.Refused, Refusal: r})
}

// fail ends a request as failed. What else goes wrong with one that has ended, as with every page of it that was on its way, is
// not told again.
func (c *core) fail(j *job, err error) {
	if j.stream.isEnded() {
		return
	}
	c.cfg.Log.Error("a request failed", "request", j.req.ID, "tenant", j.req.Tenant.Name, "error", err)
	c.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: err})
}

// violated ends the request that met a page that was not its own. The log line says which page, and nothing of what it
// holds.
func (c *core) violated(j *job, where string, v *bulkhead.Violation) {
	c.report(j, where, v)
	c.end(j, bulkhead.End{Reason: bulkhead.Violated, Err: v})
}

// report counts and logs a violation.
func (c *core) report(j *job, where string, v *bulkhead.Violation) {
	c.count.violation(v.Part)
	c.cfg.Log.Error("kv integrity violation", "request", j.req.ID, "tenant", j.req.Tenant.Name, "side", c.side.String(),
		"where", where, "page", v.Page, "at", v.At, "layer", v.Layer, "part", v.Part, "expected", v.Expected, "found", v.Found)
}
