// Package invariant is how Bulkhead stops at its own bugs. What a client or a peer can cause is a refusal; what memory can
// cause is a violation; what only a wrong program can cause goes through here and panics with a [Bug].
//
//	invariant.Check(a.open, "kv: an append that is not open was used")
//	invariant.Failf("kv: page %d has %d readers", i, n)
//	if invariant.Costly { ... } // walks that are too dear for production: go test -tags invariants
//
// Check takes a plain string so that a check on a hot path costs one comparison and allocates nothing.
package invariant

import "fmt"

// Bug is what a broken invariant panics with.
type Bug string

func (b Bug) Error() string { return "bug: " + string(b) }

// Check panics with what unless ok.
func Check(ok bool, what string) {
	if !ok {
		panic(Bug(what))
	}
}

// Failf panics with a formatted message.
func Failf(format string, args ...any) {
	panic(Bug(fmt.Sprintf(format, args...)))
}
