package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ahead is how far weights are fetched ahead of their use.
const ahead = 2048

func (u *unit) multiply() {
	tiles := []int{4, 2, 1}
	if u.wide {
		tiles = []int{8, 4, 2, 1}
	}
	for _, n := range tiles {
		for _, f := range []floatType{
			{"F32", 64, func(m Mem, dst reg.Register) { u.VMOVUPS(m, dst) }, 4},
			{"F16", 32, func(m Mem, dst reg.Register) { u.VCVTPH2PS(m, dst) }, 2},
			{"BF16", 32, func(m Mem, dst reg.Register) { u.VPMOVZXWD(m, dst); u.VPSLLD(U8(16), dst, dst) }, 2},
		} {
			u.mulFloat(f, n)
		}
		u.mulQuant(quantType{name: "Q8_0", scales: 32, lines: 8}, n)
		u.mulQuant(quantType{name: "Q4_0", scales: 32, lines: 4, nibbles: true}, n)
		u.mulQuant(quantType{name: "Q4_1", scales: 64, lines: 4, nibbles: true, minimum: true}, n)
	}
}

type floatType struct {
	name string
	line int // bytes of a column of 16 rows
	load func(m Mem, dst reg.Register)
	size int // bytes of a value
}

// mulFloat multiplies n rows by panels of a float weight. A single row takes four panels at once: the sums of one panel
// alone would wait for one another.
func (u *unit) mulFloat(f floatType, n int) {
	u.begin(fmt.Sprintf("mul%sx%d", f.name, n), "(a *mulArgs)", fmt.Sprintf("multiplies %d rows by panels of %s.", n, f.name))
	args := u.param("a")
	w, done := u.arg(args, mulW), u.GP64()
	u.XORQ(done, done)
	if n == 1 {
		panel, three := u.arg(args, mulPanelBytes), u.GP64()
		u.LEAQ(Mem{Base: panel, Index: panel, Scale: 2}, three)
		u.floatPanels(f, args, n, done, rows{base: []reg.GPVirtual{w}, stride: panel, three: three, n: 4})
	}
	u.floatPanels(f, args, n, done, rows{base: []reg.GPVirtual{w}, n: 1})
	u.end()
}

// floatPanels does as many of the panels as there are, from.n at once. from tells where they lie, done how many outputs
// of a row have been written, in bytes.
func (u *unit) floatPanels(f floatType, args reg.Register, n int, done reg.GPVirtual, from rows) {
	label := fmt.Sprintf("panels%d", from.n)
	u.Label(label)
	u.jumpIfFew(args, done, from.n, label+"end")
	acc := make([][]pair, n)
	for r := range acc {
		acc[r] = u.pairs(from.n)
		for _, p := range acc[r] {
			u.clear(p)
		}
	}
	k, x := u.arg(args, mulCols), u.rows(args, n, mulX, mulCols, 4)
	u.Label(label + "column")
	u.floatColumn(f, acc, x, from)
	u.advance(x, U8(4))
	u.ADDQ(U8(f.line), from.base[0])
	u.DECQ(k)
	u.JNZ(LabelRef(label + "column"))
	out := u.rows(args, n, mulDst, mulStride, 4)
	u.advance(out, done)
	for r := range acc {
		for p := range acc[r] {
			for h, v := range acc[r][p] {
				u.VMOVUPS(v, out.at(r, p*64+h*u.width))
			}
		}
	}
	u.ADDQ(U32(64*from.n), done)
	if from.n > 1 { // the pointer has gone through the first panel
		u.ADDQ(from.three, from.base[0])
	}
	u.JMP(LabelRef(label))
	u.Label(label + "end")
}

// jumpIfFew jumps where fewer than n panels are left.
func (u *unit) jumpIfFew(args reg.Register, done reg.GPVirtual, n int, label string) {
	left := u.arg(args, mulPanels)
	u.SHLQ(U8(6), left)
	u.SUBQ(done, left)
	u.CMPQ(left, U32(64*n))
	u.JLT(LabelRef(label))
}

// floatColumn adds one column of the panels to the sums.
func (u *unit) floatColumn(f floatType, acc [][]pair, x, from rows) {
	if len(acc) == 1 {
		xv := u.reg()
		u.VBROADCASTSS(x.at(0, 0), xv)
		for p := range from.n {
			u.PREFETCHT0(from.at(p, ahead/2))
			for h := range u.regs {
				wv := u.reg()
				f.load(from.at(p, h*f.line/u.regs), wv)
				u.VFMADD231PS(wv, xv, acc[0][p][h])
			}
		}
		return
	}
	u.PREFETCHT0(from.at(0, ahead))
	wv := u.pair()
	for h := range wv {
		f.load(from.at(0, h*f.line/u.regs), wv[h])
	}
	for r := range acc {
		xv := u.reg()
		u.VBROADCASTSS(x.at(r, 0), xv)
		for h := range wv {
			u.VFMADD231PS(wv[h], xv, acc[r][0][h])
		}
	}
}
