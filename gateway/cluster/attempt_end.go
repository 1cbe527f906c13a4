package cluster

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

func (a *attempt) aborted() verdict { return verdict{end: &bulkhead.End{Reason: bulkhead.Aborted}} }

// end gives the verdict, once.
func (a *attempt) end(v verdict) []action {
	if a.ended {
		return nil
	}
	a.ended, a.settleAt, a.deadlineAt = true, time.Time{}, time.Time{}
	e := v.end
	e.Prompt, e.Completion = a.want.prompt, a.passed
	switch {
	case a.p.out != nil && a.p.out.cached >= 0:
		e.Cached = bulkhead.Tokens(a.p.out.cached)
	case a.cached >= 0:
		e.Cached = bulkhead.Tokens(a.cached)
	}
	e.Cached = min(e.Cached, e.Prompt)
	if e.Reason == bulkhead.Stopped {
		e.Completion++
	}
	return []action{{do: conclude, end: v}}
}

// lateMark charges a side whose answer came after the verdict, or after the handoff.
func (a *attempt) lateMark(s *side, role Role) []action {
	m := markOf(s.out, s.asked)
	if s.marked && m != badly { // it was said to be well when the handoff was over
		return nil
	}
	s.marked = true
	act := action{do: charge}
	if role == Prefill {
		act.marks[0] = m
	} else {
		act.marks[1] = m
	}
	return []action{act}
}

// ask tells a side to stop, unless it is done or was told. It is told again until it is done: soon at first, because it may have
// heard of the abort before it heard of the request itself, and then each time after twice as long, up to Abort.
func (a *attempt) ask(s *side, role Role, now time.Time) []action {
	if s.out != nil || s.asked {
		return nil
	}
	s.asked = true
	if a.holdAt.IsZero() {
		a.holdAt = now.Add(a.t.Hold)
	}
	a.pause = a.t.Abort / 32
	a.againAt = now.Add(a.pause)
	return []action{{do: tell, role: role}}
}

// farewell tells a side once to stop whose connection ended without a word of its own: it may be working still.
func (a *attempt) farewell(s *side, role Role) []action {
	if s.asked || s.out.kind != cut && s.out.kind != garbage && s.out.kind != stalled {
		return nil
	}
	return []action{{do: tell, role: role}}
}
