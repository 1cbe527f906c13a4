package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// drawn is one request's next token.
type drawn struct {
	token    bulkhead.Token
	logprobs *sample.Logprobs
	err      error
}

// step computes one token of every running request. The logits are the engine's until its next step, so tokens are drawn
// before the turn is passed on. False where nobody runs.
func (d *DecodeWorker) step() bool {
	b := &d.batch
	b.targets, b.work, b.bills, b.events = b.targets[:0], b.work[:0], b.bills[:0], b.events[:0]
	for _, ticket := range d.line.Step(slots{d}) {
		t := d.held[ticket]
		if t.job.stream.isEnded() {
			continue // since the turn began: let go of in the next
		}
		last := len(t.job.tokens) - 1
		b.targets = append(b.targets, t)
		b.work = append(b.work, engine.Work{Seq: t.seq, Tokens: t.job.tokens[last:], Logits: true})
		b.bills = append(b.bills, bill{t.job.req.Tenant.Name, 1})
	}
	if len(b.targets) == 0 {
		return false
	}
	b.results = slices.Grow(b.results[:0], len(b.work))[:len(b.work)]
	clear(b.results)

	d.turn.take()
	start := time.Now()
	d.cfg.Runner.Step(b.work, b.results)
	took := time.Since(start)
	for i, t := range b.targets {
		ran(&b.work[i], bulkhead.Tokens(len(t.job.tokens)-1), &b.results[i])
		var n drawn
		if b.results[i].Violation == nil {
			n.token, n.logprobs, n.err = t.job.sampler.Next(b.results[i].Logits)
		}
		b.events = append(b.events, n)
	}
	d.turn.pass()

	d.cfg.Observer.Step(Decode, len(b.work), took)
	d.count.add(func(c *Counters) { c.DecodeSteps++; c.DecodeRows += uint64(len(b.work)) })
	d.account(b.bills)
	for i, t := range b.targets {
		if v := b.results[i].Violation; v != nil {
			d.violated(t.job, "decode step", v)
		} else if err := b.events[i].err; err != nil {
			d.fail(t.job, err)
		} else {
			d.emit(t.job, b.events[i])
		}
		if t.job.stream.isEnded() {
			d.drop(t)
		}
	}
	return true
}

// emit sends a token, or ends the request where it was its last.
func (d *DecodeWorker) emit(j *job, n drawn) {
	stop := slices.Contains(j.req.StopIDs, n.token) || !j.req.IgnoreEOS && slices.Contains(d.cfg.EOS, n.token)
	if stop {
		d.end(j, bulkhead.End{Reason: bulkhead.Stopped, StopToken: n.token})
		return
	}
	j.tokens = append(j.tokens, n.token)
	e := bulkhead.Event{Token: n.token}
	if l := n.logprobs; l != nil {
		e.Logprobs = &bulkhead.Logprobs{Token: l.Logprob, Top: l.Top}
	}
	if !j.stream.push(e) {
		return
	}
	d.count.add(func(c *Counters) { c.OutputTokens++ })
	d.time(j)
	if j.generated() >= j.req.MaxTokens {
		d.end(j, bulkhead.End{Reason: bulkhead.Length})
	}
}

// time tells the observer how long the token took.
func (d *DecodeWorker) time(j *job) {
	now := time.Now()
	if j.last.IsZero() {
		d.cfg.Observer.FirstToken(j.req.Tenant.Name, now.Sub(j.arrived))
	} else {
		d.cfg.Observer.NextToken(j.req.Tenant.Name, now.Sub(j.last))
	}
	j.last = now
}

// slots is the pool as sched sees it.
type slots struct{ d *DecodeWorker }

// Grow is sched.Pool: a slot for the next token.
func (r slots) Grow(ticket sched.Ticket) bool {
	s := r.d.held[ticket].seq
	return r.d.pool.Grow(s, s.Len()+1)
}

// SetBack is sched.Pool.
func (r slots) SetBack(ticket sched.Ticket) { r.d.setBack(ticket) }

// Stuck is sched.Pool: the request is alone and does not fit, which happens only where pages were set aside after it was
// taken. Pages in quarantine come back.
func (r slots) Stuck(ticket sched.Ticket) bool {
	d := r.d
	if d.pool.Stats().Quarantined > 0 {
		return false
	}
	t := d.held[ticket]
	d.fail(t.job, d.noRoom(len(t.job.tokens)))
	d.drop(t)
	return true
}

// tooLarge ends the head of the line where nobody holds anything and it still does not fit.
func (d *DecodeWorker) tooLarge() {
	ticket, alone := d.line.Head()
	if ticket == 0 || !alone || !d.pool.Stats().Idle() {
		return
	}
	t := d.held[ticket]
	d.fail(t.job, d.noRoom(len(t.job.tokens)))
	d.drop(t)
}

func (d *DecodeWorker) noRoom(tokens int) error {
	return fmt.Errorf("the decode pool no longer holds %d tokens: %d of its pages are set aside", tokens, d.pool.Stats().SetAside)
}
