package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The sums that kernels over lines take while they multiply, see bulkhead.Lines and bulkhead.Columns.
//
// Of K, the four lines of a turn are added to four rows, one addition a line, and the rows count when the block ends. What
// they count in stays in memory: there are few registers. Of V, the lines of a column are added to A, and A is added to B
// where a row ends: at one line of a turn of four, which one depends on the column, or at every line where a token has less
// than four pieces. Where the last turn is not whole, each column ends one row in it, so that they are as many in all.
//
// What has been added up is folded before the kernel returns, by the weights in folding: some sixteen instructions, where
// storing the lanes and multiplying them one by one took some fifty.

const (
	blockRows = 4 // bulkhead.BlockRows
	valueTurn = 4 // of bulkhead.Columns
)

// What sums a kernel takes.
const (
	sumNothing = iota
	sumKeys
	sumColumns
)

func (u *unit) endRow(k *linesKernel) { u.VPADDQ(k.sum[0], k.sum[1], k.sum[1]) }

func (u *unit) ymms(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = u.YMM()
	}
	return v
}

func (u *unit) zeros(v []reg.VecVirtual) {
	for _, r := range v {
		u.VPXOR(r, r, r)
	}
}

// beginSums clears what a whole call adds up.
func (u *unit) beginSums(args reg.Register, k *linesKernel) {
	switch k.sums {
	case sumKeys:
		k.sum = u.ymms(blockRows)
		state, zero := u.arg(args, lineFold), u.YMM()
		u.VPXOR(zero, zero, zero)
		u.VMOVDQU(zero, at(state, foldPart))
		u.VMOVDQU(zero, at(state, foldPart+32))
	case sumColumns:
		k.sum, k.total = u.ymms(2), u.ymms(3)
		u.zeros(k.total)
	}
}

// startRows begins a group.
func (u *unit) startRows(k *linesKernel) { u.zeros(k.sum) }

// endSums counts what a group added up.
func (u *unit) endSums(args reg.Register, k *linesKernel) {
	switch k.sums {
	case sumKeys:
		state := u.arg(args, lineFold)
		a, b := u.YMM(), u.YMM()
		u.VMOVDQU(at(state, foldPart), a)
		u.VMOVDQU(at(state, foldPart+32), b)
		u.countRows(k.sum, a, b)
		u.VMOVDQU(a, at(state, foldPart))
		u.VMOVDQU(b, at(state, foldPart+32))
	case sumColumns:
		u.VPADDQ(k.sum[0], k.total[0], k.total[0])
		u.VPADDQ(k.sum[1], k.total[1], k.total[1])
		u.VPADDQ(k.total[0], k.total[2], k.total[2])
	}
}

// countRows takes rows one after the other.
func (u *unit) countRows(rows []reg.VecVirtual, a, b reg.Register) {
	for _, row := range rows {
		u.VPADDQ(row, a, a)
		u.VPADDQ(a, b, b)
	}
}

// storeSums folds the totals, or hands them over where the kernel takes sums alone.
func (u *unit) storeSums(args reg.Register, k *linesKernel) {
	switch {
	case k.sums == sumKeys:
		state, ab := u.arg(args, lineFold), u.ymms(2)
		for i, v := range ab {
			u.VMOVDQU(at(state, foldPart+32*i), v)
		}
		u.fold(state, ab)
	case k.sums == sumColumns && k.n > 0:
		u.fold(u.arg(args, lineFold), k.total)
	case k.sums == sumColumns:
		state := u.arg(args, lineColumns)
		for i, v := range k.total {
			u.VMOVDQU(v, at(state, 32*i))
		}
	}
}

// fold stores the sum over all lanes of each vector times its weight, modulo 2^64. A product is that of the low halves and,
// 32 bits up, the two of a low and a high half, of which the low bits are all that counts.
func (u *unit) fold(state reg.Register, vectors []reg.VecVirtual) {
	low, cross, t := u.YMM(), u.YMM(), u.YMM()
	for i, v := range vectors {
		if i == 0 {
			u.VPMULUDQ(at(state, foldBy), v, low)
			u.VPMULLD(at(state, foldCross), v, cross)
			continue
		}
		u.VPMULUDQ(at(state, foldBy+32*i), v, t)
		u.VPADDQ(t, low, low)
		u.VPMULLD(at(state, foldCross+32*i), v, t)
		u.VPADDD(t, cross, cross)
	}
	u.VPSHUFD(U8(0b10110001), cross, t)
	u.VPADDD(t, cross, cross)
	u.VPSLLQ(U8(32), cross, cross)
	u.VPADDQ(cross, low, low)
	high, sum := u.XMM(), u.XMM()
	u.VEXTRACTI128(U8(1), low, high)
	u.VPADDQ(high, low.AsX(), sum)
	u.VPSHUFD(U8(0b01001110), sum, high)
	u.VPADDQ(high, sum, sum)
	u.VMOVQ(sum, at(state, foldSum))
}
