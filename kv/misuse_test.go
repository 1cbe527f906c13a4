package kv

import (
	"errors"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Every use of what has ended, and every step out of order, is a bug and stops at once.
func TestMisuseStops(t *testing.T) {
	ids, prompt := domain("a", small), someTokens(20, 1)
	v := &bulkhead.Violation{}
	type scene struct {
		r        *rig
		seq      *Sequence // 20 tokens, capacity 32
		append   *Append   // open, of a second sequence
		second   *Sequence
		res      *Reservation // one page proven, one not
		landing  *Landing
		released *Sequence
		dead     *Sequence
		ended    *Reservation
		closed   *Landing
	}
	build := func(t *testing.T) *scene {
		r := newRig(t, small, 20, Options{})
		s := &scene{r: r, seq: r.compute(ids, prompt, 20), second: r.compute(ids, prompt, 20)}
		s.append = s.second.Append([]bulkhead.Token{1})
		s.released = r.compute(ids, prompt, 20)
		s.released.Release()
		s.dead = r.compute(ids, prompt, 20)
		s.dead.Append(prompt[:1]).Fail(nil)
		s.res, _ = r.Reserve(ids, someTokens(20, 2))
		if v := r.land(s.res, 0, newRig(t, small, 2, Options{}).compute(ids, someTokens(20, 2), 20)); v != nil {
			t.Fatal(v)
		}
		s.landing = s.res.Land(1)
		s.ended, _ = r.Reserve(ids, someTokens(20, 3))
		s.closed = s.ended.Land(0)
		s.closed.Fence()
		s.ended.Abandon()
		return s
	}
	for name, misuse := range map[string]func(s *scene){
		"released: length":             func(s *scene) { s.released.Len() },
		"released: pages":              func(s *scene) { s.released.Pages() },
		"released: check":              func(s *scene) { s.released.Check() },
		"released: append":             func(s *scene) { s.released.Append(prompt[:1]) },
		"released: grow":               func(s *scene) { s.r.Grow(s.released, 1) },
		"released: release":            func(s *scene) { s.released.Release() },
		"dead: pages":                  func(s *scene) { s.dead.Pages() },
		"dead: check":                  func(s *scene) { s.dead.Check() },
		"dead: append":                 func(s *scene) { s.dead.Append(prompt[:1]) },
		"dead: grow":                   func(s *scene) { s.r.Grow(s.dead, 64) },
		"append: past capacity":        func(s *scene) { s.seq.Append(make([]bulkhead.Token, 13)) },
		"append: of nothing":           func(s *scene) { s.seq.Append(nil) },
		"append: a second":             func(s *scene) { s.second.Append(prompt[:1]) },
		"append: grow while open":      func(s *scene) { s.r.Grow(s.second, 64) },
		"append: resum while open":     func(s *scene) { s.second.Resum(0) },
		"append: another token":        func(s *scene) { s.append.Slot(1) },
		"append: negative token":       func(s *scene) { s.append.ExtendK(0, -1, 0) },
		"append: page beyond":          func(s *scene) { s.append.Compare(0, 2, 0, 0) },
		"append: too few sums":         func(s *scene) { s.append.CompareLayer(0, make([]bulkhead.Sum, 1), make([]bulkhead.Sum, 1)) },
		"append: done after violation": func(s *scene) { s.append.Compare(0, 0, 1, 1); s.append.Compare(0, 1, 1, 1); s.append.Done() },
		"append: done, half compared":  func(s *scene) { s.r.write(s.append, 1); s.r.readPage(s.append, 1, 0); s.append.Done() },
		"append: done twice":           func(s *scene) { s.append.Done(); s.append.Done() },
		"append: extend after done":    func(s *scene) { s.append.Done(); s.append.ExtendV(0, 0, 1) },
		"append: foreign violation":    func(s *scene) { s.append.Fail(&bulkhead.Violation{Page: 19, At: 0}) },
		"append: fail after done":      func(s *scene) { s.append.Done(); s.append.Fail(v) },
		"reservation: commit after":    func(s *scene) { s.ended.Commit() },
		"reservation: abandon after":   func(s *scene) { s.ended.Abandon() },
		"reservation: land after":      func(s *scene) { s.ended.Land(0) },
		"reservation: expected after":  func(s *scene) { s.ended.Expected(0) },
		"landing: on a proven page":    func(s *scene) { s.res.Land(0) },
		"landing: a second":            func(s *scene) { s.res.Land(1) },
		"landing: bytes after":         func(s *scene) { s.closed.Bytes() },
		"landing: prove after":         func(s *scene) { s.closed.Prove() },
		"landing: fence after":         func(s *scene) { s.closed.Fence() },
		"landing: prove, abandoned":    func(s *scene) { s.res.Abandon(); s.landing.Prove() },
		"pool: another's sequence":     func(s *scene) { newRig(t, small, 2, Options{}).Grow(s.seq, 64) },
		"identities: of nothing":       func(s *scene) { ids.Next(bulkhead.Identity{}, nil) },
		"identities: over a page":      func(s *scene) { ids.Next(bulkhead.Identity{}, prompt) },
	} {
		t.Run(name, func(t *testing.T) {
			s := build(t)
			defer func() {
				err, _ := recover().(error)
				var bug invariant.Bug
				if !errors.As(err, &bug) {
					t.Errorf("recovered %v", err)
				}
			}()
			misuse(s)
		})
	}
}

func (r *rig) readPage(a *Append, layer, at int) {
	n := filled(a.s.len+a.n, at, r.layout.PageTokens)
	term := bulkhead.FilledTerm(n)
	page := a.s.Pages()[at]
	if v := a.Compare(layer, at, r.layout.SumK(page, layer, n)-term, r.layout.SumV(page, layer, n)-term); v != nil {
		r.t.Fatal(v)
	}
}

// Two tenants in one pool share nothing, whatever they ask, and find nothing by each other's prompts; two that the operator
// puts in one domain share all full pages.
func TestTenantsShareByDomainOnly(t *testing.T) {
	prompt := someTokens(40, 1)
	tenants := []bulkhead.Tenant{{Name: "acme", Domain: "acme"}, {Name: "zeta", Domain: "zeta"}, {Name: "acme labs", Domain: "acme"}}
	for i, a := range tenants {
		for j, b := range tenants {
			r := newRig(t, small, 8, Options{})
			idA, idB := domain(a.Domain, small), domain(b.Domain, small)
			sa := r.compute(idA, prompt, 16)
			sb := r.Begin(idB, prompt)
			res, _ := r.Reserve(idB, prompt)
			want := bulkhead.Tokens(0)
			if a.Domain == b.Domain {
				want = 32
			}
			if sb.Len() != want || res.Have(0) != (want > 0) || res.Have(1) != (want > 0) || res.Have(2) {
				t.Errorf("tenants %d and %d: %d tokens shared, want %d", i, j, sb.Len(), want)
			}
			sa.Release()
			sb.Release()
			res.Abandon()
			r.audit()
		}
	}
}

// A page that goes to another tenant was cleared, whichever way it was given back and whenever clearing happens.
func TestPagesAreHandedOutClear(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, small, 3, Options{KeepOnFree: keep})
		a, b := domain("a", small), domain("b", small)
		for name, give := range map[string]func(){
			"released": func() { r.compute(a, someTokens(47, 1), 16).Release() },
			"evicted":  func() { r.compute(a, someTokens(48, 2), 16).Release() },
			"failed": func() {
				s := r.compute(a, someTokens(40, 3), 16)
				x := s.Append(someTokens(8, 4))
				r.write(x, 0)
				x.Fail(nil)
				s.Release()
			},
			"abandoned": func() {
				res, _ := r.Reserve(a, someTokens(48, 5))
				l := res.Land(1)
				res.Abandon()
				for i := range l.Bytes() {
					l.Bytes()[i] = 0xff
				}
				l.Fence()
			},
		} {
			give()
			s := r.Begin(b, nil)
			if !r.Grow(s, 48) {
				t.Fatal("no room")
			}
			for i, page := range s.Pages() {
				if !isZero(page) {
					t.Errorf("%s, keep %v: page %d is not clear", name, keep, i)
				}
			}
			s.Release()
			r.compute(a, someTokens(48, 6), 16).Release() // so that the reservation evicts
			res, _ := r.Reserve(b, someTokens(48, 7))
			for i := range 3 {
				l := res.Land(i)
				if !isZero(l.Bytes()) {
					t.Errorf("%s, keep %v: page %d lands on something", name, keep, i)
				}
				l.Bytes()[i] = 1
				l.Fence()
				if l = res.Land(i); !isZero(l.Bytes()) {
					t.Errorf("%s, keep %v: page %d lands on its first try", name, keep, i)
				}
				l.Fence()
			}
			res.Abandon()
		}
		r.audit()
	}
}

// A pool of one page serves one request after another.
func TestPoolOfOnePage(t *testing.T) {
	r := newRig(t, small, 1, Options{})
	for i := range 10 {
		ids := domain([]string{"a", "b"}[i%2], small)
		s := r.compute(ids, someTokens(1+i*5%16, uint64(i/4)), 4)
		if r.CanGrow(s, 17) || r.Grow(s, 17) {
			t.Fatal("one page held 17 tokens")
		}
		if res, ok := r.Reserve(ids, []bulkhead.Token{99}); ok {
			t.Fatalf("a page was reserved that is held: %v", res)
		}
		s.Release()
		r.audit()
	}
}

// What a step does between its kernels allocates nothing.
func TestStepAllocatesNothing(t *testing.T) {
	r := newRig(t, small, 64, Options{})
	s := r.Begin(domain("a", small), nil)
	r.Grow(s, 1024)
	token := []bulkhead.Token{7}
	if n := testing.AllocsPerRun(900, func() {
		if s.Check() != nil || zeroStep(s, token) != nil {
			t.Fatal("violation")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no layout":  {Arena: make([]byte, small.PageBytes())},
		"no page":    {Layout: small},
		"half pages": {Layout: small, Arena: make([]byte, small.PageBytes()*3/2)},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
