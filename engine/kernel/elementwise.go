package kernel

import (
	"fmt"
	"math"
)

// RMSNorm writes x / sqrt(mean of squares + eps) * weight. dst may be x.
func (s *Set) RMSNorm(dst, x, weight []float32, eps float32) {
	dst, weight = dst[:len(x)], weight[:len(x)]
	mean := float64(s.square(x)) / float64(len(x))
	s.scaleMul(dst, x, weight, float32(1/math.Sqrt(mean+float64(eps))))
}

// Rope turns the first rot dimensions of each head in x, in adjacent pairs (2i, 2i+1), by the angles whose cosines and
// sines are given, rot/2 of each. x is a row of heads.
func (s *Set) Rope(x []float32, headSize, rot int, cos, sin []float32) {
	checkRope(x, headSize, rot)
	cos, sin = cos[:rot/2], sin[:rot/2]
	for ; len(x) > 0; x = x[headSize:] {
		s.rope(x[:rot], cos, sin)
	}
}

// RopeNeox is Rope for pairs (i, i+rot/2).
func (s *Set) RopeNeox(x []float32, headSize, rot int, cos, sin []float32) {
	checkRope(x, headSize, rot)
	cos, sin = cos[:rot/2], sin[:rot/2]
	for ; len(x) > 0; x = x[headSize:] {
		lo, hi := x[:rot/2], x[rot/2:rot]
		for i, c := range cos {
			a, b := lo[i], hi[i]
			lo[i] = float32(a*c) - float32(b*sin[i])
			hi[i] = float32(a*sin[i]) + float32(b*c)
		}
	}
}

func checkRope(x []float32, headSize, rot int) {
	if headSize < 1 || len(x)%headSize != 0 || rot < 0 || rot > headSize || rot%2 != 0 {
		panic(fmt.Sprintf("kernel: rope of %d values in heads of %d, %d turned", len(x), headSize, rot))
	}
}

// SiLUMul writes gate/(1+exp(-gate)) * up. dst may be either.
func (s *Set) SiLUMul(dst, gate, up []float32) { s.siluMul(dst[:len(gate)], gate, up[:len(gate)]) }

// Add adds x to dst.
func (s *Set) Add(dst, x []float32) { s.add(dst[:len(x)], x) }

// fold adds up 16 lanes by halves, the order in which every set does it.
func (l *lanes) fold() float32 {
	for n := PanelRows / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

func square(x []float32) float32 {
	var l lanes
	for i, v := range x {
		l[i%PanelRows] += float32(v * v)
	}
	return l.fold()
}

func scaleMul(dst, x, weight []float32, scale float32) {
	for i, v := range x {
		dst[i] = float32(v*scale) * weight[i]
	}
}

func rope(x, cos, sin []float32) {
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		x[2*i] = float32(a*c) - float32(b*sin[i])
		x[2*i+1] = float32(a*sin[i]) + float32(b*c)
	}
}

func siluMul(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + exp(-g)) * up[i]
	}
}

func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

func addMul(dst, x []float32, scale float32) {
	for i, v := range x {
		dst[i] += float32(v * scale)
	}
}

// The exponential, as every set computes it: x = n*ln2 + r, a polynomial in r, and n added to the exponent. Below expMin,
// where float32 would become subnormal, it is what expMin gives, and above expMax what expMax gives.
const (
	expMin = -87.336
	expMax = 88.72
	log2e  = 1.44269504088896341
	ln2Hi  = 0.693359375
	ln2Lo  = -2.12194440e-4
	expC6  = 1.3981999507e-3
	expC5  = 8.3334519073e-3
	expC4  = 4.1665795894e-2
	expC3  = 1.6666665459e-1
	expC2  = 5.0000001201e-1
)

func exp(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, expMin), expMax)
	const shift = 3 << 22
	n := float32(float32(x*log2e)+shift) - shift
	r := float32(x-float32(n*ln2Hi)) - float32(n*ln2Lo)
	y := float32(expC6)
	for _, c := range [...]float32{expC5, expC4, expC3, expC2} {
		y = float32(y*r) + c
	}
	y = float32(y*float32(r*r)) + r + 1
	return math.Float32frombits(uint32(int32(math.Float32bits(y)) + int32(n)<<23))
}
