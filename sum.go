package bulkhead

import (
	"encoding/binary"
	"math/bits"
)

// Sum is a 64-bit sum of what a page holds in one layer's K or V. Every byte counts with a weight of its place, so a changed
// bit, a swapped pair of slots, blocks or heads, and bytes that were never written all change it.
//
// Bytes are read as lines of 32 bytes, a line as four little-endian 64-bit lanes. Lines of head h count in rows. A line of K,
// one dimension of 16 tokens, counts in row 4*block + dimension%4, together with every fourth line of its block. A line of V,
// piece g of the G pieces of 16 dimensions that a token has, counts in row G*r + g. There r is the token's slot where there
// are less than four pieces, and else (slot+3-g%4)/4 rounded down: four tokens share a row, and pieces beside one another
// change rows at different tokens. A line in row i with lanes L[0..3] counts, all modulo 2^64,
//
//	headWeight(h) * sum over lanes j of L[j] * (a[j] + i*b[j])
//
// with a[j] and headWeight odd and b[j] even, and to the whole is added the number of filled tokens times an odd constant,
// so that a page that nobody wrote does not sum to what a fresh seal says.
//
//   - The weight of every lane is odd, so any change that is confined to one lane of one line (any flipped bit) is
//     detected with certainty.
//   - Other damage passes with a chance of about 2^-63 where its bits are independent of the weights: bytes of another page,
//     head, block or slot, old or never written ones, noise. No two slots of a page count alike, nor two blocks, heads or
//     pieces of V. Tokens of a block of K are told apart by lane and shift, whatever lines are added up; tokens beside one
//     another in V by a quarter of their pieces or more.
//   - Two flipped bits cancel where they are the top bits of two lanes, whatever lanes these are, or one bit of two lines in
//     one row that flipped opposite ways. Of pairs of flips anywhere in a layer's K or V that is about one in 3,000.
//   - What moves lines within a row and nothing else passes with certainty: dimensions of K that trade places for all 16
//     tokens of a block, 4, 8, 12 ... apart, or single pieces of V that do so between tokens less than four apart. These are
//     half cache lines that go to certain others in step; nothing that copies, transfers or frees works in such units. It is
//     what lets a kernel read K and V for little more than one addition a line.
//
// It is no defence against somebody who can write to the pool and solve for the sum; nothing that shares the memory is.
//
// The sum is linear. So a kernel takes it by adding up lines in rows, and rows as Fletcher's sum does, and it is extended as tokens are appended, from the
// values that are written and never from what memory holds: a slot that was damaged before the append stays wrong.
type Sum uint64

// BlockRows is how many rows the lines of a block of K are added up in.
const BlockRows = 4

// valueTurn is how many tokens of V share a row, where a token has as many pieces.
const valueTurn = 4

// valueRow is r in the definition.
func valueRow(slot, piece, pieces int) int {
	if pieces < valueTurn {
		return slot
	}
	return (slot + valueTurn - 1 - piece%valueTurn) / valueTurn
}

// valueRows is how many rows the first n tokens begin, but for those that the next tokens go on with.
func valueRows(n, pieces int) int {
	if pieces < valueTurn {
		return n
	}
	return (n + valueTurn - 1) / valueTurn
}

// Weights of the lanes: fractional digits of pi, a made odd and b even.
const (
	a0, a1, a2, a3 = 0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1, 0x082efa98ec4e6c89
	b0, b1, b2, b3 = 0x452821e638d01376, 0xbe5466cf34e90c6c, 0xc0ac29b7c97c50dc, 0x3f84d5b5b5470916
)

var (
	sumA = [4]uint64{a0, a1, a2, a3}
	sumB = [4]uint64{b0, b1, b2, b3}
)

const (
	sumHead   = 0x9e3779b97f4a7c15 // odd; times an odd number stays odd
	sumFilled = 0xd1310ba698dfb5ad // odd
)

// HeadWeight is the odd weight with which head h counts.
func HeadWeight(h int) uint64 { return sumHead * uint64(2*h+1) }

// FilledTerm is what the number of filled tokens adds to a sum.
func FilledTerm(filled int) Sum { return Sum(uint64(filled) * sumFilled) }

// Lines is the running state of a sum over consecutive rows of one head: A = sum of rows, B = sum over rows of how often A
// was added, as Fletcher's. Kernels keep it in two vector registers.
type Lines struct {
	A, B [4]uint64
	N    int // rows taken
}

// Add takes whole lines, each as a row.
func (s *Lines) Add(data []byte) {
	for ; len(data) >= LineBytes; data = data[LineBytes:] {
		var row [4]uint64
		addLine(&row, data)
		s.addRow(&row)
	}
}

// AddBlock takes a whole block of K.
func (s *Lines) AddBlock(block []byte) {
	var rows [BlockRows][4]uint64
	for d := range len(block) / LineBytes {
		addLine(&rows[d%BlockRows], block[d*LineBytes:])
	}
	for i := range rows {
		s.addRow(&rows[i])
	}
}

func addLine(row *[4]uint64, line []byte) {
	for j := range row {
		row[j] += binary.LittleEndian.Uint64(line[8*j:])
	}
}

func (s *Lines) addRow(row *[4]uint64) {
	for j := range row {
		s.A[j] += row[j]
		s.B[j] += s.A[j]
	}
	s.N++
}

// Fold is what the rows count in the sum of head h, where they are the rows from first on. B holds row i of them with weight
// N-i, so i times row i is N*A - B.
func (s *Lines) Fold(h, first int) Sum {
	a, b, n := &s.A, &s.B, uint64(first+s.N)
	t := a[0]*a0 + (n*a[0]-b[0])*b0
	t += a[1]*a1 + (n*a[1]-b[1])*b1
	t += a[2]*a2 + (n*a[2]-b[2])*b2
	t += a[3]*a3 + (n*a[3]-b[3])*b3
	return Sum(t * HeadWeight(h))
}

// LinesWeights is Fold for kernels that multiply vectors: it is the sum over all lanes of A*a + B*b, where first and N are n
// together.
func LinesWeights(h, n int) (a, b [4]uint64) {
	head := HeadWeight(h)
	for j := range a {
		a[j], b[j] = (sumA[j]+uint64(n)*sumB[j])*head, -sumB[j]*head
	}
	return a, b
}

// Columns is the state of a sum over tokens of V that a kernel reads column by column; a column is one piece of all tokens.
// A adds up the lines, C adds up A after each column, and B adds up what a column has so far wherever a row of it ends: a line
// in row r of F is in it F-r times. F is the number of tokens, or of turns of four begun where four share a row.
type Columns struct{ A, B, C [4]uint64 }

// Add takes the tokens of one read, whole, of so many pieces each.
func (s *Columns) Add(data []byte, pieces int) {
	n := len(data) / (pieces * LineBytes)
	rows := valueRows(n, pieces)
	for g := range pieces {
		for t := range n {
			var line [4]uint64
			addLine(&line, data[(t*pieces+g)*LineBytes:])
			for j, v := range line {
				s.A[j] += v
				s.B[j] += v * uint64(rows-valueRow(t, g, pieces))
			}
		}
		for j := range s.C {
			s.C[j] += s.A[j]
		}
	}
}

// Fold is what n tokens of so many pieces count in the sum of head h, where they are the tokens from first on, a multiple of
// four. r times a line is F*A - B of its column, and g times its column's A is pieces*A - C.
func (s *Columns) Fold(h, pieces, first, n int) Sum {
	a, b, c := &s.A, &s.B, &s.C
	g, all := uint64(pieces), uint64(pieces*(valueRows(first+n, pieces)+1))
	t := a[0]*a0 + (all*a[0]-g*b[0]-c[0])*b0
	t += a[1]*a1 + (all*a[1]-g*b[1]-c[1])*b1
	t += a[2]*a2 + (all*a[2]-g*b[2]-c[2])*b2
	t += a[3]*a3 + (all*a[3]-g*b[3]-c[3])*b3
	return Sum(t * HeadWeight(h))
}

// ColumnsWeights is Fold for kernels that multiply vectors: it is the sum over all lanes of A*a + B*b + C*c, where first and
// the tokens are n together.
func ColumnsWeights(h, pieces, n int) (a, b, c [4]uint64) {
	head, all := HeadWeight(h), uint64(pieces*(valueRows(n, pieces)+1))
	for j := range a {
		a[j], b[j], c[j] = (sumA[j]+all*sumB[j])*head, -uint64(pieces)*sumB[j]*head, -sumB[j]*head
	}
	return a, b, c
}

// SumK is the sum of the filled blocks of one layer's K, by the definition. It is what kernels are tested against.
func (l Layout) SumK(page []byte, layer, filled int) Sum {
	sum := FilledTerm(filled)
	n, block := roundUp(filled, BlockTokens)*l.HeadSize*2, l.HeadSize*LineBytes
	for h := range l.KVHeads {
		var s Lines
		for data := page[l.KOffset(layer, h):][:n]; len(data) > 0; data = data[block:] {
			s.AddBlock(data[:block])
		}
		sum += s.Fold(h, 0)
	}
	return sum
}

// SumV is the sum of the filled slots of one layer's V, by the definition.
func (l Layout) SumV(page []byte, layer, filled int) Sum {
	sum := FilledTerm(filled)
	pieces := l.HeadStride() * 2 / LineBytes
	for h := range l.KVHeads {
		off := l.VOffset(layer, h)
		for slot := range filled {
			for g := range pieces {
				var line [4]uint64
				addLine(&line, page[off+(slot*pieces+g)*LineBytes:])
				row := uint64(pieces*valueRow(slot, g, pieces) + g)
				for j, v := range line {
					sum += Sum(v * (sumA[j] + row*sumB[j]) * HeadWeight(h))
				}
			}
		}
	}
	return sum
}

// AppendedK is what the K of one head of the token in slot adds to the sum: values are the F16 bit patterns of its
// HeadSize dimensions.
func (l Layout) AppendedK(head, slot int, values []uint16) Sum {
	first := uint64(slot / BlockTokens * BlockRows)
	var plain, placed uint64
	for d, v := range values {
		plain += uint64(v)
		placed += uint64(v) * (first + uint64(d%BlockRows))
	}
	lane, shift := slot%BlockTokens/4, 16*(slot%4)
	return Sum((plain*sumA[lane] + placed*sumB[lane]) << shift * HeadWeight(head))
}

// AppendedV is what the V of one head of the token in slot adds to the sum.
func (l Layout) AppendedV(head, slot int, values []uint16) Sum {
	pieces := l.HeadStride() * 2 / LineBytes
	var t uint64
	for d, v := range values {
		g, lane, shift := d/16, d%16/4, 16*(d%4)
		t += uint64(v) << shift * (sumA[lane] + uint64(pieces*valueRow(slot, g, pieces)+g)*sumB[lane])
	}
	return Sum(t * HeadWeight(head))
}

// WrittenV is the same of sums over the token's pieces: of all, of those with piece%4 less than slot%4, and of all times
// their piece.
func (l Layout) WrittenV(head, slot int, all, early, placed [4]uint64) Sum {
	pieces := l.HeadStride() * 2 / LineBytes
	row, t := uint64(slot), uint64(0)
	if pieces >= valueTurn {
		row = uint64(slot / valueTurn)
	} else {
		early = [4]uint64{}
	}
	for j := range all {
		t += all[j]*sumA[j] + (uint64(pieces)*(row*all[j]+early[j])+placed[j])*sumB[j]
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
