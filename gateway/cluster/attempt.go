package cluster

import (
	"fmt"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// attempt is one room, from dispatch until both workers are done with it. It takes events and returns what is to be done; it
// owns no clock, socket or goroutine.
//
//	dispatched -- decode's first token --> passing -- decode's end --> ended
//	    |                                     `------ decode fails --> ended
//	    |-- a side fails: the other is told to stop, and heard for Settle --> ended, or to be tried again
//	    `-- the client leaves: prefill is told; when the handoff is over decode is told --> ended
//
// Ended is what the client sees. The attempt is over when both sides have answered, or Hold has passed since the first of them
// was told to stop: until then the loop keeps both connections open.
type attempt struct {
	t    Timeouts
	want expectation
	p, d side

	first  bool            // the handoff is over: decode has sent a token
	left   bool            // the client has
	closed bool            // the gateway closes
	ended  bool            // the verdict was given
	passed bulkhead.Tokens // given to the client
	cached int             // as decode says; -1: nothing

	// Moments at which something is due; zero: never.
	settleAt, holdAt, idleAt, deadlineAt, againAt time.Time

	pause time.Duration // until those that were told are told again
}

// side is one worker's part.
type side struct {
	out    *outcome // nil: it goes on
	asked  bool     // it was told to stop
	marked bool     // its breaker has heard how it went
}

// expectation is what of a request bounds its answer.
type expectation struct {
	prompt, most bulkhead.Tokens
	vocab        int
	logprobs     bool
	top          int
	deadline     time.Time
}

// action is what the loop does for an attempt.
type action struct {
	do     actionKind
	role   Role             // with tell and drop
	events []bulkhead.Event // with give
	end    verdict          // with conclude
	marks  [3]mark          // with charge: prefill, decode, link
}

type actionKind uint8

const (
	give     actionKind = iota // give events to the client
	tell                       // POST /abort_request to a side
	drop                       // close the connection to a side
	conclude                   // the client's part is over: end, or try again
	charge                     // tell the breakers
)

func newAttempt(t Timeouts, want expectation, now time.Time) *attempt {
	a := &attempt{t: t, want: want, cached: -1, idleAt: now.Add(t.First)}
	if !want.deadline.IsZero() {
		a.deadlineAt = want.deadline.Add(deadlineGrace)
	}
	return a
}

// deadlineGrace is for the workers' own refusals of requests whose deadline has passed: they say more.
const deadlineGrace = time.Second

// over says that both sides are done and the client's part is too.
func (a *attempt) over() bool { return a.ended && a.p.out != nil && a.d.out != nil }

// answer takes an event of decode's stream that is not its last.
func (a *attempt) answer(m *sglang.Answer, now time.Time) []action {
	if a.d.out != nil {
		return nil
	}
	events, err := a.want.read(m, a.passed)
	if err != nil {
		return append([]action{{do: drop, role: Decode}}, a.decodeOver(garbled(err), now)...)
	}
	if m.Meta.CachedTokens >= 0 && m.Meta.CachedTokens <= int(a.want.prompt) {
		a.cached = m.Meta.CachedTokens
	}
	if len(events) == 0 || a.d.asked { // what it had sent before it heard that it is to stop
		return nil
	}
	a.idleAt = now.Add(a.t.Idle)
	var acts []action
	if !a.first {
		a.first = true
		acts = a.handedOver(now)
	}
	if a.ended || a.left {
		return acts
	}
	a.passed += bulkhead.Tokens(len(events))
	return append(acts, action{do: give, events: events})
}

// handedOver follows decode's first token: decode has proven every page, so both sides and their link are well. If the client
// has left meanwhile, decode is told now.
func (a *attempt) handedOver(now time.Time) []action {
	acts := []action{{do: charge, marks: [3]mark{well, well, well}}}
	a.p.marked, a.d.marked = true, true
	if a.left || a.ended {
		acts = append(acts, a.ask(&a.d, Decode, now)...)
	}
	return acts
}

// lastAnswer takes the event that ends decode's stream: it can carry tokens too.
func (a *attempt) lastAnswer(m *sglang.Answer, now time.Time) []action {
	if a.d.out != nil {
		return nil
	}
	o, rest, err := a.want.finish(m, a.passed, a.left || a.ended || a.d.asked)
	if err != nil {
		return a.decodeOver(garbled(err), now)
	}
	acts := []action{}
	if len(rest.OutputIDs) > 0 {
		acts = a.answer(rest, now)
	}
	if a.d.out != nil {
		return acts
	}
	return append(acts, a.decodeOver(o, now)...)
}

func garbled(err error) outcome {
	return outcome{kind: garbage, detail: err.Error(), prompt: -1, cached: -1}
}

// decodeOver takes decode's end.
func (a *attempt) decodeOver(o outcome, now time.Time) []action {
	if a.d.out != nil {
		return nil
	}
	a.d.out = &o
	a.idleAt = time.Time{}
	return append(a.farewell(&a.d, Decode), a.afterDecode(o, now)...)
}

// afterDecode is what follows from decode's end.
func (a *attempt) afterDecode(o outcome, now time.Time) []action {
	switch {
	case a.ended:
		return a.lateMark(&a.d, Decode)
	case a.left && a.p.out != nil:
		return append(a.lateMark(&a.d, Decode), a.end(a.aborted())...)
	case a.left: // prefill's answer is waited for: see leave
		return a.lateMark(&a.d, Decode)
	case a.d.asked && !a.first: // prefill has failed, and whatever decode says now was not passed on
		return a.failing(&a.p, Prefill, now)
	case o.kind == done && !a.first: // an answer of one stop token, and none before it
		a.first = true
		acts := a.handedOver(now)
		return append(acts, a.closing(now)...)
	case o.kind == done:
		return a.closing(now)
	case a.first: // too late to try again
		acts := []action{{do: charge, marks: [3]mark{later, markOf(&o, a.d.asked), neither}}}
		acts = append(acts, a.end(verdict{end: endOf(Decode, &o), detail: fmt.Sprintf("decode %v: %s", o.kind, o.detail)})...)
		return append(acts, a.ask(&a.p, Prefill, now)...)
	}
	return a.failing(&a.p, Prefill, now)
}

// closing follows decode's good end. Prefill has answered long ago, as a rule; what it says is waited for, because it counts too.
func (a *attempt) closing(now time.Time) []action {
	if a.p.out != nil {
		return a.end(verdict{end: endOf(Decode, a.d.out)})
	}
	a.settleAt = now.Add(a.t.Settle)
	return nil
}

// prefillOver takes prefill's end.
func (a *attempt) prefillOver(o outcome, now time.Time) []action {
	if a.p.out != nil {
		return nil
	}
	if o.kind == done && o.prompt != int(a.want.prompt) {
		o = outcome{kind: garbage, prompt: o.prompt, cached: -1,
			detail: fmt.Sprintf("it says that the prompt has %d tokens, and it has %d", o.prompt, a.want.prompt)}
		a.p.out = &o
		return a.miscounted(now)
	}
	a.p.out = &o
	return append(a.farewell(&a.p, Prefill), a.afterPrefill(o, now)...)
}

// afterPrefill is what follows from prefill's end.
func (a *attempt) afterPrefill(o outcome, now time.Time) []action {
	switch {
	case a.ended:
		return append(a.lateMark(&a.p, Prefill), a.tellHeld(now)...)
	case a.left:
		return append(append(a.lateMark(&a.p, Prefill), a.end(a.aborted())...), a.tellHeld(now)...)
	case a.d.out != nil && a.d.out.kind == done:
		return append(a.lateMark(&a.p, Prefill), a.end(verdict{end: endOf(Decode, a.d.out)})...)
	case a.first: // decode has proven what it has; why prefill failed after that is for the breaker
		return a.lateMark(&a.p, Prefill)
	case o.kind == done && a.d.out == nil:
		return nil
	case o.kind == done: // decode has failed, and had been waiting for this
		return a.decide()
	}
	return a.failing(&a.d, Decode, now)
}

// tellHeld stops decode once prefill has answered after the client has left: either nothing was handed over, or everything.
func (a *attempt) tellHeld(now time.Time) []action {
	if !a.left && !a.closed {
		return nil
	}
	return a.ask(&a.d, Decode, now)
}

// miscounted ends a request of which prefill has computed another prompt. It is not tried again: something is wrong between
// this gateway and that worker, and the answer, however much of it has come, is not believed.
func (a *attempt) miscounted(now time.Time) []action {
	acts := []action{{do: charge, marks: [3]mark{badly, neither, neither}}}
	a.p.marked = true
	if !a.ended {
		acts = append(acts, a.end(verdict{end: endOf(Prefill, a.p.out), detail: "prefill " + a.p.out.detail})...)
	}
	return append(acts, a.ask(&a.d, Decode, now)...)
}

// failing follows the failure of one side before the first token: the other is told to stop, and heard for a moment.
func (a *attempt) failing(other *side, role Role, now time.Time) []action {
	if other.out != nil {
		return a.decide()
	}
	a.settleAt = now.Add(a.t.Settle)
	return a.ask(other, role, now)
}

// decide gives the verdict of an attempt that failed before its first token.
func (a *attempt) decide() []action {
	p, d, link := marks(a.p.out, a.d.out, a.p.asked, a.d.asked)
	v := settle(a.unasked(a.p), a.unasked(a.d), p, d, link)
	a.p.marked, a.d.marked = p != later, d != later
	return append([]action{{do: charge, marks: [3]mark{p, d, link}}}, a.end(v)...)
}

// unasked is a side's outcome unless it is just what it was told: to stop.
func (a *attempt) unasked(s side) *outcome {
	if s.asked && s.out != nil && (s.out.kind == aborted || s.out.kind == done) {
		return nil
	}
	return s.out
}
