package cluster

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// A worker goes out after so many bad probes in a row and comes back after so many good ones; a model counts runs.
func TestHealth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := health{out: rapid.IntRange(1, 4).Draw(t, "out"), back: rapid.IntRange(1, 4).Draw(t, "back")}
		in, known, good, bad := false, false, 0, 0
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "probes") {
			before := in
			if ok {
				good, bad = good+1, 0
				if !in && (!known || good >= h.back) {
					in, known = true, true
				}
				if came := h.good(); came != (in && !before) {
					t.Fatalf("came in: %v", came)
				}
			} else {
				good, bad = 0, bad+1
				if in && bad >= h.out {
					in = false
				}
				if went := h.bad(); went != (before && !in) {
					t.Fatalf("went out: %v", went)
				}
			}
			if h.in != in {
				t.Fatalf("in %v, want %v", h.in, in)
			}
		}
	})
}

// Whatever happens, a breaker lets requests through while closed, one at a time while half open, and none while open; it is never
// open for longer than Most; and it opens only by what is bad.
func TestBreaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := BreakerConfig{Failures: rapid.IntRange(1, 4).Draw(t, "failures"), Window: rapid.IntRange(1, 10).Draw(t, "window"),
			Backoff: time.Second, Most: 8 * time.Second}
		b, now := newBreaker(cfg), time.Unix(0, 0)
		var out []pass // let through and not judged
		sawBad := false
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			was := b.state
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				allowed := b.allows(now)
				if was == halfOpen && allowed {
					t.Fatal("two trials at once")
				}
				if was == open && allowed != !now.Before(b.until) {
					t.Fatalf("open, allows %v", allowed)
				}
				if allowed {
					out = append(out, b.enter(now))
				}
			default:
				if len(out) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				p := out[i]
				out = slices.Delete(out, i, i+1)
				current := p == b.pass
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					b.good(p)
				case 1:
					sawBad = true
					b.bad(p, now)
				case 2:
					b.neither(p, now)
				}
				if !current && b.state != was {
					t.Fatal("an outcome from before moved it")
				}
			}
			if b.state == open && !sawBad {
				t.Fatal("open, and nothing was bad")
			}
			if b.state == open && b.until.Sub(now) > cfg.Most {
				t.Fatalf("open for %v", b.until.Sub(now))
			}
			if b.state == halfOpen && !slices.Contains(out, b.pass) {
				t.Fatal("half open, and no trial is on its way: nobody will ever close it")
			}
		}
	})
}

// The course of a breaker that is tried and fails, and is tried and closes.
func TestBreakerCourse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerConfig{}.withDefaults())
		for range 3 {
			b.bad(b.enter(time.Now()), time.Now())
		}
		for _, backoff := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if b.state != open || b.allows(time.Now()) {
				t.Fatalf("%v", b.state)
			}
			time.Sleep(backoff - time.Millisecond)
			if b.allows(time.Now()) {
				t.Fatalf("it let through before %v", backoff)
			}
			time.Sleep(time.Millisecond)
			b.bad(b.enter(time.Now()), time.Now())
		}
		time.Sleep(8 * time.Second)
		p := b.enter(time.Now())
		b.neither(p, time.Now()) // refused for what it was: another trial is owed at once
		b.good(b.enter(time.Now()))
		if b.state != closed || b.backoff != time.Second {
			t.Errorf("%v, backoff %v", b.state, b.backoff)
		}
		for i := range 40 { // every second one fails: never three in a row, and half of the window
			p := b.enter(time.Now())
			if i%2 == 0 {
				b.good(p)
			} else if b.bad(p, time.Now()) {
				return
			}
		}
		t.Error("half of the requests fail, and it stays closed")
	})
}

// Blocks are found again under the same key, domain and beginning, and under nothing else.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 3), func(n int) bulkhead.Token { return bulkhead.Token(n) }), 0, 4*blockTokens).Draw(t, "prompt")
		key := [32]byte{byte(rapid.IntRange(0, 255).Draw(t, "key"))}
		a := blocks(key, "x", p)
		if len(a) != len(p)/blockTokens {
			t.Fatalf("%d blocks of %d tokens", len(a), len(p))
		}
		for _, other := range [][]block{blocks([32]byte{key[0] + 1}, "x", p), blocks(key, "y", p)} {
			for i := range a {
				if a[i] == other[i] {
					t.Fatal("two keys or domains have a block in common")
				}
			}
		}
		if len(a) == 0 {
			return
		}
		at := rapid.IntRange(0, len(a)*blockTokens-1).Draw(t, "at")
		q := slices.Clone(p)
		q[at]++
		for i, b := range blocks(key, "x", q) {
			if same := b == a[i]; same != (i < at/blockTokens) {
				t.Fatalf("token %d changed: block %d the same: %v", at, i, same)
			}
		}
	})
}

// An affinity never remembers more than it may, and forgets the ends of prompts before their beginnings.
func TestAffinityForgets(t *testing.T) {
	a := newAffinity(4 * blockTokens)
	long := blocks([32]byte{}, "d", make([]bulkhead.Token, 10*blockTokens))
	a.add(long)
	if len(a.at) != 4 || a.match(long) != 4*blockTokens {
		t.Fatalf("%d blocks, %v", len(a.at), a.match(long))
	}
	a.add(blocks([32]byte{}, "other", make([]bulkhead.Token, 2*blockTokens)))
	if len(a.at) != 4 || a.order.Len() != 4 || a.match(long) != 2*blockTokens {
		t.Errorf("%d blocks, %v", len(a.at), a.match(long))
	}
}

func worker(role Role, name string) candidate {
	return candidate{id: nodeID{role, name}, kind: compatible{"f", "l", 16}, pool: 10000, most: 4}
}

// What decides between pairs, in its order.
func TestChoose(t *testing.T) {
	p1, p2, d1, d2 := worker(Prefill, "p1"), worker(Prefill, "p2"), worker(Decode, "d1"), worker(Decode, "d2")
	with := func(c candidate, change func(*candidate)) candidate { change(&c); return c }
	for _, tt := range []struct {
		name            string
		prefill, decode []candidate
		linkOpen        func(p, d nodeID) bool
		p, d            string
		short           shortage
	}{
		{name: "a prefix that is cached", prefill: []candidate{p1, with(p2, func(c *candidate) { c.match = 640 })}, decode: []candidate{d1}, p: "p2", d: "d1"},
		{name: "not where more work waits than it saves", prefill: []candidate{p1, with(p2, func(c *candidate) { c.match, c.tokens = 640, 641 })}, decode: []candidate{d1}, p: "p1", d: "d1"},
		{name: "the emptier pool, by its size", prefill: []candidate{p1}, decode: []candidate{with(d1, func(c *candidate) { c.tokens = 3000 }),
			with(d2, func(c *candidate) { c.tokens, c.pool = 4000, 20000 })}, p: "p1", d: "d2"},
		{name: "who failed it before is last", prefill: []candidate{with(p1, func(c *candidate) { c.charged = true }), with(p2, func(c *candidate) { c.tokens = 99999 })}, decode: []candidate{d1}, p: "p2", d: "d1"},
		{name: "who failed it before, if there is nobody else", prefill: []candidate{with(p1, func(c *candidate) { c.charged = true })}, decode: []candidate{d1}, p: "p1", d: "d1"},
		{name: "full", prefill: []candidate{with(p1, func(c *candidate) { c.requests = 4 }), with(p2, func(c *candidate) { c.tokens = 99999 })}, decode: []candidate{d1}, p: "p2", d: "d1"},
		{name: "all full", prefill: []candidate{with(p1, func(c *candidate) { c.requests = 4 })}, decode: []candidate{d1}, short: allFull},
		{name: "nobody", prefill: []candidate{p1}, short: noPair},
		{name: "other layouts", prefill: []candidate{p1}, decode: []candidate{with(d1, func(c *candidate) { c.kind.layout = "m" })}, short: noPair},
		{name: "a broken link", prefill: []candidate{p1}, decode: []candidate{d1, with(d2, func(c *candidate) { c.tokens = 9000 })},
			linkOpen: func(_, d nodeID) bool { return d.url == "d1" }, p: "p1", d: "d2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, d, short := choose(need{prompt: 1000, answer: 100, spread: 1, linkOpen: tt.linkOpen}, tt.prefill, tt.decode)
			if p.url != tt.p || d.url != tt.d || short != tt.short {
				t.Errorf("%q, %q, %v", p.url, d.url, short)
			}
		})
	}
}

// The choice does not depend on the order of the lists, and equal workers get equal shares of different requests.
func TestChooseIsFair(t *testing.T) {
	var prefill, decode []candidate
	for _, name := range []string{"a", "b", "c"} {
		prefill, decode = append(prefill, worker(Prefill, name)), append(decode, worker(Decode, name))
	}
	count := map[string]int{}
	for i := range 3000 {
		n := need{prompt: 10, answer: 10, spread: uint64(i) * 0x9e3779b97f4a7c15}
		p, d, _ := choose(n, prefill, decode)
		slices.Reverse(prefill)
		if q, e, _ := choose(n, prefill, decode); q != p || e != d {
			t.Fatal("it depends on the order")
		}
		count[p.url]++
		count[d.url]++
	}
	for name, n := range count {
		if n < 1600 || n > 2400 {
			t.Errorf("%s got %d of 6000", name, n)
		}
	}
}

// The window of all together is never larger than that of any, and what Check wants of limits holds.
func TestLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (all []*facts) {
			for range rapid.IntRange(0, 4).Draw(t, label) {
				page := rapid.SampledFrom([]int{16, 32, 48}).Draw(t, "page")
				pool := rapid.IntRange(8, 100).Draw(t, "pages") * page
				f := &facts{kind: compatible{"f", "l", page}, pool: bulkhead.Tokens(pool), queue: rapid.IntRange(1, 9).Draw(t, "queue"),
					queueTenant: 1, running: 1, chunk: 16}
				f.window = bulkhead.Tokens(rapid.IntRange(2, pool).Draw(t, "window"))
				f.modelWindow = f.window + bulkhead.Tokens(rapid.IntRange(0, 9).Draw(t, "more"))
				if err := f.checkLimits(); err != nil {
					t.Fatal(err)
				}
				all = append(all, f)
			}
			return all
		}
		prefill, decode := draw("prefill"), draw("decode")
		l := least(prefill, decode, bulkhead.Limits{Running: 1, Chunk: 1})
		routable := append(paired(prefill, decode), paired(decode, prefill)...)
		if len(routable) == 0 {
			if l.Window != 0 {
				t.Fatalf("a window of %d without a pair", l.Window)
			}
			return
		}
		if err := l.Check(); err != nil && l.Window >= 2 {
			t.Fatal(err)
		}
		for _, f := range routable {
			if l.Window > f.window || l.Queue > f.queue || min(l.PrefillPool, l.DecodePool) > f.pool {
				t.Fatalf("%+v is over %+v", l, f)
			}
		}
	})
}

// Rooms have 63 bits and are never 0; ids have one length.
func TestMinted(t *testing.T) {
	rooms, rids := map[bulkhead.Room]bool{}, map[string]bool{}
	for range 10000 {
		r, id := newRoom(), newRid()
		if r == 0 || r > math.MaxInt64 || rooms[r] || rids[id] || len(id) != 24 {
			t.Fatalf("%v, %q", r, id)
		}
		rooms[r], rids[id] = true, true
	}
}
