package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise writes the kernels over one row. They take whole blocks of 16; the Go side fills up what remains.
func (u *unit) elementwise() {
	u.begin("square", "(x *float32, blocks int, acc *lanes)", "adds squares to 16 lanes.")
	x, acc, l := u.param("x"), u.param("acc"), u.pair()
	for h := range l {
		u.VMOVUPS(at(acc, h*32), l[h])
	}
	u.blocks(func() {
		for h := range l {
			v := u.reg()
			u.VMOVUPS(at(x, h*32), v)
			u.VFMADD231PS(v, v, l[h])
		}
	}, x)
	for h := range l {
		u.VMOVUPS(l[h], at(acc, h*32))
	}
	u.end()

	u.begin("scaleMul", "(dst, x, weight *float32, blocks int, scale float32)", "is dst = x*scale*weight.")
	dst, x, weight := u.param("dst"), u.param("x"), u.param("weight")
	scale := u.reg()
	u.VBROADCASTSS(u.paramMem("scale"), scale)
	u.blocks(func() {
		for h := range u.regs {
			v := u.reg()
			u.VMULPS(at(x, h*32), scale, v)
			u.VMULPS(at(weight, h*32), v, v)
			u.VMOVUPS(v, at(dst, h*32))
		}
	}, dst, x, weight)
	u.end()

	u.begin("add", "(dst, x *float32, blocks int)", "is dst += x.")
	dst, x = u.param("dst"), u.param("x")
	u.blocks(func() {
		for h := range u.regs {
			v := u.reg()
			u.VMOVUPS(at(dst, h*32), v)
			u.VADDPS(at(x, h*32), v, v)
			u.VMOVUPS(v, at(dst, h*32))
		}
	}, dst, x)
	u.end()

	u.begin("addMul", "(dst, x *float32, blocks int, scale float32)", "is dst += x*scale.")
	dst, x = u.param("dst"), u.param("x")
	scale = u.reg()
	u.VBROADCASTSS(u.paramMem("scale"), scale)
	u.blocks(func() {
		for h := range u.regs {
			v := u.reg()
			u.VMOVUPS(at(dst, h*32), v)
			u.VFMADD231PS(at(x, h*32), scale, v)
			u.VMOVUPS(v, at(dst, h*32))
		}
	}, dst, x)
	u.end()

	u.silu()
	u.rope()
}

// blocks is a loop over the parameter of that name, which is not 0; pointers move on by 16 values.
func (u *unit) blocks(body func(), pointers ...reg.GPVirtual) {
	n := u.param("blocks")
	u.Label("next")
	body()
	for _, p := range pointers {
		u.ADDQ(U8(64), p)
	}
	u.DECQ(n)
	u.JNZ(LabelRef("next"))
}

func (u *unit) silu() {
	u.begin("siluMul", "(dst, gate, up *float32, blocks int)", "is dst = gate/(1+exp(-gate))*up.")
	dst, gate, up := u.param("dst"), u.param("gate"), u.param("up")
	u.blocks(func() {
		for h := range u.regs {
			g, x, limit := u.reg(), u.reg(), u.reg()
			u.VMOVUPS(at(gate, h*32), g)
			u.VXORPS(u.words("sign", 0x80000000), g, x)
			u.VMOVUPS(u.float("expMax", 88.72), limit)
			u.VMINPS(x, limit, x) // the one that may be NaN comes second and stays
			e := u.exp(x)
			u.VADDPS(u.float("one", 1), e, e)
			u.VDIVPS(e, g, e)
			u.VMULPS(at(up, h*32), e, e)
			u.VMOVUPS(e, at(dst, h*32))
		}
	}, dst, gate, up)
	u.end()
}

// rope turns 8 pairs a block: x is 16 values, cos and sin are 8.
func (u *unit) rope() {
	u.begin("rope", "(x, cos, sin *float32, blocks int)", "turns 8 adjacent pairs a block.")
	x, cos, sin := u.param("x"), u.param("cos"), u.param("sin")
	u.blocks(func() {
		for h := range u.regs {
			v, swapped, c, s := u.reg(), u.reg(), u.reg(), u.reg()
			u.VMOVUPS(at(x, h*32), v)
			u.VPERMILPS(U8(0b10110001), v, swapped)
			u.VPMOVZXDQ(at(cos, h*16), c)
			u.VMOVSLDUP(c, c)
			u.VPMOVZXDQ(at(sin, h*16), s)
			u.VMOVSLDUP(s, s)
			u.VMULPS(swapped, s, s)
			u.VFMADDSUB213PS(s, c, v)
			u.VMOVUPS(v, at(x, h*32))
		}
		u.ADDQ(U8(32), cos)
		u.ADDQ(U8(32), sin)
	}, x)
	u.end()
}
