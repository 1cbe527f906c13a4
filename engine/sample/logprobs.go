package sample

import (
	"math"
	"slices"

	"github.com/bulkhead-llm/bulkhead"
)

// logprobs are the log-probabilities of a token and of the n most likely ones; top is the largest logit.
func logprobs(logits []float32, top float32, t bulkhead.Token, n int) *Logprobs {
	var sum float64
	for _, l := range logits {
		sum += exp(float64(l) - float64(top))
	}
	norm := float64(top) + math.Log(sum)
	lp := &Logprobs{Logprob: float32(float64(logits[t]) - norm)}
	if n < 1 {
		return lp
	}
	n = min(n, len(logits))
	best := make([]candidate, 0, n+1) // sorted, best first
	for i, l := range logits {
		if len(best) == n && l <= best[n-1].logit {
			continue
		}
		c := candidate{logit: l, token: bulkhead.Token(i)}
		at, _ := slices.BinarySearchFunc(best, c, better)
		best = slices.Insert(best, at, c)
		best = best[:min(len(best), n)]
	}
	lp.Top = make([]bulkhead.TokenLogprob, n)
	for i, c := range best {
		lp.Top[i] = bulkhead.TokenLogprob{Token: c.token, Logprob: float32(float64(c.logit) - norm)}
	}
	return lp
}
