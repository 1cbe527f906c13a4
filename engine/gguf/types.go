package gguf

import "strconv"

// Type is the type of a tensor's elements, by the number that ggml gives it.
type Type uint32

// The types that this project computes with. The reader knows the size of every other one too.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
	BF16 Type = 30
)

// block is how elements of a type are stored: n of them in so many bytes.
type block struct {
	name     string
	n, bytes int
}

// blocks are ggml's types, as ggml.c and ggml-common.h define them.
var blocks = map[Type]block{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20},
	6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24}, Q8_0: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144}, 13: {"Q5_K", 256, 176},
	14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110},
	22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2},
	26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8}, 29: {"IQ1_M", 256, 56},
	BF16: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
}

func (t Type) String() string {
	if b, ok := blocks[t]; ok {
		return b.name
	}
	return "type " + strconv.FormatUint(uint64(t), 10)
}

// RowBytes is the size of a row of n elements; ok is false where the type is unknown or n is not whole blocks.
func (t Type) RowBytes(n int) (size int, ok bool) {
	b, ok := blocks[t]
	if !ok || n%b.n != 0 {
		return 0, false
	}
	return mul(n/b.n, b.bytes)
}

// mul multiplies two numbers that are not negative; ok is false where the product does not fit an int.
func mul(a, b int) (product int, ok bool) {
	const maxInt = int(^uint(0) >> 1)
	if a != 0 && b > maxInt/a {
		return 0, false
	}
	return a * b, true
}
