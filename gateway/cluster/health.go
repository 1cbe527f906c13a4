package cluster

// health says whether a worker is in rotation. A worker that was never seen is out, and comes in at its first good probe; one
// that is in goes out after a number of bad probes in a row, and comes back after a number of good ones. So a single lost
// probe moves nothing, and a worker that answers every second time stays out.
type health struct {
	out, back int // probes in a row that take it out, and that bring it back; at least 1 each

	in    bool
	known bool // it was in once
	row   int  // probes in a row that speak against the state
}

// good counts a good probe and says whether the worker came in by it.
func (h *health) good() (came bool) {
	if h.in {
		h.row = 0
		return false
	}
	h.row++
	if h.known && h.row < h.back {
		return false
	}
	h.in, h.known, h.row = true, true, 0
	return true
}

// bad counts a bad probe and says whether the worker went out by it.
func (h *health) bad() (went bool) {
	if !h.in {
		h.row = 0
		return false
	}
	h.row++
	if h.row < h.out {
		return false
	}
	h.in, h.row = false, 0
	return true
}
