//go:build invariants

package invariant

// Costly says whether checks that walk whole structures are on: they are, by the build tag invariants.
const Costly = true
