package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

// target is a type that matrices can be converted to: one row of the table below.
type target struct {
	fileType uint32 // what general.file_type says of a file of it (llama.h: llama_ftype)
	blockLen int
	block    func(dst []byte, x []float32) []byte // appends one block
}

// targets are defined as the reference does it (ggml-quants.c: quantize_row_*_ref), so that files are the same.
var targets = map[gguf.Type]target{
	gguf.F32:  {0, 1, f32},
	gguf.F16:  {1, 1, f16},
	gguf.BF16: {32, 1, bf16},
	gguf.Q8_0: {7, 32, q8_0},
	gguf.Q4_0: {2, 32, q4_0},
	gguf.Q4_1: {3, 32, q4_1},
}

// Quantize encodes values in a type. It panics where they are not whole blocks of a type that it knows.
func Quantize(to gguf.Type, x []float32) []byte {
	size, ok := to.RowBytes(len(x))
	if _, known := targets[to]; !known || !ok {
		panic(fmt.Sprintf("convert: %d values to %v", len(x), to))
	}
	return appendRow(make([]byte, 0, size), to, x)
}

func appendRow(dst []byte, to gguf.Type, x []float32) []byte {
	t := targets[to]
	for ; len(x) > 0; x = x[t.blockLen:] {
		dst = t.block(dst, x[:t.blockLen])
	}
	return dst
}

var le = binary.LittleEndian

func f32(dst []byte, x []float32) []byte { return le.AppendUint32(dst, math.Float32bits(x[0])) }

func f16(dst []byte, x []float32) []byte { return appendF16(dst, x[0]) }

// bf16 is the upper half of a float32, to nearest even.
func bf16(dst []byte, x []float32) []byte {
	b := math.Float32bits(x[0])
	if x[0] != x[0] {
		return le.AppendUint16(dst, uint16(b>>16)|64)
	}
	return le.AppendUint16(dst, uint16((b+0x7fff+b>>16&1)>>16))
}

func q8_0(dst []byte, x []float32) []byte {
	var most float32
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	d := most / 127
	dst = appendF16(dst, d)
	inverse := inverse(d)
	for _, v := range x {
		dst = append(dst, byte(int8(math.Round(float64(v*inverse))))) // halves away from zero
	}
	return dst
}

func q4_0(dst []byte, x []float32) []byte {
	var most, signed float32
	for _, v := range x {
		if a := float32(math.Abs(float64(v))); a > most {
			most, signed = a, v
		}
	}
	d := signed / -8
	dst = appendF16(dst, d)
	inverse := inverse(d)
	nibble := func(v float32) byte { return byte(min(15, int8(float32(v*inverse)+8.5))) }
	return appendNibbles(dst, x, nibble)
}

func q4_1(dst []byte, x []float32) []byte {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	d := (hi - lo) / 15
	dst = appendF16(appendF16(dst, d), lo)
	inverse := inverse(d)
	nibble := func(v float32) byte { return byte(min(15, int8(float32((v-lo)*inverse)+0.5))) }
	return appendNibbles(dst, x, nibble)
}

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// appendNibbles puts values i and i+16 into byte i.
func appendNibbles(dst []byte, x []float32, nibble func(float32) byte) []byte {
	for i := range 16 {
		dst = append(dst, nibble(x[i])|nibble(x[i+16])<<4)
	}
	return dst
}

// appendF16 narrows to F16, to nearest even.
func appendF16(dst []byte, f float32) []byte {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return le.AppendUint16(dst, sign|0x7e00)
	case b >= 0x477ff000: // rounds to 65536 or more
		return le.AppendUint16(dst, sign|0x7c00)
	case b < 0x38800000: // a multiple of 2^-24
		n := math.RoundToEven(float64(math.Float32frombits(b)) * (1 << 24))
		return le.AppendUint16(dst, sign|uint16(n))
	}
	return le.AppendUint16(dst, sign|uint16((b-112<<23+0xfff+b>>13&1)>>13)) // a carry makes the right exponent
}
