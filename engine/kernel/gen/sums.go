package main

import "github.com/mmcloughlin/avo/reg"

// The sums that kernels over lines take while they multiply, see bulkhead.Lines and bulkhead.Columns.
//
// Of K, the four lines of a turn are added to four rows, one addition a line, and the rows count when the block ends. What
// they count in stays in memory: there are few registers. Of V, the lines of a column are added to A, and A is added to B
// where a row ends: at one line of a turn of four, which one depends on the column, or at every line where a token has less
// than four pieces. Where the last turn is not whole, each column ends one row in it, so that they are as many in all.

const (
	blockRows = 4 // bulkhead.BlockRows
	valueTurn = 4 // of bulkhead.Columns
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
	case lineKeys:
		k.sum = u.ymms(blockRows)
		state, zero := u.arg(args, lineKeys), u.YMM()
		u.VPXOR(zero, zero, zero)
		u.VMOVDQU(zero, at(state, 0))
		u.VMOVDQU(zero, at(state, 32))
	case lineColumns:
		k.sum, k.total = u.ymms(2), u.ymms(3)
		u.zeros(k.total)
	}
}

// startRows begins a group.
func (u *unit) startRows(k *linesKernel) { u.zeros(k.sum) }

// endSums counts what a group added up.
func (u *unit) endSums(args reg.Register, k *linesKernel) {
	switch k.sums {
	case lineKeys:
		state := u.arg(args, lineKeys)
		a, b := u.YMM(), u.YMM()
		u.VMOVDQU(at(state, 0), a)
		u.VMOVDQU(at(state, 32), b)
		u.countRows(k.sum, a, b)
		u.VMOVDQU(a, at(state, 0))
		u.VMOVDQU(b, at(state, 32))
	case lineColumns:
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

// storeSums hands the totals over.
func (u *unit) storeSums(args reg.Register, k *linesKernel) {
	if k.sums != lineColumns {
		return
	}
	state := u.arg(args, lineColumns)
	for i, v := range k.total {
		u.VMOVDQU(v, at(state, 32*i))
	}
}
