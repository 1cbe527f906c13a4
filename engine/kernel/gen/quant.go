package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantType is a weight type with a scale for each 32 columns.
type quantType struct {
	name    string
	scales  int // bytes in front of a block
	lines   int
	nibbles bool // 4-bit values, 0 to 15
	minimum bool // the scales are followed by minima; else 4-bit values count less 8
}

func (t quantType) block() int { return t.scales + 64*t.lines }

// quantState is what mulQuant's parts share.
type quantState struct {
	t           quantType
	n           int
	w           reg.GPVirtual
	q           rows
	scale, qsum rows
	acc         []pair // float sums, nil where they are in memory
	spill       Mem
	isum        []pair // of a block: 32 bit, or 16 bit for nibbles without VNNI
}

// mulQuant multiplies n rows by panels of a quantised weight.
func (u *unit) mulQuant(t quantType, n int) {
	u.begin(fmt.Sprintf("mul%sx%d", t.name, n), "(a *mulArgs)", fmt.Sprintf("multiplies %d rows by panels of %s.", n, t.name))
	args := u.param("a")
	s := quantState{t: t, n: n, w: u.arg(args, mulW)}
	done := u.GP64() // bytes of a row's outputs that have been written
	u.XORQ(done, done)
	if n > 2 && !u.wide {
		s.spill = u.AllocLocal(n * 64)
	}

	u.Label("panel")
	u.startSums(&s)
	b := u.arg(args, mulBlocks)
	s.q, s.scale = u.rows(args, n, mulQ, mulCols, 1), u.rows(args, n, mulScale, mulBlocks, 4)
	s.qsum = u.beside(s.scale, args, mulQSum)
	u.Label("block")
	u.integers(&s)
	u.addBlock(&s)
	u.ADDQ(U32(t.block()), s.w)
	u.advance(s.q, U8(32))
	u.advance(s.scale, U8(4))
	u.advance(s.qsum, U8(4))
	u.DECQ(b)
	u.JNZ(LabelRef("block"))
	out := u.rows(args, n, mulDst, mulStride, 4)
	u.advance(out, done)
	for r := range n {
		for h := range u.regs {
			u.VMOVUPS(u.sum(&s, r, h), out.at(r, h*u.width))
		}
	}
	u.ADDQ(U8(64), done)
	u.jumpIfFew(args, done, 1, "end")
	u.JMP(LabelRef("panel"))
	u.Label("end")
	u.end()
}

func (u *unit) startSums(s *quantState) {
	if s.spill.Base != nil {
		zero := u.reg()
		u.zero(zero)
		for i := range s.n * u.regs {
			u.VMOVUPS(zero, s.spill.Offset(i*u.width))
		}
		return
	}
	s.acc = u.pairs(s.n)
	for _, p := range s.acc {
		u.clear(p)
	}
}

// sum is a register that holds a float sum.
func (u *unit) sum(s *quantState, r, h int) reg.VecVirtual {
	if s.acc != nil {
		return s.acc[r][h]
	}
	v := u.reg()
	u.VMOVUPS(s.spill.Offset((r*u.regs+h)*u.width), v)
	return v
}

// integers sets isum to the integer sums of a block.
func (u *unit) integers(s *quantState) {
	s.isum = u.pairs(s.n)
	for line := range s.t.lines {
		u.PREFETCHT0(at(s.w, ahead+s.t.scales+64*line))
		switch {
		case u.wide:
			u.lineVNNI(s, line)
		case s.t.nibbles:
			u.lineNibbles(s, line)
		default:
			u.lineBytes(s, line)
		}
	}
	if s.t.nibbles && !u.wide {
		for _, p := range s.isum {
			for _, v := range p {
				u.VPMADDWD(u.words("words1", 0x00010001), v, v)
			}
		}
		u.lessEight(s, func(eight Op, v reg.VecVirtual) { u.VPSUBD(eight, v, v) })
	}
}

// lessEight takes 8 times the sum of the activations from every sum, for the types whose 4-bit values count less 8.
func (u *unit) lessEight(s *quantState, take func(eight Op, v reg.VecVirtual)) {
	if s.t.minimum {
		return
	}
	for r, p := range s.isum {
		eight := u.reg()
		u.VPBROADCASTD(s.qsum.at(r, 0), eight)
		u.VPSLLD(U8(3), eight, eight)
		for _, v := range p {
			take(eight, v)
		}
	}
}

// lineBytes multiplies 4 columns of 8-bit values. The instruction multiplies unsigned by signed, so the weight gives its
// magnitude (128 fits) and its sign goes to the activation, which is never -128. A pair of products is at most 2*128*127,
// which fits 16 bit.
func (u *unit) lineBytes(s *quantState, line int) {
	w, magnitude := u.pair(), u.pair()
	for h := range w {
		u.VMOVDQU(at(s.w, s.t.scales+64*line+32*h), w[h])
		u.VPABSB(w[h], magnitude[h])
	}
	for r := range s.n {
		x := u.reg()
		u.VPBROADCASTD(s.q.at(r, 4*line), x)
		for h := range w {
			t := u.reg()
			u.VPSIGNB(w[h], x, t)
			u.VPMADDUBSW(t, magnitude[h], t)
			if line == 0 {
				u.VPMADDWD(u.words("words1", 0x00010001), t, s.isum[r][h])
				continue
			}
			u.VPMADDWD(u.words("words1", 0x00010001), t, t)
			u.VPADDD(t, s.isum[r][h], s.isum[r][h])
		}
	}
}

// lineNibbles multiplies 4 columns in the low halves and 4 in the high ones. Eight pairs of products are at most
// 8*2*15*127 = 30480, so that a block adds up in 16 bit.
func (u *unit) lineNibbles(s *quantState, line int) {
	lo, hi := u.nibbles(s, line)
	for r := range s.n {
		for part, w := range []pair{lo, hi} {
			x := u.reg()
			u.VPBROADCASTD(s.q.at(r, 4*line+16*part), x)
			for h := range w {
				if line == 0 && part == 0 {
					u.VPMADDUBSW(x, w[h], s.isum[r][h])
					continue
				}
				t := u.reg()
				u.VPMADDUBSW(x, w[h], t)
				u.VPADDW(t, s.isum[r][h], s.isum[r][h])
			}
		}
	}
}

// nibbles splits a line.
func (u *unit) nibbles(s *quantState, line int) (lo, hi pair) {
	lo, hi = u.pair(), u.pair()
	mask := u.words("nibble", 0x0f0f0f0f)
	for h := range lo {
		u.VMOVUPS(at(s.w, s.t.scales+64*line+u.width*h), lo[h])
		u.VPSRLW(U8(4), lo[h], hi[h])
		u.and(mask, lo[h], lo[h])
		u.and(mask, hi[h], hi[h])
	}
	return lo, hi
}

// lineVNNI multiplies a line with VPDPBUSD, unsigned by signed: 8-bit weights count 128 more than they should, for which
// the sums start at -128 times the sum of the activations.
func (u *unit) lineVNNI(s *quantState, line int) {
	if line == 0 {
		u.startVNNI(s)
	}
	if s.t.nibbles {
		lo, hi := u.nibbles(s, line)
		for r := range s.n {
			u.VPDPBUSD_BCST(s.q.at(r, 4*line), lo[0], s.isum[r][0])
			u.VPDPBUSD_BCST(s.q.at(r, 4*line+16), hi[0], s.isum[r][0])
		}
		return
	}
	w := u.reg()
	u.VMOVUPS(at(s.w, s.t.scales+64*line), w)
	u.VPXORD(u.words("bytes128", 0x80808080), w, w)
	for r := range s.n {
		u.VPDPBUSD_BCST(s.q.at(r, 4*line), w, s.isum[r][0])
	}
}

func (u *unit) startVNNI(s *quantState) {
	for r, p := range s.isum {
		v := p[0]
		u.zero(v)
		if s.t.minimum {
			continue
		}
		shift := 7
		if s.t.nibbles {
			shift = 3
		}
		less := u.reg()
		u.VPBROADCASTD(s.qsum.at(r, 0), less)
		u.VPSLLD(U8(shift), less, less)
		u.VPSUBD(less, v, v)
	}
}

// addBlock adds a block's integer sums, scaled, to the float sums.
func (u *unit) addBlock(s *quantState) {
	scales, minima := u.pair(), pair(nil)
	for h := range scales {
		u.VCVTPH2PS(at(s.w, h*u.width/2), scales[h])
	}
	if s.t.minimum {
		minima = u.pair()
		for h := range minima {
			u.VCVTPH2PS(at(s.w, 32+h*u.width/2), minima[h])
		}
	}
	for r := range s.n {
		dx, sx := u.reg(), u.reg()
		u.VBROADCASTSS(s.scale.at(r, 0), dx)
		if s.t.minimum {
			u.VPBROADCASTD(s.qsum.at(r, 0), sx)
			u.VCVTDQ2PS(sx, sx)
			u.VMULPS(dx, sx, sx)
		}
		for h := range scales {
			acc, d := u.sum(s, r, h), u.reg()
			u.VMULPS(dx, scales[h], d)
			u.VCVTDQ2PS(s.isum[r][h], s.isum[r][h])
			u.VFMADD231PS(d, s.isum[r][h], acc)
			if s.t.minimum {
				u.VFMADD231PS(minima[h], sx, acc)
			}
			if s.acc == nil {
				u.VMOVUPS(acc, s.spill.Offset((r*u.regs+h)*u.width))
			}
		}
	}
}
