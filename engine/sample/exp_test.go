package sample

import (
	"math"
	"testing"
)

func TestExp(t *testing.T) {
	for x := 0.0; x > -800; x -= 0.0137 {
		got, want := exp(x), math.Exp(x)
		if x < -700 {
			want = 0
		}
		if math.Abs(got-want) > 1e-10*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		var w [1]float32
		if weights(w[:], []float32{float32(x)}, 0, 1); w[0] != float32(exp(float64(float32(x)))) {
			t.Fatalf("weights(%v) = %v, exp is %v", x, w[0], exp(x))
		}
	}
}
