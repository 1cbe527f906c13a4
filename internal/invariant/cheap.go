//go:build !invariants

package invariant

// Costly says whether checks that walk whole structures are on: by the build tag invariants only.
const Costly = false
