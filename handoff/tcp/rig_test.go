package tcp

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/algebra"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = algebra.Small(16)

// quick are limits with which a test need not wait long.
func quick() Limits {
	l := DefaultLimits()
	l.DialTimeout, l.HandshakeTimeout, l.Backoff = time.Second, time.Second, 20*time.Millisecond
	l.PingInterval, l.PeerTimeout = 50*time.Millisecond, 400*time.Millisecond
	l.RingBytes = 1 << 20 // making one takes a moment on a busy machine, and is waited for no longer than half of PeerTimeout
	l.ClaimTimeout, l.EntryTimeout, l.CloseGrace = 200*time.Millisecond, 5*time.Second, 100*time.Millisecond
	return l
}

func config(name string) Config {
	return Config{Name: name, Layout: layout, Fingerprint: [32]byte{7}, Kernels: "go", Secret: [32]byte{1, 2, 3}, Limits: quick()}
}

// bell wakes a test's loop.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// rig is an outlet and an inlet over loopback.
type rig struct {
	t        testing.TB
	out      *Outlet
	in       *Inlet
	addr     string
	toOut    bell
	toIn     bell
	arrivals []handoff.Arrival
	messages []handoff.Message // to the target
	ends     []handoff.Message // to the source
}

// transports are the ways that pages can go.
var transports = []struct {
	name string
	set  func(t testing.TB, c *Config)
}{
	{"plain", func(testing.TB, *Config) {}},
	{"shared", func(_ testing.TB, c *Config) { c.SharedMemory = true }},
	{"tls", withTLS},
	{"tls shared", func(t testing.TB, c *Config) { withTLS(t, c); c.SharedMemory = true }},
}

func eachWay(t *testing.T, f func(t *testing.T, r *rig)) {
	for _, w := range transports {
		t.Run(w.name, func(t *testing.T) {
			f(t, newRig(t, func(out, in *Config) { w.set(t, out); w.set(t, in) }))
		})
	}
}

func newRig(t testing.TB, edit func(out, in *Config)) *rig {
	t.Helper()
	a, b := config("prefill-1"), config("decode-1")
	if testing.Verbose() {
		a.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
		b.Log = a.Log
	}
	if edit != nil {
		edit(&a, &b)
	}
	r := &rig{t: t, toOut: newBell(), toIn: newBell()}
	r.listen(a)
	in, err := NewInlet(b)
	if err != nil {
		t.Fatal(err)
	}
	r.in = in
	in.Notify(r.toIn.ring)
	t.Cleanup(in.Shutdown)
	return r
}

func (r *rig) listen(c Config) {
	r.t.Helper()
	out, err := NewOutlet(c)
	if err != nil {
		r.t.Fatal(err)
	}
	out.Notify(r.toOut.ring)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.out, r.addr = out, l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := out.Serve(l); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(func() { out.Shutdown(); wg.Wait() })
}

func (r *rig) source() handoff.Peer { return handoff.Peer{Name: "prefill-1", Addr: r.addr} }
func (r *rig) target() handoff.Peer { return handoff.Peer{Name: "decode-1"} }

const patience = 5 * time.Second

// await takes what comes until ok.
func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		r.ends = append(r.ends, r.out.Receive()...)
		m, a := r.in.Receive()
		r.messages, r.arrivals = append(r.messages, m...), append(r.arrivals, a...)
		if ok() {
			return
		}
		select {
		case <-r.toOut:
		case <-r.toIn:
		case <-time.After(5 * time.Millisecond): // what is awaited may be a count, which rings no bell
		case <-deadline:
			r.t.Fatalf("%s did not come: source heard %v, target heard %v, arrived %v\nsource %+v\ntarget %+v",
				what, r.ends, r.messages, r.arrivals, r.out.Stats(), r.in.Stats())
		}
	}
}

// heard is the target's first message of a kind about a room.
func (r *rig) heard(room bulkhead.Room, k handoff.Kind) *handoff.Message {
	return find(r.messages, room, k)
}

// ended is the source's.
func (r *rig) ended(room bulkhead.Room, k handoff.Kind) *handoff.Message {
	return find(r.ends, room, k)
}

func find(all []handoff.Message, room bulkhead.Room, k handoff.Kind) *handoff.Message {
	for i := range all {
		if all[i].Room == room && all[i].Kind == k {
			return &all[i]
		}
	}
	return nil
}

func (r *rig) awaitHeard(room bulkhead.Room, k handoff.Kind) *handoff.Message {
	r.t.Helper()
	r.await(fmt.Sprintf("%v of room %v at the target", k, room), func() bool { return r.heard(room, k) != nil })
	return r.heard(room, k)
}

func (r *rig) awaitEnded(room bulkhead.Room, k handoff.Kind) *handoff.Message {
	r.t.Helper()
	r.await(fmt.Sprintf("%v of room %v at the source", k, room), func() bool { return r.ended(room, k) != nil })
	return r.ended(room, k)
}

// offered awaits an offer of so many pages.
func (r *rig) offered(room bulkhead.Room, pages int) {
	r.t.Helper()
	r.await(fmt.Sprintf("offer of %d pages", pages), func() bool {
		for _, m := range r.messages {
			if m.Room == room && m.Kind == handoff.Offer && m.Pages >= pages {
				return true
			}
		}
		return false
	})
}

// arrived awaits the arrival of n pages of a room, and gives them in the order in which they came.
func (r *rig) arrived(room bulkhead.Room, n int) (got []handoff.Arrival) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d pages of room %v", n, room), func() bool {
		got = got[:0]
		for _, a := range r.arrivals {
			if a.Room == room {
				got = append(got, a)
			}
		}
		return len(got) >= n
	})
	return got
}

// landing is memory for one page.
type landing struct {
	b        []byte
	examined int // bytes
}

func newLanding() *landing       { return &landing{b: make([]byte, layout.PageBytes())} }
func (l *landing) Bytes() []byte { return l.b }
func (l *landing) Examine(n int) { l.examined = max(l.examined, n) }

// kvLanding is a landing in a pool.
type kvLanding struct{ *kv.Landing }

var claim = handoff.Claim{9, 9, 9}

// pages makes n pages with bytes of their own.
func pages(seed, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		p := make([]byte, layout.PageBytes())
		for j := range p {
			p[j] = byte(seed*31 + i*7 + j)
		}
		all[i] = p
	}
	return all
}

func offer(room bulkhead.Room, n int) handoff.Message {
	return handoff.Message{Room: room, Kind: handoff.Offer, Pages: n}
}

// open opens, publishes and enters a room.
func (r *rig) open(room bulkhead.Room, p [][]byte) {
	r.t.Helper()
	r.out.Open(room, r.target(), claim)
	r.in.Enter(room, r.source(), claim)
	r.out.Publish(offer(room, len(p)), p)
	r.offered(room, len(p))
}

func (r *rig) commit(room bulkhead.Room) { r.in.End(handoff.Message{Room: room, Kind: handoff.Commit}) }
func (r *rig) abandon(room bulkhead.Room) {
	r.in.End(handoff.Message{Room: room, Kind: handoff.Abandon, Page: -1})
}

// prefill computes tokens into a pool as a worker does.
func prefill(t testing.TB, pool *kv.Pool, ids *kv.Identities, tokens []bulkhead.Token) *kv.Sequence {
	t.Helper()
	s := pool.Begin(ids, nil)
	if !pool.Grow(s, bulkhead.Tokens(len(tokens))) {
		t.Fatal("the pool is full")
	}
	var res [1]engine.Result
	algebra.New(layout, 97, 5).Step([]engine.Work{{Seq: s, Tokens: tokens, Logits: true}}, res[:])
	if res[0].Violation != nil {
		t.Fatal(res[0].Violation)
	}
	return s
}

func newPool(t testing.TB, n int) *kv.Pool {
	t.Helper()
	p, err := kv.New(kv.Options{Layout: layout, Arena: make([]byte, n*layout.PageBytes())})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func prompt(n, seed int) []bulkhead.Token {
	out := make([]bulkhead.Token, n)
	for i := range out {
		out[i] = bulkhead.Token((i*i + seed*13 + i) % 97)
	}
	return out
}

func roomOf(n int) bulkhead.Room { return bulkhead.Room(n) }
