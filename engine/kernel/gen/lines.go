package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lines writes the kernels of attention, see linesArgs.
func (u *unit) lines() {
	tiles, direct := []int{6, 4, 3, 2, 1}, []int{4, 3, 2, 1}
	if u.wide {
		tiles, direct = []int{8, 4, 2, 1}, []int{8, 7, 6, 5, 4, 3, 2, 1}
	}
	for _, n := range tiles {
		u.linesFunc("linesF32", "float32", linesKernel{n: n})
	}
	for _, n := range direct {
		u.linesFunc("linesKeys", "F16, with sums of blocks of K", linesKernel{n: n, f16: true, sums: sumKeys, phase: -1})
	}
	for _, n := range append([]int{0}, direct...) {
		u.linesFunc("linesValues", "F16, with sums of columns of V", linesKernel{n: n, f16: true, sums: sumColumns})
	}
	for _, n := range direct {
		u.linesFunc("linesRaw", "F16, without sums", linesKernel{n: n, f16: true})
	}
}

// linesKernel is what a kernel over lines is made of.
type linesKernel struct {
	n           int // rows
	f16         bool
	sums        int           // sumKeys, sumColumns, or 0 where no sums are taken
	group, done reg.GPVirtual // place of the group's lines; bytes of a row's outputs that have been written
	fetch       reg.GPVirtual // what is fetched meanwhile
	phase       int           // of a column: the line of a turn at which its rows end; valueTurn where every line is one
	sum         []reg.VecVirtual
	total       []reg.VecVirtual
	acc         []pair
	a, step     rows // multiplicands; the next lines
}

func (u *unit) linesFunc(name, kind string, k linesKernel) {
	u.begin(fmt.Sprintf("%sx%d", name, k.n), "(a *linesArgs)", fmt.Sprintf("does %d rows over lines of %s.", k.n, kind))
	args := u.param("a")
	k.group, k.done = u.arg(args, lineF32), u.GP64()
	k.step = rows{stride: u.arg(args, lineStep), three: u.GP64(), n: 4}
	u.LEAQ(Mem{Base: k.step.stride, Index: k.step.stride, Scale: 2}, k.step.three)
	if k.f16 {
		u.MOVQ(at(args, lineF16), k.group)
		k.fetch = u.arg(args, lineFetch)
	}
	u.XORQ(k.done, k.done)
	u.beginSums(args, &k)

	u.Label("group")
	u.startLines(args, &k)
	u.startRows(&k)
	k.a = u.rows(args, k.n, lineA, lineAStride, 4)
	line, left := u.GP64(), u.arg(args, lineN)
	u.MOVQ(k.group, line)
	k.step.base = []reg.GPVirtual{line}
	switch k.sums {
	case sumKeys:
		u.linesLoop(&k, left, 4)
		u.lastLines(&k, left)
	case sumColumns:
		u.columnLines(args, &k, left)
	default:
		u.linesLoop(&k, left, 4)
		u.linesLoop(&k, left, 1)
	}
	u.endSums(args, &k)
	u.endLines(args, &k)
	u.ADDQ(at(args, lineGroupStep), k.group)
	groups := u.arg(args, lineGroups)
	u.SHLQ(U8(6), groups)
	u.CMPQ(k.done, groups)
	u.JLT(LabelRef("group"))
	u.storeSums(args, &k)
	u.end()
}

// linesLoop takes lines, some in each turn, while there are as many left. Several in a turn make the loop short enough for
// its end to be predicted.
func (u *unit) linesLoop(k *linesKernel, left reg.GPVirtual, some int) {
	label := fmt.Sprintf("lines%d%s", some, k.phaseLabel())
	u.SUBQ(U8(some), left)
	u.JLT(LabelRef(label + "end"))
	u.Label(label)
	if k.f16 {
		for i := 0; i < some; i += 2 {
			u.PREFETCHT0(at(k.fetch, i*32))
		}
		u.ADDQ(U8(32*some), k.fetch)
	}
	for i := range some {
		u.oneLine(k, i)
	}
	u.advance(k.a, U8(4*some))
	u.LEAQ(map[int]Mem{1: k.step.at(1, 0), 4: {Base: k.step.base[0], Index: k.step.stride, Scale: 4}}[some], k.step.base[0])
	u.SUBQ(U8(some), left)
	u.JGE(LabelRef(label))
	u.Label(label + "end")
	u.ADDQ(U8(some), left)
}

// lastLines takes up to three lines, each in the row of the sum that its place in a turn of four gives it.
func (u *unit) lastLines(k *linesKernel, left reg.GPVirtual) {
	for i := range 3 {
		u.CMPQ(left, U8(i+1))
		u.JLT(LabelRef(fmt.Sprintf("last%d%s", i, k.phaseLabel())))
		if i == 0 {
			u.PREFETCHT0(at(k.fetch, 0))
		}
		u.ADDQ(U8(32), k.fetch)
		u.oneLine(k, i)
	}
	for i := 3; i > 0; i-- { // the ends of turns of i lines
		if i < 3 {
			u.Label(fmt.Sprintf("last%d%s", i, k.phaseLabel()))
		}
		if k.phase >= i && k.phase < valueTurn { // no row has ended in it
			u.endRow(k)
		}
		if i > 1 {
			u.JMP(LabelRef("last0" + k.phaseLabel()))
		}
	}
	u.Label("last0" + k.phaseLabel())
}

// columnLines takes a column's lines. Where its rows end is written into the loop, of which there is one for each phase.
func (u *unit) columnLines(args reg.Register, k *linesKernel, left reg.GPVirtual) {
	u.CMPQ(at(args, lineGroups), U8(valueTurn))
	u.JLT(LabelRef(fmt.Sprint("phase", valueTurn)))
	phase := u.GP64()
	u.MOVQ(k.done, phase)
	u.SHRQ(U8(6), phase)
	u.ANDQ(U8(valueTurn-1), phase)
	for p := 1; p < valueTurn; p++ {
		u.CMPQ(phase, U8(p))
		u.JEQ(LabelRef(fmt.Sprint("phase", p)))
	}
	first, base := k.a, k.step.base
	for p := range valueTurn + 1 {
		u.Label(fmt.Sprint("phase", p))
		k.phase, k.a, k.step.base = p, first, base
		u.linesLoop(k, left, 4)
		u.lastLines(k, left)
		if p < valueTurn {
			u.JMP(LabelRef("phaseend"))
		}
	}
	u.Label("phaseend")
}

func (k *linesKernel) phaseLabel() string {
	if k.sums == sumColumns {
		return fmt.Sprint("phase", k.phase)
	}
	return ""
}

// oneLine multiplies the i-th of the next lines by one value of every row.
//
// Where sums are taken, the line is loaded a second time for them, behind the loads for the multiplication, and from the
// nearest cache. Loads of one thread are seen in order, so a change that the multiplication saw is in the sum too. To take
// the sum of the register that is widened instead costs a fifth of the speed: widening from a register takes more slots of
// the pipes that multiply than widening from memory.
func (u *unit) oneLine(k *linesKernel, i int) {
	v := u.pair()
	for h := range v {
		if k.n == 0 {
			continue // sums alone
		}
		if k.f16 {
			u.VCVTPH2PS(k.step.at(i, h*u.width/2), v[h])
		} else {
			u.VMOVUPS(k.step.at(i, h*u.width), v[h])
		}
	}
	switch k.sums {
	case sumKeys:
		u.VPADDQ(k.step.at(i, 0), k.sum[i], k.sum[i])
	case sumColumns:
		u.VPADDQ(k.step.at(i, 0), k.sum[0], k.sum[0])
		if k.phase == i || k.phase == valueTurn {
			u.endRow(k)
		}
	}
	for r := range k.acc {
		m := u.reg()
		u.VBROADCASTSS(k.a.at(r, 4*i), m)
		for h := range v {
			u.VFMADD231PS(v[h], m, k.acc[r][h])
		}
	}
}

// startLines gives the sums of a group what they start from.
func (u *unit) startLines(args reg.Register, k *linesKernel) {
	k.acc = u.pairs(k.n)
	for _, p := range k.acc {
		u.clear(p)
	}
	u.CMPQ(at(args, lineAdd), U8(0))
	u.JE(LabelRef("started"))
	out := u.rows(args, k.n, lineOut, lineOutStride, 4)
	u.advance(out, k.done)
	for r, p := range k.acc {
		for h, v := range p {
			u.VMOVUPS(out.at(r, h*u.width), v)
		}
	}
	u.Label("started")
}

// endLines stores the sums of a group.
func (u *unit) endLines(args reg.Register, k *linesKernel) {
	out := u.rows(args, k.n, lineOut, lineOutStride, 4)
	u.advance(out, k.done)
	for r := range k.acc {
		for h, v := range k.acc[r] {
			u.VMOVUPS(v, out.at(r, h*u.width))
		}
	}
	u.ADDQ(U8(64), k.done)
}
