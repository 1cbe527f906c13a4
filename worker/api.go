package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
)

// Terminal says how a request ended.
type Terminal int

// The terminals. Each request ends in exactly one.
const (
	Stop     Terminal = iota + 1 // the model's end of sequence or one of the request's StopIDs: End.StopToken, which no event carries
	Length                       // MaxTokens are out
	Refused                      // End.Refusal says why: its deadline passed, or the worker is draining
	Violated                     // a page was not its own; End.Err is the *bulkhead.Violation, for logs and not for clients
	Aborted                      // the client left
	Failed                       // a fault of the worker's own; End.Err says which
)

func (t Terminal) String() string {
	switch t {
	case Stop:
		return "stop"
	case Length:
		return "length"
	case Refused:
		return "refused"
	case Violated:
		return "violated"
	case Aborted:
		return "aborted"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// Event is one token, or the end where End is set (Token and Logprobs then mean nothing).
type Event struct {
	Token    bulkhead.Token
	Logprobs *Logprobs // where the request's Sampling asks for them
	End      *End
}

// End is the last event of every request.
type End struct {
	Reason     Terminal
	Refusal    *bulkhead.Refusal // with Refused
	Err        error             // with Violated and Failed
	Prompt     bulkhead.Tokens   // tokens of the prompt
	Cached     bulkhead.Tokens   // of these, found in prefill's cache
	Completion bulkhead.Tokens   // tokens of the answer, the StopToken included
	StopToken  bulkhead.Token    // with Stop
}

// Logprobs are the log-probabilities that go with a token.
type Logprobs struct {
	Token float32        // of the token itself
	Top   []TokenLogprob // the likeliest, best first; as many as Sampling.TopLogprobs
}

// TokenLogprob is one alternative.
type TokenLogprob = sample.TokenLogprob

// Side is one of the two workers of a pair.
type Side int

// The sides.
const (
	Prefill Side = iota
	Decode
)

func (s Side) String() string { return [...]string{"prefill", "decode"}[s] }

// Observer is told of durations as they happen, for histograms. It is called from both loops, and Ended from whoever ends a
// request: it is for concurrent use, must return at once and must not call back.
type Observer interface {
	Step(side Side, rows int, d time.Duration)       // one engine step of rows tokens, waiting for the turn not included
	Queued(tenant string, d time.Duration)           // from Submit to the first page in prefill
	Handoff(pages int, bytes int64, d time.Duration) // from the first page pulled to commit
	FirstToken(tenant string, d time.Duration)       // from Submit
	NextToken(tenant string, d time.Duration)        // between two tokens of one request
	Ended(tenant string, end End, d time.Duration)   // from Submit
}

// Snapshot is the state of a pair at one moment.
type Snapshot struct {
	Limits   bulkhead.Limits
	Draining bool
	Prefill  PoolUse
	Decode   PoolUse

	Waiting       int            // in prefill's queue, requests that were set back included
	WaitingTenant map[string]int // the same by tenant
	Prefilling    int            // have pages in the prefill pool and are computed
	HandingOver   int            // published as a whole, and not committed yet
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
	Ended        map[Terminal]uint64
	Refusals     map[bulkhead.Code]uint64 // by Submit, and of requests that ended as Refused
	Violations   map[bulkhead.Part]uint64
	SetBacks     uint64
	PromptTokens uint64 // of requests that were taken
	CachedTokens uint64 // of these, found in prefill's cache
	OutputTokens uint64
	PrefillSteps uint64
	DecodeSteps  uint64
	PrefillRows  uint64 // tokens that prefill computed, recomputation included
	DecodeRows   uint64
	HandoffPages uint64 // copied and proven
	HandoffBytes uint64
}
