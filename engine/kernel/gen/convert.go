package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize writes the kernel that quantises blocks of 32.
func (u *unit) quantize() {
	u.begin("quantize", "(q *int8, scale *float32, qsum *int32, x *float32, blocks int)", "quantises blocks of 32 values.")
	q, scale, qsum, x, n := u.param("q"), u.param("scale"), u.param("qsum"), u.param("x"), u.param("blocks")
	order := u.words("order", 0, 4, 1, 5, 2, 6, 3, 7)
	u.Label("next")
	v := make([]reg.VecVirtual, 4)
	most := u.YMM()
	for i := range v {
		v[i] = u.YMM()
		u.VMOVUPS(at(x, 32*i), v[i])
		if i == 0 {
			u.VPAND(u.words("abs", 0x7fffffff), v[i], most)
			continue
		}
		t := u.YMM()
		u.VPAND(u.words("abs", 0x7fffffff), v[i], t)
		u.VPMAXUD(t, most, most) // as integers, where NaN is above infinity
	}
	m := u.foldMax(most)
	inverse := u.blockScale(m, scale)
	factor := u.YMM()
	u.VBROADCASTSS(inverse, factor)
	total := u.YMM()
	for i := range v {
		ok := u.YMM()
		u.VMULPS(factor, v[i], v[i])
		u.VCMPPS(U8(7), v[i], v[i], ok) // NaN, from infinity times 0, becomes 0
		u.VANDPS(ok, v[i], v[i])
		u.VCVTPS2DQ(v[i], v[i])
		if i == 0 {
			u.VMOVDQA(v[i], total)
		} else {
			u.VPADDD(v[i], total, total)
		}
	}
	u.VPACKSSDW(v[1], v[0], v[0])
	u.VPACKSSDW(v[3], v[2], v[2])
	u.VPACKSSWB(v[2], v[0], v[0])
	place := u.YMM()
	u.VMOVDQU(order, place)
	u.VPERMD(v[0], place, v[0])
	u.VMOVDQU(v[0], at(q, 0))
	sum := u.foldAdd(total)
	u.VMOVD(sum, at(qsum, 0))
	u.ADDQ(U8(32), q)
	u.ADDQ(U8(4), scale)
	u.ADDQ(U8(4), qsum)
	u.ADDQ(U32(128), x)
	u.DECQ(n)
	u.JNZ(LabelRef("next"))
	u.end()
}

// blockScale stores max/127, 0 where the maximum is tiny, and gives 127/max, 0 where that is no number to multiply by.
func (u *unit) blockScale(m reg.VecVirtual, scale reg.GPVirtual) reg.VecVirtual {
	tiny, finite, d, inverse := u.XMM(), u.XMM(), u.XMM(), u.XMM()
	u.VMOVSS(u.float("tiny", 1e-35), tiny)
	u.VCMPSS(U8(1), tiny, m, tiny) // m < tiny
	u.VMOVSS(u.float("most", math.MaxFloat32), finite)
	u.VCMPSS(U8(2), finite, m, finite) // m <= most, not for NaN
	u.VANDNPS(m, tiny, m)
	u.VMOVSS(u.float("f127", 127), inverse)
	u.VDIVSS(inverse, m, d)
	u.VMOVSS(d, at(scale, 0))
	u.VDIVSS(m, inverse, inverse)
	u.VANDPS(finite, inverse, inverse)
	u.VANDNPS(inverse, tiny, inverse)
	return inverse
}

func (u *unit) foldMax(v reg.VecVirtual) reg.VecVirtual {
	return u.foldInts(v, func(a, b, dst reg.Register) { u.VPMAXUD(a, b, dst) })
}

func (u *unit) foldAdd(v reg.VecVirtual) reg.VecVirtual {
	return u.foldInts(v, func(a, b, dst reg.Register) { u.VPADDD(a, b, dst) })
}

func (u *unit) foldInts(v reg.VecVirtual, op func(a, b, dst reg.Register)) reg.VecVirtual {
	hi, t := u.XMM(), u.XMM()
	u.VEXTRACTI128(U8(1), v, hi)
	op(hi, v.AsX(), t)
	u.VPSHUFD(U8(0b01001110), t, hi)
	op(hi, t, t)
	u.VPSHUFD(U8(0b10110001), t, hi)
	op(hi, t, t)
	return t
}

// convert writes the kernels that move K and V.
func (u *unit) convert() {
	u.begin("widen", "(dst *float32, src *byte, lines int)", "widens lines of F16.")
	p, n := newLines(u, true), u.param("lines")
	u.Label("next")
	u.PREFETCHT0(at(p.src, 1024))
	u.oneMoved(p, 0, nil)
	u.moved(p, 1)
	u.DECQ(n)
	u.JNZ(LabelRef("next"))
	u.end()

	u.begin("widenSumBlocks", "(dst *float32, src *byte, lines, blocks int, sum *bulkhead.Lines)", "widens blocks of K and takes their sum.")
	u.eachBlock(newLines(u, true))
	u.end()

	u.begin("sumBlocks", "(src *byte, lines, blocks int, sum *bulkhead.Lines)", "takes the sum of blocks of K.")
	u.eachBlock(newLines(u, false))
	u.end()
	u.storeK()
	u.storeV()
}

// lineMover goes from line to line of F16, and widens each where there is a place to widen it to.
type lineMover struct{ dst, src reg.GPVirtual }

func newLines(u *unit, widen bool) lineMover {
	p := lineMover{src: u.param("src")}
	if widen {
		p.dst = u.param("dst")
	}
	return p
}

// oneMoved moves the i-th of the next lines. Its sum is taken of a load behind the loads that widen it, as in oneLine.
func (u *unit) oneMoved(p lineMover, i int, sum func(i int, m Mem)) {
	v := u.pair()
	if p.dst != nil {
		for h := range v {
			u.VCVTPH2PS(at(p.src, 32*i+16*h), v[h])
		}
	}
	if sum != nil {
		sum(i, at(p.src, 32*i))
	}
	if p.dst != nil {
		for h := range v {
			u.VMOVUPS(v[h], at(p.dst, 64*i+32*h))
		}
	}
}

func (u *unit) moved(p lineMover, n int) {
	u.ADDQ(U32(32*n), p.src)
	if p.dst != nil {
		u.ADDQ(U32(64*n), p.dst)
	}
}

// eachBlock moves blocks of lines, at least one, of an even number of lines each: turns of four and perhaps two.
func (u *unit) eachBlock(p lineMover) {
	blocks, state, rows := u.param("blocks"), u.sumState(), u.ymms(blockRows)
	sum := func(i int, m Mem) { u.VPADDQ(m, rows[i], rows[i]) }
	u.Label("block")
	u.zeros(rows)
	left := u.param("lines")
	u.SUBQ(U8(blockRows), left)
	u.JLT(LabelRef("last"))
	u.Label("next")
	u.PREFETCHT0(at(p.src, 1024))
	u.PREFETCHT0(at(p.src, 1088))
	for i := range blockRows {
		u.oneMoved(p, i, sum)
	}
	u.moved(p, blockRows)
	u.SUBQ(U8(blockRows), left)
	u.JGE(LabelRef("next"))
	u.Label("last")
	u.TESTQ(U32(2), left)
	u.JZ(LabelRef("blockend"))
	for i := range 2 {
		u.oneMoved(p, i, sum)
	}
	u.moved(p, 2)
	u.Label("blockend")
	u.countRows(rows, state.a, state.b)
	u.DECQ(blocks)
	u.JNZ(LabelRef("block"))
	u.storeSum(state)
}

// storeK takes 8 dimensions a turn: lane d%8 of plain adds up their halfwords.
func (u *unit) storeK() {
	u.begin("storeK", "(lines *byte, k *float32, turns int) (plain [8]uint32)", "writes 8 halfwords a turn, a line apart.")
	lines, k, n := u.param("lines"), u.param("k"), u.param("turns")
	plain := u.YMM()
	u.zero(plain)
	u.Label("next")
	v, h, words := u.YMM(), u.XMM(), u.YMM()
	u.VMOVUPS(at(k, 0), v)
	u.VCVTPS2PH(U8(0), v, h)
	for d := range 8 {
		u.VPEXTRW(U8(d), h, at(lines, 32*d))
	}
	u.VPMOVZXWD(h, words)
	u.VPADDD(words, plain, plain)
	u.ADDQ(U8(32), k)
	u.ADDQ(U32(256), lines)
	u.DECQ(n)
	u.JNZ(LabelRef("next"))
	u.VMOVDQU(plain, u.returnArray("plain"))
	u.end()
}

// storeV writes whole lines and adds them up.
func (u *unit) storeV() {
	u.begin("storeV", "(dst *byte, v *float32, lines int) (a, b [4]uint64)", "writes lines of F16 and takes their sum.")
	dst, v, n := u.param("dst"), u.param("v"), u.param("lines")
	a, b := u.YMM(), u.YMM()
	u.zero(a)
	u.zero(b)
	u.Label("next")
	lo, hi, line := u.YMM(), u.YMM(), u.YMM()
	u.VMOVUPS(at(v, 0), lo)
	u.VMOVUPS(at(v, 32), hi)
	u.VCVTPS2PH(U8(0), lo, lo.AsX())
	u.VCVTPS2PH(U8(0), hi, hi.AsX())
	u.VINSERTI128(U8(1), hi.AsX(), lo, line)
	u.VMOVDQU(line, at(dst, 0))
	u.VPADDQ(line, a, a)
	u.VPADDQ(a, b, b)
	u.ADDQ(U8(64), v)
	u.ADDQ(U8(32), dst)
	u.DECQ(n)
	u.JNZ(LabelRef("next"))
	u.VMOVDQU(a, u.returnArray("a"))
	u.VMOVDQU(b, u.returnArray("b"))
	u.end()
}

type sumState struct {
	at   reg.GPVirtual
	a, b reg.VecVirtual
}

func (u *unit) sumState() *sumState {
	s := &sumState{u.param("sum"), u.YMM(), u.YMM()}
	u.VMOVDQU(at(s.at, 0), s.a)
	u.VMOVDQU(at(s.at, 32), s.b)
	return s
}

func (u *unit) storeSum(s *sumState) {
	u.VMOVDQU(s.a, at(s.at, 0))
	u.VMOVDQU(s.b, at(s.at, 32))
}

func (u *unit) returnArray(name string) Mem {
	c, err := u.Return(name).Index(0).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}
