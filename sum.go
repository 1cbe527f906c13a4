package bulkhead

import (
	"encoding/binary"
	"math/bits"
)

// Sum is a 64-bit sum of what a page holds in one layer's K or V. Every byte counts with a weight of its own place, so a
// changed bit, a swapped pair of slots, blocks or heads, and bytes that were never written all change it.
//
// Bytes are read as lines of 32 bytes, a line as four little-endian 64-bit lanes. Line i (from 0) of head h with lanes
// L[i][0..3] counts, all modulo 2^64,
//
//	headWeight(h) * sum over lanes j of L[i][j] * (a[j] + i*b[j])
//
// with a[j] and headWeight odd and b[j] even, and to the whole is added the number of filled tokens times an odd constant,
// so that a page that nobody wrote does not sum to what a fresh seal says.
//
//   - The weight of every lane is odd, so any change that is confined to one lane of one line (any flipped bit) is
//     detected with certainty.
//   - Other damage passes with a chance of about 2^-63 where its bits are independent of the weights. It is no defence
//     against somebody who can write to the pool and solve for the sum; nothing that shares the memory is.
//
// The sum is linear. So a kernel takes it with two vector additions a line (A += L; B += A, as Fletcher's), and it is
// extended as tokens are appended, from the values that are written and never from what memory holds: a slot that was
// damaged before the append stays wrong.
type Sum uint64

// Weights of the lanes: fractional digits of pi, a made odd and b even.
var (
	sumA = [4]uint64{0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1, 0x082efa98ec4e6c89}
	sumB = [4]uint64{0x452821e638d01376, 0xbe5466cf34e90c6c, 0xc0ac29b7c97c50dc, 0x3f84d5b5b5470916}
)

const (
	sumHead   = 0x9e3779b97f4a7c15 // odd; times an odd number stays odd
	sumFilled = 0xd1310ba698dfb5ad // odd
)

// HeadWeight is the odd weight with which head h counts.
func HeadWeight(h int) uint64 { return sumHead * uint64(2*h+1) }

// FilledTerm is what the number of filled tokens adds to a sum.
func FilledTerm(filled int) Sum { return Sum(uint64(filled) * sumFilled) }

// Lines is the running state of a sum over consecutive lines of one head: A = sum of lines, B = sum over lines of how
// often A was added. Kernels keep it in two vector registers.
type Lines struct {
	A, B [4]uint64
	N    int // lines taken
}

// Add takes whole lines.
func (s *Lines) Add(data []byte) {
	for ; len(data) >= LineBytes; data = data[LineBytes:] {
		for j := range 4 {
			s.A[j] += binary.LittleEndian.Uint64(data[8*j:])
			s.B[j] += s.A[j]
		}
		s.N++
	}
}

// Fold is what the lines count in the sum of head h. B holds line i with weight N-i, so i times line i is N*A - B.
func (s *Lines) Fold(h int) Sum {
	var t uint64
	for j := range 4 {
		t += s.A[j]*sumA[j] + (uint64(s.N)*s.A[j]-s.B[j])*sumB[j]
	}
	return Sum(t * HeadWeight(h))
}

// FoldGroups is what n*len(groups) lines count in the sum of head h, where groups[g] took every len(groups)-th line from
// line g on, n of each, as kernels do whose lines are columns. Line t of group g is line t*G+g of the whole, so i in the
// definition is G*t + g, and t times line t is n*A - B of the group, as in Fold. The groups' own N is not looked at.
func FoldGroups(groups []Lines, n, h int) Sum {
	var t uint64
	count := uint64(len(groups))
	for j := range 4 {
		var a, later, b uint64 // of all groups: A, g times A, and B
		for g := range groups {
			a += groups[g].A[j]
			later += uint64(g) * groups[g].A[j]
			b += groups[g].B[j]
		}
		t += a*sumA[j] + (count*(uint64(n)*a-b)+later)*sumB[j]
	}
	return Sum(t * HeadWeight(h))
}

// SumK is the sum of the filled blocks of one layer's K, by the definition. It is what kernels are tested against.
func (l Layout) SumK(page []byte, layer, filled int) Sum {
	sum := FilledTerm(filled)
	n := roundUp(filled, BlockTokens) * l.HeadSize * 2
	for h := range l.KVHeads {
		var s Lines
		off := l.KOffset(layer, h)
		s.Add(page[off : off+n])
		sum += s.Fold(h)
	}
	return sum
}

// SumV is the sum of the filled slots of one layer's V, by the definition.
func (l Layout) SumV(page []byte, layer, filled int) Sum {
	sum := FilledTerm(filled)
	n := filled * l.HeadStride() * 2
	for h := range l.KVHeads {
		var s Lines
		off := l.VOffset(layer, h)
		s.Add(page[off : off+n])
		sum += s.Fold(h)
	}
	return sum
}

// AppendedK is what the K of one head of the token in slot adds to the sum: values are the F16 bit patterns of its
// HeadSize dimensions.
func (l Layout) AppendedK(head, slot int, values []uint16) Sum {
	first := uint64(slot / BlockTokens * l.HeadSize)
	var plain, placed uint64
	for d, v := range values {
		plain += uint64(v)
		placed += uint64(v) * (first + uint64(d))
	}
	lane, shift := slot%BlockTokens/4, 16*(slot%4)
	return Sum((plain*sumA[lane] + placed*sumB[lane]) << shift * HeadWeight(head))
}

// AppendedV is what the V of one head of the token in slot adds to the sum.
func (l Layout) AppendedV(head, slot int, values []uint16) Sum {
	first := uint64(slot * l.HeadStride() * 2 / LineBytes)
	var t uint64
	for d, v := range values {
		lane, shift := d%16/4, 16*(d%4)
		t += uint64(v) << shift * (sumA[lane] + (first+uint64(d/16))*sumB[lane])
	}
	return Sum(t * HeadWeight(head))
}

// String shows the sum as logs and errors do.
func (s Sum) String() string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[bits.RotateLeft64(uint64(s), 4*(i+1))&15]
	}
	return string(b[:])
}
