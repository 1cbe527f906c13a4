package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// Side is one of the two workers of a pair.
type Side int

// The sides.
const (
	Prefill Side = iota
	Decode
)

func (s Side) String() string { return [...]string{"prefill", "decode"}[s] }

// Observer is told of durations as they happen, for histograms. It is called from both loops, and Ended from whoever ends a
// request: it is for concurrent use, must return at once and must not call back. A pair reports each request once; of two
// workers apart each reports what it sees.
type Observer interface {
	Step(side Side, rows int, d time.Duration)              // one engine step of rows tokens, waiting for the turn not included
	Queued(tenant string, d time.Duration)                  // from Submit to the first page in prefill
	Handoff(pages int, bytes int64, d time.Duration)        // from the first page pulled to commit
	FirstToken(tenant string, d time.Duration)              // from Submit
	NextToken(tenant string, d time.Duration)               // between two tokens of one request
	Ended(tenant string, end bulkhead.End, d time.Duration) // from Submit
}

// Snapshot is the state of a pair, or of one worker of it, at one moment. What a worker does not have is zero.
type Snapshot struct {
	Limits   bulkhead.Limits
	Draining bool
	Prefill  PoolUse
	Decode   PoolUse

	Waiting       int            // in prefill's queue; at decode alone: known, and nothing of them is landing yet
	WaitingTenant map[string]int // the same by tenant
	Prefilling    int            // have pages in the prefill pool and are computed
	HandingOver   int            // published as a whole, and not committed yet; at decode alone: landing
	SetBack       int            // wait in decode for pages, or are computed again there
	Running       int            // decode at once

	Counters Counters
}

// PoolUse is how the pages of one pool are used.
type PoolUse struct {
	Size                                             bulkhead.Tokens
	Pages, Free, Cached, Live, Quarantined, SetAside int // in pages; the others sum to Pages
}

// Counters only grow.
type Counters struct {
	Submitted    uint64
	Ended        map[bulkhead.Reason]uint64
	Refusals     map[bulkhead.Code]uint64 // by Submit, and of requests that ended as Refused
	Violations   map[bulkhead.Part]uint64
	SetBacks     uint64
	PromptTokens uint64 // of requests that were taken
	CachedTokens uint64 // of these, found in prefill's cache
	OutputTokens uint64
	PrefillSteps uint64
	DecodeSteps  uint64
	PrefillRows  uint64 // tokens that prefill computed
	DecodeRows   uint64 // and that decode did, recomputation included
	HandoffPages uint64 // copied and proven
	HandoffBytes uint64
}
