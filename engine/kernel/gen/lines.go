package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lines writes the kernels of attention, see linesArgs.
func (u *unit) lines() {
	tiles, direct := []int{4, 3, 2, 1}, []int{4, 3, 2, 1}
	if u.wide {
		tiles, direct = []int{8, 4, 2, 1}, []int{8, 7, 6, 5, 4, 3, 2, 1}
	}
	for _, n := range tiles {
		u.linesKernel("linesF32", n, false, false)
	}
	for _, n := range direct {
		u.linesKernel("linesF16", n, true, true)
	}
	for _, n := range direct {
		u.linesKernel("linesRaw", n, true, false)
	}
}

func (u *unit) linesKernel(name string, n int, f16, sums bool) {
	kind := "float32"
	if f16 {
		kind = "F16, without sums"
	}
	if sums {
		kind = "F16, with sums"
	}
	u.begin(fmt.Sprintf("%sx%d", name, n), "(a *linesArgs)", fmt.Sprintf("does %d rows over lines of %s.", n, kind))
	args := u.param("a")
	group, step, done := u.arg(args, lineF32), u.arg(args, lineStep), u.GP64()
	if f16 {
		u.MOVQ(at(args, lineF16), group)
	}
	u.XORQ(done, done) // bytes of a row's outputs that have been written
	var state reg.GPVirtual
	if sums {
		state = u.arg(args, lineSums)
	}

	u.Label("group")
	acc := u.startLines(args, done, n)
	var sumA, sumB reg.VecVirtual
	if sums {
		sumA, sumB = u.YMM(), u.YMM()
		u.VMOVDQU(at(state, 0), sumA)
		u.VMOVDQU(at(state, 32), sumB)
	}
	a, line, i := u.rows(args, n, lineA, lineAStride, 4), u.GP64(), u.arg(args, lineN)
	u.MOVQ(group, line)
	u.Label("line")
	u.multiplyLine(acc, a, u.loadLine(line, f16, sumA, sumB))
	u.advance(a, U8(4))
	u.ADDQ(step, line)
	u.DECQ(i)
	u.JNZ(LabelRef("line"))
	if sums {
		u.VMOVDQU(sumA, at(state, 0))
		u.VMOVDQU(sumB, at(state, 32))
		u.ADDQ(at(args, lineSumStep), state)
	}
	u.endLines(args, done, acc)
	u.ADDQ(at(args, lineGroupStep), group)
	left := u.arg(args, lineGroups)
	u.SHLQ(U8(6), left)
	u.CMPQ(done, left)
	u.JLT(LabelRef("group"))
	u.end()
}

// endLines stores the sums of a group.
func (u *unit) endLines(args reg.Register, done reg.GPVirtual, acc []pair) {
	out := u.rows(args, len(acc), lineOut, lineOutStride, 4)
	u.advance(out, done)
	for r := range acc {
		for h, v := range acc[r] {
			u.VMOVUPS(v, out.at(r, h*u.width))
		}
	}
	u.ADDQ(U8(64), done)
}

// startLines gives the sums of a group what they start from.
func (u *unit) startLines(args reg.Register, done reg.GPVirtual, n int) []pair {
	acc := u.pairs(n)
	for _, p := range acc {
		u.clear(p)
	}
	u.CMPQ(at(args, lineAdd), U8(0))
	u.JE(LabelRef("started"))
	out := u.rows(args, n, lineOut, lineOutStride, 4)
	u.advance(out, done)
	for r, p := range acc {
		for h, v := range p {
			u.VMOVUPS(out.at(r, h*u.width), v)
		}
	}
	u.Label("started")
	return acc
}

// loadLine loads a line as float32. Where sums are taken, it is loaded once: what is added up is the register that is
// widened, so that nothing can come between.
func (u *unit) loadLine(line reg.GPVirtual, f16 bool, sumA, sumB reg.VecVirtual) pair {
	v := u.pair()
	switch {
	case sumA != nil:
		whole := u.YMM()
		u.VMOVDQU(at(line, 0), whole)
		u.addLine(whole, sumA, sumB)
		u.widenLine(whole, v)
	case f16:
		for h := range v {
			u.VCVTPH2PS(at(line, h*u.width/2), v[h])
		}
	default:
		for h := range v {
			u.VMOVUPS(at(line, h*u.width), v[h])
		}
	}
	return v
}

func (u *unit) addLine(line, sumA, sumB reg.VecVirtual) {
	u.VPADDQ(line, sumA, sumA)
	u.VPADDQ(sumA, sumB, sumB)
}

func (u *unit) widenLine(line reg.VecVirtual, v pair) {
	if u.wide {
		u.VCVTPH2PS(line, v[0])
		return
	}
	hi := u.XMM()
	u.VEXTRACTI128(U8(1), line, hi)
	u.VCVTPH2PS(line.AsX(), v[0])
	u.VCVTPH2PS(hi, v[1])
}

// multiplyLine multiplies a line by one value of every row.
func (u *unit) multiplyLine(acc []pair, a rows, v pair) {
	for r := range acc {
		m := u.reg()
		u.VBROADCASTSS(a.at(r, 0), m)
		for h := range v {
			u.VFMADD231PS(v[h], m, acc[r][h])
		}
	}
}
