package bulkhead

// Event is one step of an answer: a token, or the end where End is set (Token and Logprobs then mean nothing). An answer is
// its tokens in order and then exactly one End.
type Event struct {
	Token    Token
	Logprobs *Logprobs // where the request's Sampling asks for them
	End      *End
}

// End is the last event of every request that was taken.
type End struct {
	Reason     Reason
	Refusal    *Refusal // with Refused
	Err        error    // with Violated, the *Violation; with Failed, what it was. For logs, never for clients
	Prompt     Tokens   // tokens of the prompt
	Cached     Tokens   // of these, found in prefill's cache
	Completion Tokens   // tokens of the answer, the StopToken included
	StopToken  Token    // with Stopped
}

// Reason says how a request ended.
type Reason int

// The reasons. Each request ends for exactly one.
const (
	Stopped    Reason = iota + 1 // the model's end of sequence or one of the request's StopIDs: End.StopToken, which no event carries
	Length                       // MaxTokens are out
	Refused                      // End.Refusal says why: its deadline passed, or the worker is draining
	Violated                     // a page was not the request's own
	Aborted                      // the client left
	Failed                       // a fault of the worker's own
	HandedOver                   // at a prefill worker alone: decode has proven and committed every page
)

func (r Reason) String() string {
	switch r {
	case Stopped:
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
	case HandedOver:
		return "handed_over"
	}
	return "unknown"
}

// Logprobs are the log-probability of a token and of the likeliest at its place.
type Logprobs struct {
	Token float32
	Top   []TokenLogprob // best first; as many as Sampling.TopLogprobs
}

// TokenLogprob is one token with its log-probability.
type TokenLogprob struct {
	Token   Token
	Logprob float32
}
