package cluster

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// course drives an attempt by random events, as the loop would, and keeps the books that it must agree with.
type course struct {
	t   *rapid.T
	a   *attempt
	now time.Time

	ends          int
	reason        bulkhead.Reason
	retry         bool
	given         int
	told, dropped map[Role]int
	left          bool
	handoffOver   bool // a token or an answer of prefill's has come, or decode's end
	pOver, dOver  bool // the goroutines have ended
	sent          int  // tokens that decode has sent
}

func (c *course) perform(acts []action) {
	for _, act := range acts {
		switch act.do {
		case give:
			if c.ends > 0 {
				c.t.Fatal("tokens behind the End")
			}
			c.given += len(act.events)
		case tell:
			c.told[act.role]++
			if act.role == Decode && c.left && !c.handoffOver {
				c.t.Fatal("decode was told to stop while the transfer may run")
			}
		case drop:
			c.dropped[act.role]++
		case conclude:
			c.ends++
			c.reason, c.retry = act.end.end.Reason, act.end.retry
			if act.end.retry && c.given > 0 {
				c.t.Fatal("it is to be tried again after tokens were given")
			}
			if got := int(act.end.end.Completion); got != c.given && act.end.end.Reason != bulkhead.Stopped {
				c.t.Fatalf("%d tokens in the End, %d given", got, c.given)
			}
		}
	}
	if c.ends > 1 {
		c.t.Fatal("two Ends")
	}
}

func outcomeOf(t *rapid.T) outcome {
	o := outcome{kind: rapid.SampledFrom([]outcomeKind{refused, crowded, violated, aborted, lost, failed, unreached, cut, garbage}).Draw(t, "kind"),
		prompt: -1, cached: -1, detail: "x"}
	if o.kind == refused || o.kind == crowded {
		o.refusal = bulkhead.Refuse(bulkhead.CodeBusy, "", "x")
	}
	return o
}

func (c *course) decodes(finish *sglang.Finish, n int) *sglang.Answer {
	m := &sglang.Answer{Meta: sglang.Meta{ID: "x", PromptTokens: 10, FinishReason: finish}}
	for range n {
		m.OutputIDs = append(m.OutputIDs, 1)
	}
	c.sent += n
	m.Meta.CompletionTokens = c.sent
	return m
}

func (c *course) step() {
	t := c.t
	switch rapid.IntRange(0, 6).Draw(t, "event") {
	case 0:
		c.now = c.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "ms")) * time.Millisecond)
		if due := c.a.due(); !due.IsZero() && !c.now.Before(due) {
			if c.a.p.out == nil && !c.a.holdAt.IsZero() && !c.now.Before(c.a.holdAt) {
				c.handoffOver = true // the hold is over: prefill is dropped first
			}
			c.perform(c.a.tick(c.now))
		}
	case 1:
		c.left = c.left || c.ends == 0
		c.perform(c.a.leave(c.now))
	case 2:
		if !c.pOver {
			c.pOver, c.handoffOver = true, true
			o := outcome{kind: done, prompt: 10, cached: 4}
			if rapid.Bool().Draw(t, "fails") {
				o = outcomeOf(t)
			}
			c.perform(c.a.prefillOver(o, c.now))
		}
	case 3, 4:
		if !c.dOver && c.sent < 5 {
			c.handoffOver = true
			c.perform(c.a.answer(c.decodes(nil, 1), c.now))
		}
	case 5:
		if !c.dOver {
			c.dOver, c.handoffOver = true, true
			if rapid.Bool().Draw(t, "fails") {
				c.perform(c.a.decodeOver(outcomeOf(t), c.now))
			} else {
				c.perform(c.a.lastAnswer(c.decodes(&sglang.Finish{Type: "length"}, 5-c.sent), c.now))
			}
		}
	case 6:
		if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
			role := rapid.SampledFrom([]Role{Prefill, Decode}).Draw(t, "gone")
			c.handoffOver = true
			c.perform(c.a.gone(role, c.now))
		}
	}
}

// Whatever the two workers, the client and the clock do, in whatever order: one End; nothing behind it; no second try after a
// token; decode is not stopped while a transfer may run; and in the end, when nobody says anything any more, everything is over
// within the hold, every side that was not done told to stop.
func TestAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1000, 0)
		want := expectation{prompt: 10, most: 5, vocab: 100}
		if rapid.Bool().Draw(t, "deadline") {
			want.deadline = start.Add(2 * time.Second)
		}
		timeouts := Timeouts{First: 5 * time.Second, Hold: 3 * time.Second}.withDefaults()
		c := &course{t: t, now: start, told: map[Role]int{}, dropped: map[Role]int{}, a: newAttempt(timeouts, want, start)}
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			c.step()
		}
		c.handoffOver = true
		for i := 0; !c.a.over(); i++ {
			due := c.a.due()
			if due.IsZero() || i > 1000 {
				t.Fatalf("it is not over, and nothing is due: %+v", c.a)
			}
			c.now = due
			c.perform(c.a.tick(c.now))
		}
		if c.ends != 1 {
			t.Fatalf("%d Ends", c.ends)
		}
		if limit := start.Add(25*400*time.Millisecond + timeouts.First + timeouts.Idle + timeouts.Hold + time.Second); c.now.After(limit) {
			t.Fatalf("it took until %v", c.now.Sub(start))
		}
		for role, over := range map[Role]bool{Prefill: c.pOver, Decode: c.dOver} {
			if !over && c.dropped[role] == 0 {
				t.Fatalf("%s is not done, and its connection stays open", role)
			}
		}
		if c.reason == bulkhead.Length && c.given != 5 {
			t.Fatalf("a whole answer of %d tokens", c.given)
		}
	})
}

// Decode passes on that prefill drains: prefill is better left out, and decode is not.
func TestEcho(t *testing.T) {
	o := &outcome{kind: crowded, refusal: bulkhead.Refuse(bulkhead.CodeDraining, "", "x")}
	if v := settle(o, o, neither, neither, neither); len(v.avoid) != 1 || v.avoid[0] != Prefill {
		t.Errorf("%v", v.avoid)
	}
	other := &outcome{kind: crowded, refusal: bulkhead.Refuse(bulkhead.CodeDraining, "", "y")}
	if v := settle(o, other, neither, neither, neither); len(v.avoid) != 2 {
		t.Errorf("%v", v.avoid)
	}
}

// Decode answers all the same, though prefill has failed and it was told to stop: nothing of that was passed on, so it is no
// answer.
func TestAnswerAfterStop(t *testing.T) {
	now := time.Unix(0, 0)
	a := newAttempt(Timeouts{}.withDefaults(), expectation{prompt: 10, most: 1, vocab: 100}, now)
	a.prefillOver(outcome{kind: cut, prompt: -1, cached: -1}, now)
	acts := a.lastAnswer(&sglang.Answer{OutputIDs: []bulkhead.Token{1}, Meta: sglang.Meta{ID: "x", PromptTokens: 10, CompletionTokens: 1,
		FinishReason: &sglang.Finish{Type: "length"}}}, now)
	for _, act := range acts {
		if act.do == give || act.do == conclude && (act.end.end.Reason != bulkhead.Failed || !act.end.retry) {
			t.Errorf("%+v", act)
		}
	}
	if !a.over() {
		t.Error("both are done, and it is not over")
	}
}

// A gateway that was stopped itself does not take what it has not read for silence; a decode worker that is silent after that is.
func TestOverslept(t *testing.T) {
	now := time.Unix(0, 0)
	times := Timeouts{}.withDefaults()
	a := newAttempt(times, expectation{prompt: 10, most: 2, vocab: 100}, now)
	a.prefillOver(outcome{kind: done, prompt: 10, cached: -1}, now)
	token := &sglang.Answer{OutputIDs: []bulkhead.Token{1}, Meta: sglang.Meta{ID: "x", PromptTokens: 10, CompletionTokens: 1}}
	if acts := a.answer(token, now); len(acts) == 0 || a.passed != 1 {
		t.Fatalf("%+v", acts)
	}
	now = now.Add(10 * times.Idle)
	if acts := a.tick(now); len(acts) != 0 || a.ended {
		t.Errorf("as soon as it runs again: %+v", acts)
	}
	now = a.due()
	if a.tick(now); !a.ended {
		t.Error("decode stays silent, and is waited for")
	}
}

// Who is charged, and whether it is tried again, for what both sides said.
func TestSettle(t *testing.T) {
	o := func(k outcomeKind) *outcome {
		return &outcome{kind: k, refusal: bulkhead.Refuse(bulkhead.CodeBusy, "", "x"), detail: k.String()}
	}
	marksOf := map[mark]string{later: "later", neither: "-", well: "well", badly: "BADLY"}
	for _, tt := range []struct {
		p, d           *outcome
		pAsked, dAsked bool
		want           string
	}{
		{o(unreached), o(aborted), false, true, "refused again p=BADLY d=- link=-"},
		{o(cut), o(failed), false, true, "failed again p=BADLY d=- link=-"},
		{o(cut), o(failed), false, false, "failed again p=BADLY d=- link=-"}, // decode has noticed what this gateway notices now
		{o(cut), o(lost), true, false, "failed again p=BADLY d=- link=-"},
		{o(aborted), o(cut), true, false, "failed again p=- d=BADLY link=-"},
		{o(failed), o(cut), false, true, "failed again p=- d=BADLY link=-"},
		{o(aborted), o(lost), true, false, "failed again p=- d=- link=BADLY"},
		{nil, o(lost), true, false, "failed again p=later d=- link=BADLY"},
		{o(lost), o(aborted), false, true, "failed again p=- d=- link=BADLY"},
		{o(failed), nil, false, true, "failed again p=BADLY d=later link=-"},
		{o(aborted), o(failed), true, false, "failed again p=- d=BADLY link=-"},
		{o(crowded), o(aborted), false, true, "refused again p=- d=- link=-"},
		{o(done), o(crowded), true, false, "refused again p=well d=- link=-"},
		{o(refused), o(failed), false, true, "refused final p=- d=- link=-"},
		{o(crowded), o(refused), true, false, "refused final p=- d=- link=-"}, // the request's own reason comes first
		{o(violated), o(failed), false, true, "violated final p=BADLY d=- link=-"},
		{o(refused), o(violated), true, false, "violated final p=- d=BADLY link=-"},
		{o(garbage), o(aborted), false, true, "failed again p=BADLY d=- link=-"},
		{o(failed), o(failed), true, false, "failed again p=BADLY d=- link=-"},       // decode passes on why prefill stopped, and is first
		{o(violated), o(violated), true, false, "violated final p=BADLY d=- link=-"}, // likewise
		{o(failed), o(violated), true, false, "violated final p=- d=BADLY link=-"},   // decode could not prove a page
		{o(stalled), o(lost), false, false, "failed again p=BADLY d=- link=-"},
	} {
		p, d, link := marks(tt.p, tt.d, tt.pAsked, tt.dAsked)
		v := settle(tt.p, tt.d, p, d, link)
		again := "final"
		if v.retry {
			again = "again"
		}
		got := strings.Join([]string{v.end.Reason.String(), again, "p=" + marksOf[p], "d=" + marksOf[d], "link=" + marksOf[link]}, " ")
		if got != tt.want {
			t.Errorf("prefill %v, decode %v: %s, want %s", v.detail, tt.d, got, tt.want)
		}
	}
}
