package kv

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// everyFault runs a test for each fault in each page and layer of two layouts.
func everyFault(t *testing.T, run func(t *testing.T, w *world, f fault, at, layer int)) {
	for _, l := range []bulkhead.Layout{small, large} {
		w := newWorld(t, l)
		for _, f := range faults() {
			for at := range 3 {
				for layer := range l.Layers {
					name := fmt.Sprintf("pages of %d/%s/page %d/layer %d", l.PageTokens, f.name, at, layer)
					t.Run(name, func(t *testing.T) { run(t, w, f, at, layer) })
				}
			}
		}
	}
}

// wantViolation checks what was found. A fault that is between two pages may be found in either.
func wantViolation(t *testing.T, v *bulkhead.Violation, f fault, at int) {
	t.Helper()
	if v == nil {
		t.Fatal("not detected")
	}
	if !errors.Is(v, bulkhead.ErrViolation) || v.At != at && v.At != other(at) || v.Expected == v.Found {
		t.Errorf("found %v", v)
	}
	for _, p := range f.parts {
		if v.Part == p {
			return
		}
	}
	t.Errorf("found in %s, want one of %v", v.Part, f.parts)
}

// Each fault in a page that a sequence holds, from its own computation, from the cache, or landed and committed, is found by the
// step that meets it.
func TestFaultsAreFoundByTheReader(t *testing.T) {
	open := map[string]func(r *rig, ids *Identities, prompt []bulkhead.Token) *Sequence{
		"computed": func(r *rig, ids *Identities, prompt []bulkhead.Token) *Sequence { return r.compute(ids, prompt, 10) },
		"cached": func(r *rig, ids *Identities, prompt []bulkhead.Token) *Sequence {
			r.compute(ids, prompt, 10).Release()
			return r.compute(ids, prompt, 10)
		},
		"landed": func(r *rig, ids *Identities, prompt []bulkhead.Token) *Sequence {
			return r.handoff(ids, newRig(r.t, r.layout, 4, Options{}).compute(ids, prompt, 10))
		},
	}
	for how, start := range open {
		t.Run(how, func(t *testing.T) {
			everyFault(t, func(t *testing.T, w *world, f fault, at, layer int) {
				r := newRig(t, w.l, 8, Options{})
				s := start(r, domain("a", w.l), someTokens(faultTokens(w.l), 1))
				f.change(w, s.Pages(), at, layer)
				v := r.step(s, []bulkhead.Token{5})
				wantViolation(t, v, f, at)
				wantSetAside(t, r, s, v)
			})
		})
	}
}

// wantSetAside checks what a violation leaves behind: a dead sequence, one page out of use and not findable.
func wantSetAside(t *testing.T, r *rig, s *Sequence, v *bulkhead.Violation) {
	t.Helper()
	if !s.Dead() || int(s.Len()) != faultTokens(r.layout) {
		t.Errorf("dead %v, %d tokens", s.Dead(), s.Len())
	}
	s.Release()
	r.audit()
	again := r.Begin(domain("a", r.layout), someTokens(faultTokens(r.layout), 1))
	if int(again.Len()) > v.At*r.layout.PageTokens {
		t.Errorf("page %d is still found", v.At)
	}
	again.Release()
	if st := r.Stats(); st.SetAside != 1 || !st.Idle() {
		t.Errorf("%+v", st)
	}
}

// A fault that happens within a step, after Check and while layers are being computed, is found as long as the layer is still
// to be read: also where the page is replaced as a whole, with a seal that is valid somewhere else.
func TestFaultsWithinAStep(t *testing.T) {
	everyFault(t, func(t *testing.T, w *world, f fault, at, layer int) {
		if slices.Contains([]string{"a bit of the identity", "a bit of filled", "the same tokens of another tenant"}, f.name) {
			t.Skip("the bytes stay right, and what the seal says they are is for the next step's check")
		}
		r := newRig(t, w.l, 3, Options{})
		s := r.compute(domain("a", w.l), someTokens(faultTokens(w.l), 1), 16)
		if s.Check() != nil {
			t.Fatal("violation before the fault")
		}
		a := s.Append([]bulkhead.Token{5})
		var v *bulkhead.Violation
		for i := 0; i < w.l.Layers && v == nil; i++ {
			r.write(a, i)
			if i == 0 {
				f.change(w, s.Pages(), at, w.l.Layers-1)
			}
			v = r.read(a, i)
		}
		f.parts = append(f.parts, inBytes...) // whole pages are found by their sums here
		wantViolation(t, v, f, at)
		a.Fail(v)
		wantSetAside(t, r, s, v)
	})
}

// Each fault in a page that lands is found by the proof, and nothing can be committed. The page goes back: the source is to
// blame.
func TestFaultsAreFoundByTheProof(t *testing.T) {
	everyFault(t, func(t *testing.T, w *world, f fault, at, layer int) {
		ids, prompt := domain("a", w.l), someTokens(faultTokens(w.l), 1)
		r := newRig(t, w.l, 6, Options{})
		source := newRig(t, w.l, 3, Options{}).compute(ids, prompt, 16)
		f.change(w, source.Pages(), at, layer)
		res, _ := r.Reserve(ids, prompt)
		v := r.land(res, at, source)
		wantViolation(t, v, f, at)
		if _, err := res.Commit(); err == nil {
			t.Error("committed")
		}
		res.Abandon()
		r.audit()
		if st := r.Stats(); st.SetAside != 0 || st.Free != 6 || st.Cached != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// The holder of a source page finds by Resum what the proof at the other end found.
func TestFaultsAreFoundByResum(t *testing.T) {
	everyFault(t, func(t *testing.T, w *world, f fault, at, layer int) {
		r := newRig(t, w.l, 3, Options{})
		s := r.compute(domain("a", w.l), someTokens(faultTokens(w.l), 1), 16)
		for i := range 3 {
			if v := s.Resum(i); v != nil {
				t.Fatal(v)
			}
		}
		f.change(w, s.Pages(), at, layer)
		v := s.Resum(at)
		wantViolation(t, v, f, at)
		wantSetAside(t, r, s, v)
	})
}

// What no sum covers does not come in with a landed page: it is refused in the last block of K, and cleared everywhere
// else, so that appends start from zero and go on without a violation.
func TestLandingLeavesNothingBehindItsTokens(t *testing.T) {
	l := large
	ids, prompt := domain("a", l), someTokens(faultTokens(l), 1)
	source := newRig(t, l, 3, Options{}).compute(ids, prompt, 16)
	tail := source.Pages()[2]
	seal := l.SealOf(tail)
	fillWith(seal.Bytes()[20:64], 0xff) // after identity and filled
	for layer := range l.Layers {
		for h := range l.KVHeads {
			k, v := l.KOffset(layer, h), l.VOffset(layer, h)
			fillWith(tail[k+l.HeadSize*bulkhead.LineBytes:k+l.KHeadBytes()], 0xdd) // the second block
			fillWith(tail[v+9*l.HeadStride()*2:v+l.VHeadBytes()], 0xee)
		}
	}
	r := newRig(t, l, 3, Options{})
	s := r.handoff(ids, source)
	clean := newRig(t, l, 3, Options{}).compute(ids, prompt, 16)
	if string(s.Pages()[2]) != string(clean.Pages()[2]) {
		t.Error("the landed tail is not the page that its tokens make")
	}
	for i := range 23 {
		if v := r.step(s, []bulkhead.Token{bulkhead.Token(i)}); v != nil {
			t.Fatal(v)
		}
	}

	// A sender whose sums count what lies in the places of tokens to come.
	dirty := newRig(t, l, 3, Options{}).compute(ids, prompt, 16)
	tail = dirty.Pages()[2]
	tail[l.KOffset(1, 1)+9*2] = 1
	l.SealOf(tail).SetK(1, l.SumK(tail, 1, 9))
	res, _ := newRig(t, l, 3, Options{}).Reserve(ids, prompt)
	if v := r.land(res, 2, dirty); v == nil || v.Part != bulkhead.PartK || v.Layer != 1 {
		t.Errorf("found %v", v)
	}
}

func fillWith(b []byte, x byte) {
	for i := range b {
		b[i] = x
	}
}
