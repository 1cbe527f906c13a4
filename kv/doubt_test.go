package kv

import "testing"

// A bad source drains no pool: however often its pages land and cannot be proven, those they landed on go back, clear, and
// others are taken first. Only a page whose landings fail twice in a row is set aside.
func TestBadSourceDrainsNothing(t *testing.T) {
	const pages = 6
	for _, keep := range []bool{false, true} {
		r := newRig(t, small, pages, Options{KeepOnFree: keep})
		ids, prompt := domain("a", small), someTokens(9, 1) // part of a page, which no cache keeps
		good, bad := newRig(t, small, 1, Options{}).compute(ids, prompt, 9), newRig(t, small, 1, Options{}).compute(ids, prompt, 9)
		bad.Pages()[0][small.VOffset(1, 1)] ^= 1
		fail := func() {
			t.Helper()
			res, ok := r.Reserve(ids, prompt)
			if !ok {
				t.Fatalf("no room: %+v", r.Stats())
			}
			if r.land(res, 0, bad) == nil {
				t.Fatal("proven")
			}
			res.Abandon()
			r.audit()
		}
		wantAside := func(n int) {
			t.Helper()
			if st := r.Stats(); st.SetAside != n || st.Free+st.Cached != pages-n {
				t.Fatalf("keep %v: %d should be set aside: %+v", keep, n, st)
			}
		}
		for range pages { // each lands on another page
			fail()
		}
		wantAside(0)
		var held []*Reservation
		for range pages { // a landing that is proven makes each as good as new
			res, _ := r.Reserve(ids, prompt)
			if v := r.land(res, 0, good); v != nil {
				t.Fatal(v)
			}
			held = append(held, res)
		}
		for _, res := range held {
			res.Abandon()
		}
		for range pages {
			fail()
		}
		wantAside(0)
		r.compute(ids, someTokens(16*pages-1, 2), 16).Release() // and so does a step that read it
		for range pages {
			fail()
		}
		wantAside(0)
		for n := range pages - 1 { // twice in a row
			fail()
			wantAside(n + 1)
		}
	}
}
