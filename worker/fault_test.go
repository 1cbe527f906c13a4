package worker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/algebra"
	"github.com/bulkhead-llm/bulkhead/kv"
)

var layout = algebra.Small(pageSize)

// damage is one change of one page while a request runs, between two steps.
type damage struct {
	side  Side
	after bulkhead.Tokens // once the sequence holds so many tokens; in prefill so early that decode does not pull yet
	page  int             // of the sequence; -1: its last
	part  bulkhead.Part
	do    func(page []byte)
}

func flip(at int) func([]byte) { return func(p []byte) { p[at] ^= 0x10 } }

var damages = map[string]damage{
	"prefill, first page, K":       {Prefill, 24, 0, bulkhead.PartK, flip(layout.KOffset(0, 0))},
	"prefill, tail page, V":        {Prefill, 24, 1, bulkhead.PartV, flip(layout.VOffset(1, 1) + 5)},
	"decode, first page, K":        {Decode, 70, 0, bulkhead.PartK, flip(layout.KOffset(1, 1) + 9)},
	"decode, tail page, V":         {Decode, 70, -1, bulkhead.PartV, flip(layout.VOffset(0, 1) + 3)},
	"decode, tail page, K":         {Decode, 70, -1, bulkhead.PartK, flip(layout.KOffset(0, 0) + 1)},
	"decode, who a page is":        {Decode, 75, 1, bulkhead.PartIdentity, flip(3)},
	"decode, how many are filled":  {Decode, 75, -1, bulkhead.PartFilled, flip(16)},
	"decode, a page that was lost": {Decode, 75, 2, bulkhead.PartIdentity, func(p []byte) { clear(p) }},
	"decode, a half late write":    {Decode, 75, 3, bulkhead.PartV, func(p []byte) { clear(p[len(p)/2:]) }},
}

// A page that is damaged between two steps fails the request that reads it, before another token of it leaves, and nobody
// else. The page is set aside; the log and the counters say which and why.
func TestDamageFailsOne(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			victim := request("victim", words(66, 99), 40)
			done := false
			r := newRig(t, setup{limits: limitsFor(128, 512, 512), before: func(work []engine.Work) {
				for _, w := range work {
					if done || w.Logits != (d.side == Decode) || w.Seq.Len() < d.after || w.Seq.Tokens()[0] != victim.Prompt[0] ||
						!slices.Equal(w.Seq.Tokens()[:d.after][:20], victim.Prompt[:20]) {
						continue
					}
					pages := w.Seq.Pages()[:layout.Pages(w.Seq.Len())]
					d.do(pages[(d.page+len(pages))%len(pages)])
					done = true
				}
			}})
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() { r.run(request(fmt.Sprint("other ", i), words(20+11*i, uint64(i)), 40)) })
			}
			tokens, end := read(t, r.start(victim))
			wg.Wait()
			r.check(victim, tokens, end)
			var v *bulkhead.Violation
			if end.Reason != bulkhead.Violated || !errors.As(end.Err, &v) || v.Part != d.part {
				t.Errorf("ended as %v: %v", end.Reason, end.Err)
			}
			if d.side == Prefill && len(tokens) > 0 {
				t.Errorf("%d tokens came out", len(tokens))
			}
			lines := r.log.with("kv integrity violation")
			if n := r.Snapshot().Counters; n.Violations[d.part] != 1 || n.Ended[bulkhead.Violated] != 1 || len(n.Violations) != 1 {
				t.Errorf("counters %+v", n)
			}
			if len(lines) != 1 || lines[0]["part"] != d.part || lines[0]["page"] != v.Page || lines[0]["layer"] == nil ||
				lines[0]["expected"] != v.Expected || lines[0]["found"] != v.Found || lines[0]["tenant"] != "victim" {
				t.Errorf("logged %v", lines)
			}
			r.run(victim) // the damaged page is not met again
			r.finish(1)
		})
	}
}

// find is the page of an arena that says it holds the first page of the tenant's prompt.
func find(arena []byte, tenant string, prompt []bulkhead.Token) []byte {
	ids := kv.NewIdentities([32]byte{7}, tenant, newModel().Info().Fingerprint, layout)
	id := ids.Next(bulkhead.Identity{}, prompt[:pageSize])
	for page := range slices.Chunk(arena, layout.PageBytes()) {
		if layout.SealOf(page).Identity() == id {
			return page
		}
	}
	return nil
}

// A cached page of prefill's that is damaged is met by the proof at landing, where prefill itself does not read it any more.
// The request fails, and so that the next does not, prefill takes the sums of the source anew and sets it aside.
func TestDamagedSource(t *testing.T) {
	r := newRig(t, setup{limits: limitsFor(112, 512, 112)})
	q := request("acme", words(65, 3), 5) // a prefix of four full pages
	r.run(q)
	r.run(request("bolt", words(100, 4), 12)) // needs all of the decode pool, so decode forgets the prefix
	if find(r.arenas[Decode], "acme", q.Prompt) != nil {
		t.Fatal("decode still has the prefix: nothing would be handed over")
	}
	find(r.arenas[Prefill], "acme", q.Prompt)[layout.VOffset(1, 0)] ^= 1

	tokens, end := read(t, r.start(q))
	if end.Reason != bulkhead.Violated || len(tokens) != 0 || end.Cached != 64 {
		t.Errorf("%d tokens, ended as %+v", len(tokens), end)
	}
	for len(r.log.with("kv integrity violation")) < 2 { // one at landing, and prefill's of the source
		time.Sleep(time.Millisecond)
	}
	if end := r.run(q); end.Cached != 0 {
		t.Errorf("%d tokens were found behind a page that was set aside", end.Cached)
	}
	if end := r.run(q); end.Cached != 64 {
		t.Errorf("%d tokens were found", end.Cached)
	}
	r.finish(1) // the source; the page into which it was copied goes back
}

// When so many pages are set aside that the window no longer fits, the window shrinks, and what was taken before and does
// not fit any more ends instead of waiting for ever.
func TestPoolThatShrinks(t *testing.T) {
	l := limitsFor(96, 192, 96)
	hit := 0
	r := newRig(t, setup{limits: l, before: func(work []engine.Work) {
		for _, w := range work {
			if w.Logits && w.Seq.Len() == 90 && hit == 0 {
				hit++
				flip(layout.KOffset(0, 0))(w.Seq.Pages()[0])
			}
		}
	}})
	first := r.start(request("acme", words(80, 1), 16))
	second := r.start(request("acme", words(81, 2), 15)) // needs every page that there was
	third := r.start(request("acme", words(20, 3), 15))
	if _, end := read(t, first); end.Reason != bulkhead.Violated {
		t.Errorf("the first ended as %v", end.Reason)
	}
	if tokens, end := read(t, second); end.Reason != bulkhead.Failed || len(tokens) > 0 {
		t.Errorf("the second got %d tokens and ended as %v: %v", len(tokens), end.Reason, end.Err)
	}
	if _, end := read(t, third); end.Reason != bulkhead.Length {
		t.Errorf("the third ended as %v: %v", end.Reason, end.Err)
	}
	if w := r.Limits().Window; w != 80 {
		t.Errorf("the window is %v, the decode pool has 5 pages", w)
	}
	_, refusal := r.Submit(r.admit(request("acme", words(81, 2), 15)))
	if refusal == nil || refusal.Code != bulkhead.CodeContextLength || refusal.Limit != 80 {
		t.Errorf("refusal %v", refusal)
	}
	r.finish(1)
}
