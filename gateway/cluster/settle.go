package cluster

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// mark is what an attempt says of a worker, or of the link between two.
type mark uint8

const (
	later   mark = iota // nothing yet
	neither             // nothing at all
	well
	badly
)

// verdict is how an attempt ended before its first token.
type verdict struct {
	end    *bulkhead.End // how the request ends, if it is not tried again
	retry  bool          // it may be tried again
	avoid  []Role        // who is better left out then
	apart  bool          // the two of them are better not paired again
	detail string        // for the log
}

// settle decides how an attempt ends of which no token was passed on, from what both sides said; nil is a side that has not
// answered, though it was told to stop.
//
// The original reason is kept, whoever was first to speak (rule I3): a violation or a refusal for what the request is ends it;
// where a worker had no room, or failed, or vanished, it may be tried again, better without who is charged or had no room.
func settle(p, d *outcome, pMark, dMark, link mark) verdict {
	sides := []struct {
		role Role
		o    *outcome
		mark mark
	}{{Prefill, p, pMark}, {Decode, d, dMark}}
	for _, kinds := range precedence {
		for _, s := range sides {
			if s.o == nil || !kinds.has(s.o.kind) {
				continue
			}
			v := verdict{end: endOf(s.role, s.o), retry: kinds.retry, detail: fmt.Sprintf("%s %v: %s", s.role, s.o.kind, s.o.detail)}
			v.apart = link == badly
			for _, t := range sides {
				if t.mark == badly || said(t.o, crowded) && !(t.role == Decode && echoes(p, d)) {
					v.avoid = append(v.avoid, t.role)
				}
			}
			return v
		}
	}
	return verdict{end: &bulkhead.End{Reason: bulkhead.Failed, Err: errSilent}, detail: errSilent.Error()}
}

var errSilent = fmt.Errorf("cluster: neither worker said how the request ended")

type outcomeKinds struct {
	kinds []outcomeKind
	retry bool
}

func (k outcomeKinds) has(kind outcomeKind) bool {
	for _, x := range k.kinds {
		if x == kind {
			return true
		}
	}
	return false
}

// precedence is what decides where both sides say something: the first of these that either of them said.
var precedence = []outcomeKinds{
	{[]outcomeKind{violated}, false},
	{[]outcomeKind{refused}, false},
	{[]outcomeKind{crowded}, true},
	{[]outcomeKind{unreached, cut, stalled}, true}, // who vanished explains what the other says of it
	{[]outcomeKind{failed, garbage}, true},
	{[]outcomeKind{lost}, true},
	{[]outcomeKind{aborted, dropped}, true}, // and nobody here asked for it
}

// endOf is the End of a request that a side's outcome ends. What it did so far is filled in by the attempt.
func endOf(role Role, o *outcome) *bulkhead.End {
	switch o.kind {
	case done:
		return &bulkhead.End{Reason: o.reason, StopToken: o.stop}
	case refused, crowded:
		return &bulkhead.End{Reason: bulkhead.Refused, Refusal: o.refusal}
	case unreached: // nobody has heard of the request
		return &bulkhead.End{Reason: bulkhead.Refused, Refusal: unavailable()}
	case violated:
		return &bulkhead.End{Reason: bulkhead.Violated, Err: fmt.Errorf("%w at the %s worker: %s", bulkhead.ErrViolation, role, o.detail)}
	}
	return &bulkhead.End{Reason: bulkhead.Failed, Err: fmt.Errorf("cluster: the %s worker %v: %s", role, o.kind, o.detail)}
}

// marks says who is charged. asked are the sides that this gateway told to stop.
//
//   - A side that was not reached, or whose connection broke, is charged, and then nothing that the other says is: it has
//     noticed the same.
//   - A side that failed, answered with nonsense, violated a page or went silent is charged, unless it had been told to stop.
//   - Each worker tells the other why it stops, and the other says the same then. So a page that was violated at prefill, or
//     prefill's own failure, is not charged to decode; nor is it charged to prefill that decode could not prove a page.
//   - A handoff that was lost between two workers that both answer charges their link, and neither of them: each may be well
//     with others.
//   - Refusals, full queues, and what was told to stop charge nobody.
func marks(p, d *outcome, pAsked, dAsked bool) (prefill, decode, link mark) {
	prefill, decode, link = markOf(p, pAsked), markOf(d, dAsked), neither
	switch {
	case vanished(p):
		if decode == badly && !vanished(d) {
			decode = neither
		}
	case vanished(d):
		if prefill == badly {
			prefill = neither
		}
	case said(p, violated):
		prefill, decode = badly, echoed(decode)
	case said(d, violated):
		decode, prefill = badly, echoed(prefill)
	case said(p, failed):
		prefill, decode = badly, echoed(decode)
	case said(p, lost), said(d, lost):
		link = badly
	}
	return prefill, decode, link
}

// echoed is the mark of a side that has only passed on how the other failed.
func echoed(m mark) mark {
	if m == badly {
		return neither
	}
	return m
}

func said(o *outcome, k outcomeKind) bool { return o != nil && o.kind == k }

// echoes says that decode has passed on that prefill takes no requests: decode itself may.
func echoes(p, d *outcome) bool {
	return said(p, crowded) && said(d, crowded) && p.refusal.Code == d.refusal.Code && p.refusal.Message == d.refusal.Message
}

func vanished(o *outcome) bool {
	return o != nil && (o.kind == unreached || o.kind == cut || o.kind == stalled)
}

func markOf(o *outcome, asked bool) mark {
	switch {
	case o == nil:
		return later
	case o.kind == done:
		return well
	case o.kind == unreached, o.kind == cut:
		return badly
	case o.kind == failed, o.kind == garbage, o.kind == violated, o.kind == stalled:
		if !asked {
			return badly
		}
	}
	return neither
}
