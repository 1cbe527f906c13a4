package kv

import (
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// counting is the reference, and counts its passes.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counting) SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	c.count()
	return l.SumK(page, layer, filled)
}

func (c *counting) SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	c.count()
	return l.SumV(page, layer, filled)
}

// examined lands the pages of source, each copied and examined in a goroutine of its own, harms it when that is done, and
// proves it.
func examined(r *rig, ids *Identities, source *Sequence, harm func(page []byte)) (res *Reservation, violation *bulkhead.Violation) {
	r.t.Helper()
	res, ok := r.Reserve(ids, source.Tokens())
	if !ok {
		r.t.Fatal("no room")
	}
	lands := make([]*Landing, res.Pages())
	var wg sync.WaitGroup
	for i := range lands {
		lands[i] = res.Land(i)
		wg.Go(func() {
			dst, src := lands[i].Bytes(), source.Pages()[i]
			for at := 0; at < len(dst); at += 1000 { // no multiple of anything
				end := min(at+1000, len(dst))
				copy(dst[at:end], src[at:end])
				lands[i].Examine(end)
			}
		})
	}
	wg.Wait()
	for i, l := range lands {
		if harm(l.Bytes()); violation == nil {
			if violation = l.Prove(); violation != nil {
				continue
			}
			if !res.Proven(i) {
				r.t.Errorf("page %d is not proven", i)
			}
		} else {
			l.Fence()
		}
	}
	return res, violation
}

// What was examined is not summed a second time by the proof, and what was not is.
func TestExamine(t *testing.T) {
	ids, tokens := domain("a", small), someTokens(39, 1)
	source := newRig(t, small, 3, Options{}).compute(ids, tokens, 16)
	sums := &counting{}
	r := newRig(t, small, 8, Options{Summer: sums})
	res, v := examined(r, ids, source, func([]byte) {})
	if want := 3 * 2 * small.Layers; v != nil || sums.n != want {
		t.Errorf("%d sums were taken, want %d; %v", sums.n, want, v)
	}
	seq, err := res.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if !r.Grow(seq, 40) {
		t.Fatal("no room")
	}
	if v := r.step(seq, someTokens(1, 2)); v != nil {
		t.Error(v)
	}
	seq.Release()
	r.Flush()
	sums.n = 0
	r.handoff(ids, source).Release()
	if want := 3 * 2 * small.Layers; sums.n != want {
		t.Errorf("%d sums were taken without Examine, want %d", sums.n, want)
	}
	r.audit()
}

// A page that is harmed between Examine and Prove meets the proof, in its seal, or the first step that reads it, in its bytes:
// there is no way by which what was not examined is attended over.
func TestHarmAfterExamine(t *testing.T) {
	ids, tokens := domain("a", small), someTokens(39, 1)
	source := newRig(t, small, 3, Options{}).compute(ids, tokens, 16)
	other := newRig(t, small, 3, Options{}).compute(domain("b", small), someTokens(39, 5), 16)
	for name, c := range map[string]struct {
		harm  func(page []byte)
		proof bool // the proof finds it
	}{
		"K":              {func(p []byte) { p[small.KOffset(1, 0)] ^= 1 }, false},
		"V":              {func(p []byte) { p[small.VOffset(0, 1)] ^= 1 }, false},
		"the seal":       {func(p []byte) { p[0] ^= 1 }, true},
		"a sum":          {func(p []byte) { s := small.SealOf(p); s.SetV(1, s.V(1)+1) }, true},
		"another's page": {func(p []byte) { copy(p, other.Pages()[0]) }, true},
		"another's bytes": {func(p []byte) {
			if small.SealOf(p).Filled() == small.PageTokens { // a part of a page would have tokens to come written
				copy(p[small.SealBytes():], other.Pages()[0][small.SealBytes():])
			}
		}, false},
		"bytes and sums that agree": {func(p []byte) {
			s := small.SealOf(p)
			p[small.VOffset(0, 1)] ^= 1
			s.SetV(0, small.SumV(p, 0, s.Filled()))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, small, 8, Options{})
			res, v := examined(r, ids, source, c.harm)
			if (v != nil) != c.proof {
				t.Fatalf("the proof found %v", v)
			}
			if v != nil {
				res.Abandon()
				return
			}
			seq, err := res.Commit()
			if err != nil || !r.Grow(seq, 40) {
				t.Fatal(err)
			}
			if v := r.step(seq, someTokens(1, 2)); v == nil {
				t.Error("a step read it and found nothing")
			}
			seq.Release()
		})
	}
}
