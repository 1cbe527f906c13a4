package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// apart is a prefill and a decode worker that share nothing but a cable.
type apart struct {
	*rig  // for its reference and checks; it has no pair
	cable *cable
	p     *PrefillWorker
	d     *DecodeWorker
	room  bulkhead.Room
}

func newApart(t testing.TB, l bulkhead.Limits, c *cable, before func(work []engine.Work)) *apart {
	t.Helper()
	a := &apart{rig: &rig{t: t, log: &logs{}}, cable: c}
	cfg := func(role bulkhead.Role) Config {
		own := l
		if role == bulkhead.RolePrefill {
			own.DecodePool = 0
		} else {
			own.PrefillPool = 0
		}
		return Config{Runner: &hooked{newModel(), before}, Layout: layout, Limits: own, EOS: []bulkhead.Token{eos}, Secret: [32]byte{7}, Log: slog.New(a.log)}
	}
	var err error
	if a.p, err = NewPrefill(cfg(bulkhead.RolePrefill), c.outlet()); err != nil {
		t.Fatal(err)
	}
	if a.d, err = NewDecode(cfg(bulkhead.RoleDecode), c.inlet()); err != nil {
		t.Fatal(err)
	}
	return a
}

func admitted(t testing.TB, q bulkhead.Request) bulkhead.Admitted {
	a, refusal := limitsFor(1<<10, 1<<10, 1<<10).Admit(q)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return a
}

// order submits a request to both workers, which must take it.
func (a *apart) order(q bulkhead.Request) (prefill, decode *Stream) { return a.orders(q, q) }

func (a *apart) orders(q, other bulkhead.Request) (prefill, decode *Stream) {
	a.t.Helper()
	a.room++
	prefill, refusal := a.p.Submit(Order{Request: admitted(a.t, q), Room: a.room})
	if refusal != nil {
		a.t.Fatal(refusal)
	}
	decode, refusal = a.d.Submit(Order{Request: admitted(a.t, other), Room: a.room})
	if refusal != nil {
		a.t.Fatal(refusal)
	}
	return prefill, decode
}

// ends reads both streams and demands that prefill's has no tokens and decode's are right.
func (a *apart) ends(q bulkhead.Request, prefill, decode *Stream) (p, d *bulkhead.End) {
	a.t.Helper()
	tokens, d := read(a.t, decode)
	a.check(q, tokens, d)
	if tokens, p = read(a.t, prefill); len(tokens) > 0 || p.Completion != 0 || p.Prompt != bulkhead.Tokens(len(q.Prompt)) {
		a.t.Errorf("prefill gave %v and %+v", tokens, p)
	}
	return p, d
}

// finish closes both workers, and demands that all pages are back and nothing is left anywhere.
func (a *apart) finish() {
	a.t.Helper()
	a.p.cut()
	a.d.cut()
	a.d.wait()
	a.p.wait()
	if err := errors.Join(a.p.pool.Audit(), a.d.pool.Audit()); err != nil {
		a.t.Error(err)
	}
	for _, s := range []Snapshot{a.p.Snapshot(), a.d.Snapshot()} {
		var ended uint64
		for _, n := range s.Counters.Ended {
			ended += n
		}
		if s.Prefill.Live+s.Prefill.Quarantined+s.Decode.Live+s.Decode.Quarantined != 0 || ended != s.Counters.Submitted ||
			s.Waiting+s.Prefilling+s.HandingOver+s.SetBack+s.Running != 0 {
			a.t.Errorf("at the end: %+v", s)
		}
	}
	if n := len(a.p.inUse) + len(a.p.tenants) + len(a.d.inUse) + len(a.d.tenants) + a.cable.left() + a.d.inFlight; n != 0 {
		a.t.Errorf("%d things are left", n)
	}
}

// Two workers apart give a pair's answers, also where pages are slow and the decode pool so small that requests are set back;
// each side speaks of its own half only.
func TestApart(t *testing.T) {
	c := newCable()
	c.delay = func() time.Duration { return time.Duration(rand.IntN(500)) * time.Microsecond }
	a := newApart(t, limitsFor(128, 512, 8*pageSize), c, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		q := request("acme", words(10+9*i, uint64(i)), 50)
		p, d := a.order(q)
		wg.Go(func() {
			if p, d := a.ends(q, p, d); p.Reason != bulkhead.HandedOver || d.Reason != bulkhead.Length {
				t.Errorf("ended as %v and %v (%v, %v)", p.Reason, d.Reason, p.Err, d.Err)
			}
		})
	}
	wg.Wait()
	p, d := a.p.Snapshot(), a.d.Snapshot()
	if d.Counters.SetBacks == 0 || d.Counters.PrefillRows+p.Counters.DecodeRows+p.Counters.HandoffPages != 0 || d.Counters.HandoffPages == 0 ||
		p.Decode != (PoolUse{}) || d.Prefill != (PoolUse{}) || p.Limits.Role != bulkhead.RolePrefill || d.Limits.Role != bulkhead.RoleDecode {
		t.Errorf("prefill %+v, decode %+v", p, d)
	}
	a.finish()
}

// In whatever state a room is lost, both requests have one end, within a moment, and all pages come back. A request that
// decode has committed goes on.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		after        time.Duration
		busy         bool // something else is computed first
		prefill, end bulkhead.Reason
	}{
		"at once":           {0, false, bulkhead.Failed, bulkhead.Failed},
		"in the queue":      {chunkTime / 2, true, bulkhead.Failed, bulkhead.Failed},
		"while computed":    {3*chunkTime + chunkTime/2, false, bulkhead.Failed, bulkhead.Failed},
		"while pages land":  {7*chunkTime + chunkTime/2, false, bulkhead.Failed, bulkhead.Failed},
		"after the commit":  {9*chunkTime + 50*time.Millisecond, false, bulkhead.HandedOver, bulkhead.Length},
		"after it is ended": {time.Second, false, bulkhead.HandedOver, bulkhead.Length},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cable := newCable()
				cable.delay = func() time.Duration { return 2 * chunkTime }
				l := limitsFor(512, 1024, 1024)
				l.Running = 1
				a := newApart(t, l, cable, slow)
				var wg sync.WaitGroup
				if c.busy {
					other := request("acme", words(300, 9), 1)
					p, d := a.order(other)
					wg.Go(func() {
						if p, d := a.ends(other, p, d); p.Reason != bulkhead.HandedOver || d.Reason != bulkhead.Length {
							t.Errorf("the other ended as %v and %v", p.Reason, d.Reason)
						}
					})
				}
				q := request("acme", words(150, 1), 40) // 149 tokens: seven chunks
				prefill, decode := a.order(q)
				time.Sleep(c.after)
				synctest.Wait()
				cable.cut(a.room)
				cut := time.Now()
				p, d := a.ends(q, prefill, decode)
				if p.Reason != c.prefill || d.Reason != c.end {
					t.Errorf("ended as %v (%v) and %v (%v)", p.Reason, p.Err, d.Reason, d.Err)
				}
				if c.end == bulkhead.Failed && (!errors.Is(p.Err, handoff.ErrLost) || !errors.Is(d.Err, handoff.ErrLost) || time.Since(cut) > 2*chunkTime+stepTime) {
					t.Errorf("ended with %v and %v after %v", p.Err, d.Err, time.Since(cut))
				}
				wg.Wait()
				time.Sleep(time.Second)
				if n := len(a.log.with("a request failed")); c.end == bulkhead.Failed && n != 2 {
					t.Errorf("the log tells %d times of a request that failed, at two workers", n)
				}
				a.finish()
			})
		})
	}
}

// Why prefill has ended a request is why decode ends it, up to the refusal's code, message and numbers.
func TestStopReasons(t *testing.T) {
	refusal := bulkhead.Refuse(bulkhead.CodeContextLength, "messages", "too long by far")
	refusal.Limit, refusal.Count, refusal.RetryAfter = 10, 20, time.Second
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		end  func(a *apart, j *job)
		want func(e *bulkhead.End) bool
	}{
		"refused": {func(a *apart, j *job) { a.p.refuse(j, refusal) },
			func(e *bulkhead.End) bool { return e.Reason == bulkhead.Refused && *e.Refusal == *refusal }},
		"violated": {func(a *apart, j *job) { a.p.violated(j, "test", &bulkhead.Violation{Page: 3}) },
			func(e *bulkhead.End) bool {
				var v *bulkhead.Violation
				return e.Reason == bulkhead.Violated && errors.As(e.Err, &v) && v.Page == 3
			}},
		"failed": {func(a *apart, j *job) { a.p.fail(j, boom) },
			func(e *bulkhead.End) bool { return e.Reason == bulkhead.Failed && errors.Is(e.Err, boom) }},
		"left": {func(a *apart, j *job) { j.stream.Leave() }, func(e *bulkhead.End) bool { return e.Reason == bulkhead.Aborted }},
	} {
		for _, after := range []time.Duration{0, chunkTime / 2, 7*chunkTime + chunkTime/2} {
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cable := newCable()
					cable.delay = func() time.Duration { return 2 * chunkTime }
					a := newApart(t, limitsFor(512, 1024, 1024), cable, slow)
					q := request("acme", words(150, 1), 40)
					prefill, decode := a.order(q)
					time.Sleep(after)
					a.p.mu.Lock()
					j := a.p.jobs[1]
					a.p.mu.Unlock()
					c.end(a, j)
					p, d := a.ends(q, prefill, decode)
					if !c.want(d) || p.Reason != d.Reason {
						t.Errorf("ended as %+v and %+v", p, d)
					}
					time.Sleep(time.Second)
					a.finish()
				})
			})
		}
	}
}

// A decode worker that leaves lets prefill go, before the transfer and in it.
func TestDecodeLeaves(t *testing.T) {
	for _, after := range []time.Duration{0, chunkTime / 2, 7*chunkTime + chunkTime/2} {
		synctest.Test(t, func(t *testing.T) {
			cable := newCable()
			cable.delay = func() time.Duration { return 2 * chunkTime }
			a := newApart(t, limitsFor(512, 1024, 1024), cable, slow)
			q := request("acme", words(150, 1), 40)
			prefill, decode := a.order(q)
			time.Sleep(after)
			decode.Leave()
			if p, d := a.ends(q, prefill, decode); p.Reason != bulkhead.Aborted || d.Reason != bulkhead.Aborted {
				t.Errorf("after %v: ended as %v and %v", after, p.Reason, d.Reason)
			}
			time.Sleep(time.Second)
			a.finish()
		})
	}
}

// Workers that were given different prompts under one room hand over nothing. Prefill keeps its pages for HandoffTimeout, and
// not for longer.
func TestNobodyComes(t *testing.T) {
	for name, submit := range map[string]func(a *apart, q bulkhead.Request) (*Stream, *Stream){
		"another prompt": func(a *apart, q bulkhead.Request) (*Stream, *Stream) {
			other := q
			other.Prompt = words(151, 2)
			return a.orders(q, other)
		},
		"another tenant": func(a *apart, q bulkhead.Request) (*Stream, *Stream) {
			other := q
			other.Tenant = bulkhead.Tenant{Name: "bolt", Domain: "bolt"}
			return a.orders(q, other)
		},
		"nobody": func(a *apart, q bulkhead.Request) (*Stream, *Stream) {
			s, _ := a.p.Submit(Order{Request: admitted(a.t, q), Room: 5})
			return s, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limitsFor(512, 1024, 1024)
				l.HandoffTimeout = 3 * time.Second
				a := newApart(t, l, newCable(), slow)
				start := time.Now()
				prefill, decode := submit(a, request("acme", words(150, 1), 40))
				if decode != nil {
					if tokens, end := read(t, decode); len(tokens) > 0 || end.Reason != bulkhead.Failed || time.Since(start) > time.Second {
						t.Errorf("decode ended as %+v after %v", end, time.Since(start))
					}
				}
				time.Sleep(2 * time.Second)
				if n := a.p.Snapshot(); n.HandingOver != 1 || n.Prefill.Live == 0 {
					t.Errorf("before its time: %+v", n)
				}
				_, end := read(t, prefill)
				if took := time.Since(start); !errors.Is(end.Err, handoff.ErrLost) || took > 4*time.Second || !strings.Contains(end.Err.Error(), "3s") {
					t.Errorf("prefill ended as %v (%v) after %v", end.Reason, end.Err, took)
				}
				time.Sleep(time.Second)
				a.finish()
			})
		})
	}
}

// Rooms name one request at a time, and what decode holds is bounded, all together and by tenant.
func TestOrders(t *testing.T) {
	l := limitsFor(512, 1024, 1024)
	l.Queue, l.QueueTenant, l.Running = 4, 1, 1
	a := newApart(t, l, newCable(), nil)
	defer a.finish()
	q := request("acme", words(20, 1), 4)
	submit := func(tenant string, room bulkhead.Room) *bulkhead.Refusal {
		q.Tenant = bulkhead.Tenant{Name: tenant, Domain: tenant}
		_, refusal := a.d.Submit(Order{Request: admitted(t, q), Room: room})
		return refusal
	}
	for i, c := range []struct {
		tenant string
		room   bulkhead.Room
		code   bulkhead.Code
	}{
		{"acme", 0, bulkhead.CodeInvalid}, {"acme", 1, ""}, {"acme", 1, bulkhead.CodeInvalid}, {"bolt", 1, bulkhead.CodeInvalid},
		{"acme", 2, ""}, {"acme", 3, ""}, {"acme", 4, bulkhead.CodeBusy}, {"bolt", 4, ""}, {"bolt", 5, ""}, {"bolt", 6, ""},
		{"cask", 7, bulkhead.CodeBusy},
	} {
		r := submit(c.tenant, c.room)
		if (r == nil) != (c.code == "") || r != nil && (r.Code != c.code || c.code == bulkhead.CodeBusy && r.RetryAfter <= 0) {
			t.Errorf("%d: %s, room %v: %v, want %q", i, c.tenant, c.room, r, c.code)
		}
	}
	for _, room := range []bulkhead.Room{0, 9, 9} {
		_, r := a.p.Submit(Order{Request: admitted(t, q), Room: room})
		if first := room == 9 && len(a.p.sources) == 0; r == nil && room == 0 || r != nil && r.Code != bulkhead.CodeInvalid && !first {
			t.Errorf("room %v: %v", room, r)
		}
	}
	a.cable.cut(0)
}

// Whatever happens to rooms, pages and clients, both sides of every request have exactly one end, no token is wrong, all pages
// are back, and what was not disturbed is answered.
func TestApartStress(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { apartStress(t, uint64(seed)) })
		})
	}
}

func apartStress(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	window := 33 + bulkhead.Tokens(rng.IntN(120))
	pool := func() bulkhead.Tokens { return window + pageSize + pageSize*bulkhead.Tokens(rng.IntN(8)) }
	l := limitsFor(window, pool(), pool())
	l.Running, l.Chunk, l.HandoffTimeout = 1+rng.IntN(5), 1+bulkhead.Tokens(rng.IntN(50)), time.Second
	cable := newCable()
	var delays sync.Mutex
	cable.delay = func() time.Duration {
		delays.Lock()
		defer delays.Unlock()
		return time.Duration(rng.IntN(20)) * time.Millisecond
	}
	a := newApart(t, l, cable, slow)
	var wg sync.WaitGroup
	for i := range 25 {
		delays.Lock()
		n, fault, at := 1+rng.IntN(int(window)-1), rng.IntN(8), time.Duration(rng.IntN(300))*time.Millisecond
		q := request(fmt.Sprint("tenant ", i%3), words(n, uint64(rng.IntN(3))), 1+bulkhead.Tokens(rng.IntN(int(window)-n)))
		delays.Unlock()
		prefill, decode := a.order(q)
		room := a.room
		disturb := map[int]func(){0: func() { cable.cut(room) }, 1: prefill.Leave, 2: decode.Leave}[fault]
		if disturb != nil {
			time.AfterFunc(at, disturb)
		}
		wg.Go(func() {
			p, d := a.ends(q, prefill, decode)
			if disturb == nil && (p.Reason != bulkhead.HandedOver || d.Reason != bulkhead.Length) {
				t.Errorf("%s: ended as %v (%v) and %v (%v)", q.ID, p.Reason, p.Err, d.Reason, d.Err)
			}
		})
		time.Sleep(at / 10)
	}
	wg.Wait()
	time.Sleep(time.Second) // timers that disturb what has ended
	a.finish()
}

var _ handoff.Outlet = cableOut{}
var _ handoff.Inlet = cableIn{}
