package cluster

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// leave says that the client has left (rule I6). Before the first token prefill is told at once: it stops if the transfer has not
// begun, by its own rule. Decode is told when the handoff is over, which is now if a token has come or prefill has answered.
// The End waits a moment for prefill's answer, which says how much of the prompt was cached: a client whose stop string was
// found has left too, and is told.
func (a *attempt) leave(now time.Time) []action {
	if a.left {
		return nil
	}
	a.left = true
	if a.ended {
		return nil
	}
	var acts []action
	if !a.first {
		acts = a.ask(&a.p, Prefill, now)
	}
	if a.first || a.p.out != nil {
		acts = append(acts, a.ask(&a.d, Decode, now)...)
	}
	if a.p.out != nil {
		return append(acts, a.end(a.aborted())...)
	}
	a.settleAt = now.Add(a.t.Settle)
	return acts
}

// shut says that the gateway closes: both sides are told, and held for no longer than one abort takes.
func (a *attempt) shut(now time.Time) []action {
	if a.closed {
		return nil
	}
	a.closed = true
	acts := append(a.ask(&a.p, Prefill, now), a.ask(&a.d, Decode, now)...)
	a.holdAt = now.Add(a.t.Abort)
	ref := bulkhead.Refuse(bulkhead.CodeDraining, "", "the server is shutting down; send the request again in a moment")
	ref.RetryAfter = retryGone
	return append(acts, a.end(verdict{end: &bulkhead.End{Reason: bulkhead.Refused, Refusal: ref}, detail: "the gateway closes"})...)
}

// gone says that a worker does not answer probes any more: what it owes will not come.
func (a *attempt) gone(role Role, now time.Time) []action {
	o := outcome{kind: stalled, detail: "it does not answer probes any more", prompt: -1, cached: -1}
	s := &a.p
	if role == Decode {
		s = &a.d
	}
	if s.out != nil {
		return nil
	}
	acts := []action{{do: drop, role: role}}
	if role == Prefill {
		return append(acts, a.prefillOver(o, now)...)
	}
	return append(acts, a.decodeOver(o, now)...)
}

// due is when the next thing is to be done if nothing happens; zero: never.
func (a *attempt) due() time.Time {
	var next time.Time
	for _, t := range []time.Time{a.settleAt, a.holdAt, a.idleAt, a.deadlineAt, a.againAt} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// overslept is by how much a moment is missed only by a gateway that did not run: it, or its host, was stopped. What workers have
// sent meanwhile is then read first, so that they are not taken for silent.
const overslept = time.Second

// tick does what is due.
func (a *attempt) tick(now time.Time) (acts []action) {
	if !a.idleAt.IsZero() && now.Sub(a.idleAt) > overslept {
		a.idleAt = now.Add(overslept)
	}
	for _, t := range []struct {
		at *time.Time
		do func(time.Time) []action
	}{{&a.settleAt, a.settled}, {&a.deadlineAt, a.late}, {&a.idleAt, a.idle}, {&a.againAt, a.again}, {&a.holdAt, a.held}} {
		if !t.at.IsZero() && !now.Before(*t.at) {
			*t.at = time.Time{}
			acts = append(acts, t.do(now)...)
		}
	}
	return acts
}

// settled: the other side was heard for long enough.
func (a *attempt) settled(now time.Time) []action {
	switch {
	case a.ended:
		return nil
	case a.left:
		return append(a.end(a.aborted()), a.ask(&a.p, Prefill, now)...)
	case a.d.out != nil && a.d.out.kind == done: // prefill has not said that it handed over, and it has
		return append(a.end(verdict{end: endOf(Decode, a.d.out)}), a.ask(&a.p, Prefill, now)...)
	}
	return a.decide()
}

// late: the request's deadline has passed and no worker has refused it for that.
func (a *attempt) late(now time.Time) []action {
	acts := a.end(verdict{end: &bulkhead.End{Reason: bulkhead.Refused, Refusal: deadline()}, detail: "the deadline has passed"})
	return append(append(acts, a.ask(&a.p, Prefill, now)...), a.askHeld(now)...)
}

// idle: no token for too long. Before the first it is nobody's fault that could be proven; after it, it is decode's.
func (a *attempt) idle(now time.Time) []action {
	if a.d.out != nil {
		return nil
	}
	o := outcome{kind: stalled, detail: "no token for too long", prompt: -1, cached: -1}
	acts := []action{}
	if a.first && !a.ended {
		acts = append(acts, action{do: charge, marks: [3]mark{later, markOf(&o, a.d.asked), neither}})
	}
	acts = append(acts, a.end(verdict{end: endOf(Decode, &o), detail: "decode stalled: " + o.detail})...)
	return append(append(acts, a.ask(&a.p, Prefill, now)...), a.askHeld(now)...)
}

// askHeld tells decode, if the handoff is over; else handedOver or tellHeld will.
func (a *attempt) askHeld(now time.Time) []action {
	a.left = true // from here on it is as if the client had left
	if a.first || a.p.out != nil {
		return a.ask(&a.d, Decode, now)
	}
	return nil
}

// again: sides that were told to stop and are not done are told once more.
func (a *attempt) again(now time.Time) (acts []action) {
	for _, s := range []struct {
		*side
		role Role
	}{{&a.p, Prefill}, {&a.d, Decode}} {
		if s.asked && s.out == nil {
			acts = append(acts, action{do: tell, role: s.role})
		}
	}
	if len(acts) > 0 {
		a.pause = min(2*a.pause, a.t.Abort)
		a.againAt = now.Add(a.pause)
	}
	return acts
}

// held: whoever is not done by now is not waited for any longer.
func (a *attempt) held(now time.Time) (acts []action) {
	o := outcome{kind: dropped, detail: "it was not done in time after it was told to stop", prompt: -1, cached: -1}
	if a.p.out == nil {
		acts = append(append(acts, action{do: drop, role: Prefill}), a.prefillOver(o, now)...)
	}
	if a.d.out == nil {
		acts = append(append(acts, action{do: drop, role: Decode}), a.decodeOver(o, now)...)
	}
	return acts
}
