package kernel

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawType(t *rapid.T) *Type { return rapid.SampledFrom(Types()).Draw(t, "type") }

func drawCols(t *rapid.T, ty *Type) int {
	if ty.Quantized {
		return rapid.IntRange(1, 9).Draw(t, "blocks") * QuantLen
	}
	return rapid.IntRange(1, 100).Draw(t, "cols")
}

// product is the result by definition, in float64 over what quantisation left, and the sum of its terms' magnitudes: one
// term for each step of the accumulation.
func product(ty *Type, row []byte, x *Activations, r int) (sum, total float64, terms int) {
	if !ty.Quantized {
		w := make([]float32, x.Cols)
		ty.Row(w, row)
		for k, v := range x.Row(r) {
			sum += float64(w[k]) * float64(v)
			total += math.Abs(float64(w[k]) * float64(v))
		}
		return sum, total, x.Cols
	}
	blocks := x.Cols / QuantLen
	for b := range blocks {
		part := row[b*ty.BlockBytes:][:ty.BlockBytes]
		q, dx := x.Q[r*x.Cols+b*QuantLen:][:QuantLen], float64(x.Scale[r*blocks+b])
		isum, minimum := 0, 0.0
		for k := range q {
			isum += fileInt(ty, part, k) * int(q[k])
			if ty.Name == "Q4_1" {
				minimum += float64(f16At(part[2:])) * dx * float64(q[k])
			}
		}
		term := float64(isum) * float64(f16At(part)) * dx
		sum += term + minimum
		total += math.Abs(term) + math.Abs(minimum)
	}
	return sum, total, 2 * blocks
}

// fileInt is the k-th integer of a block in the file's form.
func fileInt(ty *Type, block []byte, k int) int {
	switch ty.Name {
	case "Q8_0":
		return int(int8(block[2+k]))
	case "Q4_0":
		return int(block[2+k%16]>>(k/16*4)&15) - 8
	}
	return int(block[4+k%16] >> (k / 16 * 4) & 15)
}

func TestMatMul(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			ty := drawType(t)
			cols := drawCols(t, ty)
			rows, n := rapid.IntRange(1, 50).Draw(t, "rows"), rapid.IntRange(1, 19).Draw(t, "batch")
			rng := drawRand(t)
			file := fileMatrix(rng, ty, rows, cols)
			w := pack(ty, file, rows, cols)
			x := NewActivations(n, cols)
			normal(rng, x.F32)
			if ty.Quantized {
				s.Quantize(x, 0, n)
			}
			stride := rows + rapid.IntRange(0, 3).Draw(t, "gap")
			dst := make([]float32, n*stride)
			s.MatMul(dst, stride, w, x, 0, w.Panels())
			for r := range n {
				for o := range rows {
					want, total, terms := product(ty, file[o*ty.RowBytes(cols):][:ty.RowBytes(cols)], x, r)
					if got := float64(dst[r*stride+o]); math.Abs(got-want) > bound(terms, total) {
						t.Fatalf("row %d output %d: %v, want %v within %v", r, o, got, want, bound(terms, total))
					}
				}
				for _, gap := range dst[r*stride+rows : (r+1)*stride] {
					if gap != 0 {
						t.Fatal("wrote between rows")
					}
				}
			}
		})
	})
}

// A row's outputs are the same bits alone, with others, anywhere in the batch, and with the panels split in any way.
func TestMatMulBatchInvariance(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			ty := drawType(t)
			cols := drawCols(t, ty)
			rows, n := rapid.IntRange(1, 70).Draw(t, "rows"), rapid.IntRange(1, 19).Draw(t, "batch")
			rng := drawRand(t)
			w := pack(ty, fileMatrix(rng, ty, rows, cols), rows, cols)
			all := NewActivations(n, cols)
			normal(rng, all.F32)
			want := make([]float32, n*rows)
			if ty.Quantized {
				s.Quantize(all, 0, n)
			}
			s.MatMul(want, rows, w, all, 0, w.Panels())

			from := rapid.IntRange(0, n-1).Draw(t, "from")
			to := rapid.IntRange(from+1, n).Draw(t, "to")
			split := rapid.IntRange(0, w.Panels()).Draw(t, "split")
			some := NewActivations(n+3, cols)
			some.Shape(to-from, cols)
			copy(some.F32, all.F32[from*cols:to*cols])
			got := make([]float32, (to-from)*rows)
			if ty.Quantized {
				s.Quantize(some, 0, to-from)
			}
			s.MatMul(got, rows, w, some, split, w.Panels())
			s.MatMul(got, rows, w, some, 0, split)
			if !sameBits(got, want[from*rows:to*rows]) {
				t.Fatalf("%s: rows [%d,%d) of %d differ from themselves in the batch", ty.Name, from, to, n)
			}
		})
	})
}

// Sets quantise to the same bits, and where rounding cannot show (scales that are powers of two, small sums) they multiply
// to the same bits too: the integer sums are exact, for every value that a foreign file can hold.
func TestMatMulExact(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			ty := rapid.SampledFrom([]*Type{types[q8_0Type], types[q4_0Type], types[q4_1Type]}).Draw(t, "type")
			blocks := rapid.IntRange(1, 4).Draw(t, "blocks")
			rows, n, cols := 32, rapid.IntRange(1, 9).Draw(t, "batch"), blocks*QuantLen
			rng := drawRand(t)
			file := fileMatrix(rng, ty, rows, cols)
			extreme := rapid.Bool().Draw(t, "extreme")
			for b := file; len(b) > 0; b = b[ty.BlockBytes:] {
				one := toF16(1)
				b[0], b[1] = byte(one), byte(one>>8)
				at := 2
				if ty.Name == "Q4_1" {
					b[2], b[3], at = b[0], b[1], 4
				}
				for i := at; extreme && i < ty.BlockBytes; i++ {
					b[i] = []byte{0x80, 0x7f, 0xff, 0x81}[rng.IntN(4)]
				}
			}
			w, x := pack(ty, file, rows, cols), NewActivations(n, cols)
			for i := range x.Q {
				x.Q[i] = int8(rng.IntN(255) - 127)
				if extreme {
					x.Q[i] = int8(rng.IntN(2)*254 - 127)
				}
				x.QSum[i/QuantLen] += int32(x.Q[i])
			}
			for i := range x.Scale {
				x.Scale[i] = 1
			}
			dst := make([]float32, n*rows)
			s.MatMul(dst, rows, w, x, 0, w.Panels())
			for r := range n {
				for o := range rows {
					want, _, _ := product(ty, file[o*ty.RowBytes(cols):][:ty.RowBytes(cols)], x, r)
					if got := float64(dst[r*rows+o]); got != want {
						t.Fatalf("row %d output %d: %v, want %v", r, o, got, want)
					}
				}
			}
		})
	})
}

func TestQuantizeSameBits(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		rapid.Check(t, func(t *rapid.T) {
			blocks := rapid.IntRange(1, 20).Draw(t, "blocks")
			a, b := NewActivations(2, blocks*QuantLen), NewActivations(2, blocks*QuantLen)
			rng := drawRand(t)
			for i := range a.F32 {
				exponent := rng.IntN(12) - 6
				if rng.IntN(8) == 0 {
					exponent = rng.IntN(80) - 60
				}
				a.F32[i] = float32(rng.NormFloat64() * math.Pow(10, float64(exponent)))
			}
			if rapid.Bool().Draw(t, "ties") {
				for i := range a.F32 {
					a.F32[i] = float32(rng.IntN(509)-254) / 2
				}
				a.F32[0] = 127
			}
			for i := range rapid.IntRange(0, len(a.F32)).Draw(t, "zeros") {
				a.F32[i] = 0
			}
			copy(b.F32, a.F32)
			goSet.Quantize(a, 0, 2)
			s.Quantize(b, 0, 1)
			s.Quantize(b, 1, 2)
			if fmt.Sprint(a.Q, a.QSum) != fmt.Sprint(b.Q, b.QSum) || !sameBits(a.Scale, b.Scale) {
				t.Fatalf("differs:\n%v %v %v\n%v %v %v", a.Q, a.QSum, a.Scale, b.Q, b.QSum, b.Scale)
			}
		})
	})
}

// What is not finite shows in every output of its row, and in no other row.
func TestMatMulNotFinite(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		for _, ty := range Types() {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
				rng := newRand(3)
				w, x := pack(ty, fileMatrix(rng, ty, 16, 64), 16, 64), NewActivations(3, 64)
				normal(rng, x.F32)
				x.Row(1)[40] = bad
				if ty.Quantized {
					s.Quantize(x, 0, 3)
				}
				dst := make([]float32, 3*16)
				s.MatMul(dst, 16, w, x, 0, 1)
				for i, v := range dst {
					finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
					if finite != (i/16 != 1) {
						t.Fatalf("%s: %v in row 1: row %d gives %v", ty.Name, bad, i/16, v)
					}
				}
			}
		}
	})
}

func TestRowIsWhatPackHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ty := types[rapid.SampledFrom([]typeID{f32Type, f16Type, bf16Type}).Draw(t, "type")]
		rng := drawRand(t)
		file := fileMatrix(rng, ty, 17, 5)
		w, row := pack(ty, file, 17, 5), make([]float32, 5)
		for r := range 17 {
			ty.Row(row, file[r*ty.RowBytes(5):][:ty.RowBytes(5)])
			x := NewActivations(1, 5)
			for k := range 5 { // a unit vector picks one value
				clear(x.F32)
				x.F32[k] = 1
				dst := make([]float32, 17)
				goSet.MatMul(dst, 17, w, x, 0, 2)
				if dst[r] != row[k] {
					t.Fatalf("row %d column %d: %v packed, %v in the file", r, k, dst[r], row[k])
				}
			}
		}
	})
}

func TestMatMulAllocatesNothing(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		for _, ty := range Types() {
			rng := newRand(1)
			w, x := pack(ty, fileMatrix(rng, ty, 40, 64), 40, 64), NewActivations(5, 64)
			dst := make([]float32, 5*40)
			mustNotAllocate(t, s, ty.Name, func() { s.Quantize(x, 0, 5); s.MatMul(dst, 40, w, x, 0, 3) })
		}
	})
}

// A slice that is too short panics before a kernel sees it.
func TestMatMulChecks(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		ty := types[q8_0Type]
		good := func() (*Weight, *Activations, []float32) {
			return pack(ty, fileMatrix(newRand(1), ty, 16, 64), 16, 64), NewActivations(4, 64), make([]float32, 64)
		}
		for name, spoil := range map[string]func(w *Weight, x *Activations, dst *[]float32){
			"weight": func(w *Weight, x *Activations, dst *[]float32) { w.Data = w.Data[: len(w.Data)-1 : len(w.Data)-1] },
			"q":      func(w *Weight, x *Activations, dst *[]float32) { x.Q = x.Q[:255:255] },
			"scale":  func(w *Weight, x *Activations, dst *[]float32) { x.Scale = x.Scale[:7:7] },
			"sum":    func(w *Weight, x *Activations, dst *[]float32) { x.QSum = x.QSum[:7:7] },
			"dst":    func(w *Weight, x *Activations, dst *[]float32) { *dst = (*dst)[:63:63] },
			"panels": func(w *Weight, x *Activations, dst *[]float32) { w.Rows = 17 },
		} {
			w, x, dst := good()
			spoil(w, x, &dst)
			mustPanic(t, name, func() { s.MatMul(dst, w.Rows, w, x, 0, w.Panels()) })
		}
	})
}
