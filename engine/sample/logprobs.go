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

const expSteps = 64

// expTable has 2^(i/64).
var expTable = func() (t [expSteps]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / expSteps)
	}
	return t
}()

// exp is the exponential of x <= 0 with a relative error below 1e-10, four times as fast as math.Exp: a draw takes one for
// every token of the vocabulary. x = k*ln2/64 + r, e^x = 2^(k/64) * e^r.
func exp(x float64) float64 {
	if x < -700 {
		return 0
	}
	const step = math.Ln2 / expSteps
	const shift = 3 << 51 // at this magnitude float64 has no fraction left
	n := x*(1/step) + shift - shift
	k := int64(n)
	r := x - n*step
	e := expTable[k&(expSteps-1)] * (1 + r*(1+r*(0.5+r*(1.0/6))))
	return math.Float64frombits(math.Float64bits(e) + uint64(k>>6)<<52)
}
