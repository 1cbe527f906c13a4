package worker

import "github.com/bulkhead-llm/bulkhead"

// Sampler draws the tokens of one request. Its state is kept when the request is set back, so that the same tokens come
// out. It is for one goroutine at a time.
type Sampler interface {
	// Next draws a token. The logits are not kept; what it says of probabilities is the caller's to keep.
	Next(logits []float32) (bulkhead.Token, *Logprobs)
}
