package sample

import "math"

const expSteps = 64

// expTable has 2^(i/64).
var expTable = func() (t [expSteps]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / expSteps)
	}
	return t
}()

// What is added to a float64 and taken away again to round it: at this magnitude it has no fraction left.
const roundShift = 3 << 51

// exp is the exponential of x <= 0 with a relative error below 1e-10, several times as fast as math.Exp: a draw takes one
// for every token of the vocabulary. x = k*ln2/64 + r, e^x = 2^(k/64) * e^r.
func exp(x float64) float64 {
	if x < -700 {
		return 0
	}
	const step = math.Ln2 / expSteps
	n := x*(1/step) + roundShift - roundShift
	k := int64(n)
	r := x - n*step
	e := expTable[k&(expSteps-1)] * (1 + r*(1+r*(0.5+r*(1.0/6))))
	return math.Float64frombits(math.Float64bits(e) + uint64(k>>6)<<52)
}

// weights writes exp((l-top)*perT) of every logit and returns the sum. It is exp once more, for the compiler does not
// inline it.
func weights(dst, logits []float32, top, perT float64) (sum float64) {
	const step = math.Ln2 / expSteps
	dst = dst[:len(logits)]
	for i, l := range logits {
		x := (float64(l) - top) * perT
		if x < -700 {
			dst[i] = 0
			continue
		}
		n := x*(1/step) + roundShift - roundShift
		k := int64(n)
		r := x - n*step
		e := expTable[k&(expSteps-1)] * (1 + r*(1+r*(0.5+r*(1.0/6))))
		w := float32(math.Float64frombits(math.Float64bits(e) + uint64(k>>6)<<52))
		dst[i] = w
		sum += float64(w)
	}
	return sum
}
