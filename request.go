package bulkhead

import "time"

// Sampling says how the next token is drawn from the logits. The zero value of a field means what its comment says.
type Sampling struct {
	Temperature       float32 // 0: greedy
	TopP              float32 // 0 or 1: off
	TopK              int     // 0: off
	MinP              float32 // 0: off
	Seed              uint64  // the stream of random numbers; minted where the client gives none
	PresencePenalty   float32
	FrequencyPenalty  float32
	RepetitionPenalty float32 // 0 or 1: off
	LogitBias         []TokenBias
	TopLogprobs       int  // how many alternatives to report with each token
	Logprobs          bool // report the log-probability of each token
}

// TokenBias adds Bias to the logit of one token.
type TokenBias struct {
	Token Token
	Bias  float32
}

// Request is what a tenant asked for, counted in tokens and not admitted yet.
type Request struct {
	ID        RequestID
	Tenant    Tenant
	Prompt    []Token // never empty
	MaxTokens Tokens  // 0: as many as the window leaves
	IgnoreEOS bool
	StopIDs   []Token // tokens that end the answer, beside the model's own
	Sampling  Sampling
	Deadline  time.Time // zero: none
}

// Admitted is a request that fits everything it will meet: the window, both pools and its own limits. Only
// [Limits.Admit] makes one, so a request that was refused cannot reach a worker whatever a caller forgets: workers take
// nothing else.
type Admitted struct {
	r  Request
	ok bool // distinguishes what Admit made from a zero value
}

// Request is the admitted request; its MaxTokens is at least 1. It panics on an Admitted that Admit did not make.
func (a Admitted) Request() Request {
	if !a.ok {
		panic("bulkhead: an Admitted that no admission made")
	}
	return a.r
}
