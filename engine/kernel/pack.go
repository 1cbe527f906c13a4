package kernel

import (
	"encoding/binary"
	"math"
)

func blockF32(dst []float32, src []byte)  { dst[0] = f32At(src) }
func blockF16(dst []float32, src []byte)  { dst[0] = f16At(src) }
func blockBF16(dst []float32, src []byte) { dst[0] = bf16At(src) }

func blockQ8_0(dst []float32, src []byte) {
	d := f16At(src)
	for k, q := range src[2:34] {
		dst[k] = float32(int8(q)) * d
	}
}

func blockQ4_0(dst []float32, src []byte) {
	d := f16At(src)
	for k, q := range src[2:18] {
		dst[k] = float32(int(q&15)-8) * d
		dst[k+16] = float32(int(q>>4)-8) * d
	}
}

func blockQ4_1(dst []float32, src []byte) {
	d, m := f16At(src), f16At(src[2:])
	for k, q := range src[4:20] {
		dst[k] = float32(float32(q&15)*d) + m
		dst[k+16] = float32(float32(q>>4)*d) + m
	}
}

func packF32(dst, src []byte, row int)  { copy(dst[4*row:4*row+4], src) }
func packF16(dst, src []byte, row int)  { copy(dst[2*row:2*row+2], src) }
func packQ8_0(dst, src []byte, row int) { packQuant(dst, src, row, 1) }
func packQ4_0(dst, src []byte, row int) { packQuant(dst, src, row, 1) }
func packQ4_1(dst, src []byte, row int) { packQuant(dst, src, row, 2) }

// packQuant places a block that starts with some F16, each of which goes to a half line of its own, and goes on with
// bytes, each four of which go to a line.
func packQuant(dst, src []byte, row, scales int) {
	for ; scales > 0; scales-- {
		copy(dst[2*row:2*row+2], src)
		dst, src = dst[2*PanelRows:], src[2:]
	}
	for ; len(src) > 0; dst, src = dst[4*PanelRows:], src[4:] {
		binary.LittleEndian.PutUint32(dst[4*row:], binary.LittleEndian.Uint32(src))
	}
}

// quantize quantises a row in blocks of 32: scale = max|x|/127, q = x*(127/max|x|) to nearest even. A block whose largest
// value is below 1e-35 becomes zero; one that holds an infinity or NaN gets a scale that is not finite, so that it shows.
func quantize(q []int8, scale []float32, qsum []int32, x []float32) {
	for b := range scale {
		block, out := x[b*QuantLen:][:QuantLen], q[b*QuantLen:][:QuantLen]
		var most uint32 // as bits, where NaN is above infinity
		for _, v := range block {
			most = max(most, math.Float32bits(v)&0x7fffffff)
		}
		m := math.Float32frombits(most)
		if m < 1e-35 {
			m = 0
		}
		var inverse float32
		if m > 0 && m <= math.MaxFloat32 {
			inverse = 127 / m
		}
		var sum int32
		for k, v := range block {
			out[k] = nearest(v * inverse)
			sum += int32(out[k])
		}
		scale[b], qsum[b] = m/127, sum
	}
}

// nearest rounds to nearest even; |x| is at most 127, or x is NaN, which gives 0.
func nearest(x float32) int8 {
	const shift = 3 << 22 // at this magnitude float32 has no fraction left
	if x != x {
		return 0
	}
	return int8(int32(float32(x+shift) - shift))
}
