package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestF16(t *testing.T) {
	for h := range 1 << 16 {
		f := fromF16(uint16(h))
		if f != f {
			if toF16(f)&0x7fff <= 0x7c00 {
				t.Fatalf("NaN %04x comes back as %04x", h, toF16(f))
			}
			continue
		}
		if got := toF16(f); got != uint16(h) {
			t.Fatalf("%04x is %v, comes back as %04x", h, f, got)
		}
		if h&0x7fff >= 0x7bff {
			continue
		}
		// Between this number and the next: to nearest, the middle to even.
		next := fromF16(uint16(h + 1))
		middle := (f + next) / 2
		even := uint16(h + h&1)
		for _, c := range []struct {
			x    float32
			want uint16
		}{{middle, even}, {math.Nextafter32(middle, f), uint16(h)}, {math.Nextafter32(middle, next), uint16(h + 1)}} {
			if got := toF16(c.x); got != c.want {
				t.Fatalf("%v: %04x, want %04x", c.x, got, c.want)
			}
		}
	}
	if toF16(65520) != 0x7c00 || toF16(65519.996) != 0x7bff || toF16(float32(math.Inf(-1))) != 0xfc00 || toF16(1e30) != 0x7c00 {
		t.Error("overflow")
	}
}

func TestExp(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		const n = 16 * 4000
		x, want := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = -float32(i) / n * 90
			want[i] = float32(math.Exp(float64(x[i])))
		}
		for ; len(x) > 0; x, want = x[16:], want[16:] {
			x[0], want[0] = 0, 1 // the maximum
			part := x[:16]
			s.softmax(part, 16, 1)
			for i, got := range part {
				want[i] = max(want[i], float32(math.Exp(float64(float32(expMin)))))
				if ulps(got, want[i]) > 4 {
					t.Fatalf("exp is %v, want %v", got, want[i])
				}
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 100).Draw(t, "n")
			rng := drawRand(t)
			x, weight, dst := normal(rng, make([]float32, n)), normal(rng, make([]float32, n)), make([]float32, n+1)
			s.RMSNorm(dst[:n], x, weight, 1e-5)
			var squares float64
			for _, v := range x {
				squares += float64(v) * float64(v)
			}
			for i := range x {
				want := float64(x[i]) / math.Sqrt(squares/float64(n)+1e-5) * float64(weight[i])
				if math.Abs(float64(dst[i])-want) > bound(n, math.Abs(want)) {
					t.Fatalf("%d: %v, want %v", i, dst[i], want)
				}
			}
			s.RMSNorm(x, x, weight, 1e-5)
			if !sameBits(x, dst[:n]) || dst[n] != 0 {
				t.Fatal("in place differs, or wrote past the end")
			}
		})
	})
}

func TestRope(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			size := 2 * rapid.IntRange(1, 40).Draw(t, "half")
			rot := 2 * rapid.IntRange(0, size/2).Draw(t, "turned")
			heads := rapid.IntRange(1, 3).Draw(t, "heads")
			neox := rapid.Bool().Draw(t, "neox")
			rng := drawRand(t)
			x := normal(rng, make([]float32, heads*size))
			cos, sin := make([]float32, rot/2), make([]float32, rot/2)
			for i := range cos {
				angle := rng.Float64() * 7
				cos[i], sin[i] = float32(math.Cos(angle)), float32(math.Sin(angle))
			}
			want := make([]float64, len(x))
			for i, v := range x {
				want[i] = float64(v)
			}
			for h := range heads {
				for i := range rot / 2 {
					a, b := h*size+2*i, h*size+2*i+1
					if neox {
						a, b = h*size+i, h*size+i+rot/2
					}
					c, s := float64(cos[i]), float64(sin[i])
					want[a], want[b] = float64(x[a])*c-float64(x[b])*s, float64(x[a])*s+float64(x[b])*c
				}
			}
			if neox {
				s.RopeNeox(x, size, rot, cos, sin)
			} else {
				s.Rope(x, size, rot, cos, sin)
			}
			for i := range x {
				if math.Abs(float64(x[i])-want[i]) > 1e-6 {
					t.Fatalf("%d: %v, want %v", i, x[i], want[i])
				}
			}
		})
	})
}

func TestSiLUMulAndAdd(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 70).Draw(t, "n")
			rng := drawRand(t)
			gate, up, dst := normal(rng, make([]float32, n)), normal(rng, make([]float32, n)), make([]float32, n+1)
			for i := range gate {
				gate[i] *= []float32{1, 10, 100, 1000}[rng.IntN(4)]
			}
			s.SiLUMul(dst[:n], gate, up)
			for i := range n {
				g := float64(gate[i])
				want := g / (1 + math.Exp(-g)) * float64(up[i])
				if math.Abs(float64(dst[i])-want) > 1e-6*math.Abs(want)+1e-30 {
					t.Fatalf("silu(%v)*%v = %v, want %v", g, up[i], dst[i], want)
				}
			}
			if n > 20 { // an element does not depend on its place
				part := make([]float32, n-5)
				s.SiLUMul(part, gate[5:], up[5:])
				if !sameBits(part, dst[5:n]) {
					t.Fatal("the result depends on the place")
				}
			}
			x := normal(rng, make([]float32, n))
			sum := append([]float32(nil), x...)
			s.Add(sum, up)
			for i := range sum {
				if sum[i] != x[i]+up[i] {
					t.Fatal("add")
				}
			}
			if dst[n] != 0 {
				t.Fatal("wrote past the end")
			}
		})
	})
}

func TestElementwiseAllocatesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		x, y, c := make([]float32, 128), make([]float32, 128), make([]float32, 32)
		mustNotAllocate(t, s, "elementwise", func() {
			s.RMSNorm(x, y, y, 1)
			s.Rope(x, 64, 64, c, c)
			s.RopeNeox(x, 64, 64, c, c)
			s.SiLUMul(x, y, y)
			s.Add(x, y)
		})
	})
}
