package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmax writes the kernel of softmax, see softmaxArgs.
func (u *unit) softmax() {
	u.begin("softmax", "(a *softmaxArgs)", "turns scores into exponentials.")
	args := u.param("a")
	x, blocks := u.arg(args, softX), u.arg(args, softN)
	rest := u.GP64()
	u.MOVQ(blocks, rest)
	u.ANDQ(U8(15), rest)
	u.SHRQ(U8(4), blocks)
	scale := u.reg()
	u.VBROADCASTSS(at(args, softScale), scale)
	mask := u.tailMask(rest)

	top := u.pair()
	for _, v := range top {
		u.VMOVUPS(u.float("minusInf", float32(math.Inf(-1))), v)
	}
	p, n := u.GP64(), u.GP64()
	u.MOVQ(x, p)
	u.MOVQ(blocks, n)
	u.TESTQ(n, n)
	u.JZ(LabelRef("maxtail"))
	u.Label("max")
	for h, v := range top {
		t := u.reg()
		u.VMULPS(at(p, h*u.width), scale, t)
		u.VMAXPS(t, v, v)
	}
	u.ADDQ(U8(64), p)
	u.DECQ(n)
	u.JNZ(LabelRef("max"))
	u.Label("maxtail")
	u.TESTQ(rest, rest)
	u.JZ(LabelRef("maxdone"))
	for h, v := range top {
		t := u.reg()
		u.VMULPS(at(p, h*u.width), scale, t)
		u.blend(mask[h], t, u.float("minusInf", float32(math.Inf(-1))), t)
		u.VMAXPS(t, v, v)
	}
	u.Label("maxdone")
	maximum := u.foldLanes(top, func(a, b Op, dst reg.Register) { u.VMAXPS(a, b, dst) }, func(a, b, dst reg.Register) { u.VMAXSS(a, b, dst) })
	ret := u.XMM()
	u.VMOVAPS(maximum, ret)
	u.VMOVSS(ret, at(args, softMaximum))
	u.VBROADCASTSS(ret, top[0])

	den := u.pair()
	u.clear(den)
	u.MOVQ(blocks, n)
	u.TESTQ(n, n)
	u.JZ(LabelRef("exptail"))
	u.Label("exp")
	for h, v := range den {
		e := u.scoreExp(at(x, h*u.width), scale, top[0])
		u.VMOVUPS(e, at(x, h*u.width))
		u.VADDPS(e, v, v)
	}
	u.ADDQ(U8(64), x)
	u.DECQ(n)
	u.JNZ(LabelRef("exp"))
	u.Label("exptail")
	u.TESTQ(rest, rest)
	u.JZ(LabelRef("expdone"))
	for h, v := range den {
		e := u.scoreExp(at(x, h*u.width), scale, top[0])
		u.keep(mask[h], e, e)
		u.VMOVUPS(e, at(x, h*u.width))
		u.VADDPS(e, v, v)
	}
	u.Label("expdone")
	total := u.foldLanes(den, func(a, b Op, dst reg.Register) { u.VADDPS(a, b, dst) }, func(a, b, dst reg.Register) { u.VADDSS(a, b, dst) })
	u.VMOVSS(total, at(args, softDen))
	u.end()
}

func (u *unit) paramMem(name string) Mem {
	c, err := u.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}

// tailMask is all ones in the lanes below rest: registers, or opmasks.
func (u *unit) tailMask(rest reg.GPVirtual) []reg.Register {
	lane := u.words("lane", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	limit := u.XMM()
	u.MOVQ(rest, limit)
	all := u.reg()
	u.VPBROADCASTD(limit, all)
	if u.wide {
		k := u.K()
		u.VPCMPUD(U8(6), lane, all, k) // limit > lane
		return []reg.Register{k}
	}
	masks := []reg.Register{}
	for h := range u.regs {
		m := u.reg()
		u.VPCMPGTD(lane.Offset(h*u.width), all, m)
		masks = append(masks, m)
	}
	return masks
}

// blend takes a where the mask is set, else b.
func (u *unit) blend(mask reg.Register, a reg.Register, b Mem, dst reg.Register) {
	if u.wide {
		t := u.ZMM()
		u.VMOVUPS(b, t)
		u.VBLENDMPS(a, t, mask, dst)
		return
	}
	t := u.YMM()
	u.VMOVUPS(b, t)
	u.VBLENDVPS(mask, a, t, dst)
}

// keep clears a where the mask is not set.
func (u *unit) keep(mask, a, dst reg.Register) {
	if u.wide {
		u.VMOVAPS_Z(a, mask, dst)
		return
	}
	u.VANDPS(mask, a, dst)
}

// foldLanes joins 16 lanes by halves.
func (u *unit) foldLanes(p pair, op func(a, b Op, dst reg.Register), last func(a, b, dst reg.Register)) reg.VecVirtual {
	half, y := u.YMM(), u.YMM()
	if u.wide {
		u.VEXTRACTF32X8(U8(1), p[0], half)
		op(half, p[0].AsY(), y)
	} else {
		op(p[1], p[0], y)
	}
	hi, t := u.XMM(), u.XMM()
	u.VEXTRACTF128(U8(1), y, hi)
	op(hi, y.AsX(), t)
	u.VMOVHLPS(t, t, hi)
	op(hi, t, t)
	u.VMOVSHDUP(t, hi)
	last(hi, t, t)
	return t
}

// scoreExp is exp(m*scale - top), for an argument that is not above 0.
func (u *unit) scoreExp(m Mem, scale, top reg.Register) reg.VecVirtual {
	x := u.reg()
	u.VMULPS(m, scale, x)
	u.VSUBPS(top, x, x)
	return u.exp(x)
}

// exp is the package's exp of x, which must not be above its expMax. NaN stays NaN.
func (u *unit) exp(x reg.VecVirtual) reg.VecVirtual {
	low, t, n, r, y := u.reg(), u.reg(), u.reg(), u.reg(), u.reg()
	u.VMOVUPS(u.float("expMin", -87.336), low)
	u.VMAXPS(x, low, r) // the one that may be NaN comes second and stays
	u.VMOVUPS(u.float("shift", 3<<22), t)
	u.VFMADD231PS(u.float("log2e", 1.44269504088896341), r, t) // n lies in the low bits of t
	u.VSUBPS(u.float("shift", 3<<22), t, n)
	u.VFNMADD231PS(u.float("ln2Hi", 0.693359375), n, r)
	u.VFNMADD231PS(u.float("ln2Lo", -2.12194440e-4), n, r)
	u.VMOVUPS(u.float("expC6", 1.3981999507e-3), y)
	for _, c := range []struct {
		name string
		v    float32
	}{{"expC5", 8.3334519073e-3}, {"expC4", 4.1665795894e-2}, {"expC3", 1.6666665459e-1}, {"expC2", 5.0000001201e-1}} {
		u.VFMADD213PS(u.float(c.name, c.v), r, y)
	}
	square := u.reg()
	u.VMULPS(r, r, square)
	u.VFMADD213PS(r, square, y)
	u.VADDPS(u.float("one", 1), y, y)
	u.VPSLLD(U8(23), t, t)
	u.VPADDD(t, y, y)
	return y
}
