package cluster

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// flow is one request from Submit to its End: as many attempts as it takes, one after another, each with a loop of its own. The
// loop of an attempt that has given its verdict goes on until both workers are done with it, while the next attempt runs.
type flow struct {
	c      *Cluster
	req    bulkhead.Request
	stream *stream
	blocks []block
	spread uint64
	tries  int // attempts so far

	// Whom the next attempt is better without. Only the attempt whose verdict is next writes them.
	avoid map[nodeID]bool
	apart map[link]bool
}

func newFlow(c *Cluster, r bulkhead.Request) *flow {
	domain := r.Tenant.Domain
	if domain == "" {
		domain = r.Tenant.Name
	}
	f := &flow{c: c, req: r, stream: newStream(), blocks: blocks(c.cfg.Key, domain, r.Prompt), avoid: map[nodeID]bool{}, apart: map[link]bool{}}
	if len(f.blocks) > 0 {
		f.spread = binary.LittleEndian.Uint64(f.blocks[0][:])
	} else { // too short to be looked for in a cache: anywhere
		f.spread = uint64(newRoom())
	}
	return f
}

// tokens is how much of a worker's work the request is, at most.
func (f *flow) tokens(role Role) bulkhead.Tokens {
	if role == Prefill {
		return bulkhead.Tokens(len(f.req.Prompt))
	}
	return bulkhead.Tokens(len(f.req.Prompt)) + f.req.MaxTokens
}

// tooLarge says that a worker's own window does not hold the request: it was admitted before that worker came.
func (f *flow) tooLarge(facts *facts) bool { return f.tokens(Decode) > facts.window }

// message is what a connection's goroutine tells the loop.
type message struct {
	role   Role
	answer *sglang.Answer // decode: an event, the last one with over
	end    outcome        // with over, where there is no last event
	over   bool           // the goroutine has ended
}

// running is an attempt with what its loop holds.
type running struct {
	*flow
	*attempt
	pair *pairing
	drop map[Role]context.CancelFunc
	log  []any // who it is
}

// run is the loop of one attempt.
func (f *flow) run(p *pairing) {
	defer f.c.leavePair(p)
	f.tries++
	r := &running{flow: f, pair: p, drop: map[Role]context.CancelFunc{}}
	r.attempt = newAttempt(f.c.cfg.Timeouts, f.expectation(), time.Now())
	r.log = []any{"id", string(f.req.ID), "attempt", f.tries, "rid", p.dispatch.rid, "room", p.dispatch.room.String(),
		"prefill", p.dispatch.prefill, "decode", p.dispatch.decode}
	f.c.log.Debug("a request is dispatched", r.log...)
	messages := make(chan message, 16)
	r.start(messages)
	r.loop(messages)
	for _, cancel := range r.drop {
		cancel()
	}
	r.account()
}

func (f *flow) expectation() expectation {
	return expectation{prompt: bulkhead.Tokens(len(f.req.Prompt)), most: f.req.MaxTokens, vocab: f.c.cfg.Vocab,
		logprobs: f.req.Sampling.Logprobs, top: f.req.Sampling.TopLogprobs, deadline: f.req.Deadline}
}

// start sends the request to both workers at once.
func (r *running) start(messages chan<- message) {
	prefill, stopPrefill := context.WithCancel(r.c.ctx)
	decode, stopDecode := context.WithCancel(r.c.ctx)
	r.drop[Prefill], r.drop[Decode] = stopPrefill, stopDecode
	go func() {
		o := r.pair.prefill.client.prefill(prefill, r.pair.dispatch.body(&r.req, false))
		messages <- message{role: Prefill, end: o, over: true}
	}()
	go func() {
		last, o := r.pair.decode.client.decode(decode, r.pair.dispatch.body(&r.req, true), func(m *sglang.Answer) {
			messages <- message{role: Decode, answer: m}
		})
		messages <- message{role: Decode, answer: last, end: o, over: true}
	}()
}

// loop hands events to the attempt and does what it says, until both connections have ended and the client's part is over.
func (r *running) loop(messages <-chan message) {
	left, closing, prefillDown, decodeDown := r.stream.left, r.c.closing, r.pair.prefillDown, r.pair.decodeDown
	for open := 2; open > 0 || !r.over(); {
		timer, stop := until(r.due())
		select {
		case m := <-messages:
			r.perform(r.receive(m))
			if m.over {
				open--
				r.c.leaveSide(r.flow, r.pair.node(m.role))
			}
		case <-left:
			left = nil
			r.perform(r.leave(time.Now()))
		case <-prefillDown:
			prefillDown = nil
			r.perform(r.gone(Prefill, time.Now()))
		case <-decodeDown:
			decodeDown = nil
			r.perform(r.gone(Decode, time.Now()))
		case <-closing:
			closing = nil
			r.perform(r.shut(time.Now()))
		case <-timer:
			r.perform(r.tick(time.Now()))
		}
		stop()
	}
}

// until is a channel that receives at a moment; never, at the zero one.
func until(t time.Time) (<-chan time.Time, func()) {
	if t.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(t))
	return timer.C, func() { timer.Stop() }
}

func (r *running) receive(m message) []action {
	now := time.Now()
	switch {
	case m.role == Prefill:
		return r.prefillOver(m.end, now)
	case !m.over:
		return r.answer(m.answer, now)
	case m.answer != nil:
		return r.lastAnswer(m.answer, now)
	}
	return r.decodeOver(m.end, now)
}

func (r *running) perform(acts []action) {
	for _, act := range acts {
		switch act.do {
		case give:
			r.stream.add(act.events...)
		case tell:
			r.tell(act.role)
		case drop:
			r.drop[act.role]()
		case charge:
			r.c.blame(r.pair, act.marks)
		case conclude:
			r.conclude(act.end)
		}
	}
}

// tell sends an abort by name. Whether it arrived is seen by the side's own end; if not, it is sent again.
func (r *running) tell(role Role) {
	n, rid := r.pair.node(role), r.pair.dispatch.rid
	r.c.flows.Go(func() {
		ctx, cancel := context.WithTimeout(r.c.ctx, r.c.cfg.Timeouts.Abort)
		defer cancel()
		result := "sent"
		if err := n.client.abort(ctx, rid); err != nil {
			result = "failed"
			r.c.log.Warn("a worker was not told to stop", append(r.log[:len(r.log):len(r.log)], "role", role, "err", err)...)
		}
		r.c.metrics.aborts.WithLabelValues(string(role), result).Inc()
	})
}

// conclude ends the request, or tries again.
func (r *running) conclude(v verdict) {
	for _, s := range []struct {
		*side
		n *node
	}{{&r.p, r.pair.prefill}, {&r.d, r.pair.decode}} {
		echo := s.side == &r.d && echoes(r.p.out, r.d.out)
		if said(s.out, crowded) && s.out.refusal.Code != bulkhead.CodeBusy && !echo {
			r.c.rest(s.n)
		}
	}
	if v.retry && r.tryAgain(v) {
		return
	}
	r.finish(v)
}

// tryAgain starts the next attempt, if there may be one and there is a pair for it.
func (r *running) tryAgain(v verdict) bool {
	if r.tries > r.c.cfg.Retries || r.attempt.left || !r.req.Deadline.IsZero() && !time.Now().Before(r.req.Deadline) {
		return false
	}
	for _, role := range v.avoid {
		r.avoid[r.pair.node(role).id] = true
	}
	if v.apart {
		r.apart[r.pair.link()] = true
	}
	next, ref := r.c.pick(r.flow)
	if ref != nil {
		return false
	}
	args := append(r.log[:len(r.log):len(r.log)], "why", v.detail, "next_prefill", next.dispatch.prefill, "next_decode", next.dispatch.decode)
	r.c.log.Warn("a request is tried again", args...)
	r.c.metrics.retries.Inc()
	go r.flow.retry(next, r.tries)
	return true
}

// retryPause is before the second attempt of a request, and twice as long before the third.
const retryPause = 20 * time.Millisecond

func (f *flow) retry(p *pairing, tries int) {
	select {
	case <-time.After(retryPause << min(tries-1, 6)):
	case <-f.stream.left:
	case <-f.c.closing:
	}
	f.run(p)
}

// finish gives the client its End, and the log what clients do not see.
func (r *running) finish(v verdict) {
	end := *v.end
	if end.Refusal != nil {
		end.Refusal = withoutMachinery(end.Refusal, r.secrets()...)
	}
	args := append(r.log[:len(r.log):len(r.log)], "reason", end.Reason.String(), "detail", v.detail)
	switch end.Reason {
	case bulkhead.Violated, bulkhead.Failed:
		r.c.log.Error("a request failed", append(args, "err", end.Err)...)
	case bulkhead.Refused:
		r.c.log.Info("a request was refused", append(args, "code", string(end.Refusal.Code), "message", end.Refusal.Message)...)
	default:
		r.c.log.Debug("a request ended", args...)
	}
	r.c.metrics.ended.WithLabelValues(end.Reason.String()).Inc()
	r.stream.add(bulkhead.Event{End: &end})
}

// secrets are the names of the machinery that no client may see.
func (r *running) secrets() []string {
	d := r.pair.dispatch
	return []string{d.rid, d.room.String(), d.host, d.prefill, d.decode, r.pair.prefill.host, r.pair.decode.host}
}

// account counts an attempt that is over.
func (r *running) account() {
	for _, s := range []struct {
		*side
		role Role
		name string
	}{{&r.p, Prefill, r.pair.dispatch.prefill}, {&r.d, Decode, r.pair.dispatch.decode}} {
		r.c.metrics.outcomes.WithLabelValues(string(s.role), s.name, s.out.kind.String()).Inc()
		if s.out.kind == dropped {
			r.c.metrics.held.WithLabelValues("dropped").Inc()
			r.c.log.Warn("a worker was not done in time with what it was told to stop, and its connection was closed",
				append(r.log[:len(r.log):len(r.log)], "role", s.role)...)
		} else if s.asked {
			r.c.metrics.held.WithLabelValues("over").Inc()
		}
	}
	r.c.log.Debug("an attempt is over", append(r.log[:len(r.log):len(r.log)], "prefill_outcome", r.p.out.kind.String(),
		"decode_outcome", r.d.out.kind.String(), "left", r.attempt.left)...)
}
