package invariant

import (
	"errors"
	"testing"
)

func TestBugsPanic(t *testing.T) {
	Check(true, "not reached")
	for _, f := range []func(){
		func() { Check(false, "page 3 has 2 owners") },
		func() { Failf("page %d has %d owners", 3, 2) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				var bug Bug
				if !errors.As(err, &bug) || bug != "page 3 has 2 owners" {
					t.Errorf("recovered %v", err)
				}
			}()
			f()
		}()
	}
}

// A check that holds costs no allocation.
func TestCheckAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Check(true, "a message") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
