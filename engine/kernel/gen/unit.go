package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unit is a vector unit, and the file of kernels that is being written for it.
type unit struct {
	*build.Context
	name   string
	regs   int // registers that 16 lanes of 32 bit take
	width  int // bytes of a register
	wide   bool
	stubs  strings.Builder
	consts map[string]Mem
}

// field is the offset of a field in a struct that kernels read. The stubs check every one when they are compiled.
type field struct {
	owner, name string
	off         int
}

var fields []field

func fieldOf(owner, name string, off int) int {
	fields = append(fields, field{owner, name, off})
	return off
}

var (
	mulDst        = fieldOf("mulArgs", "dst", 0)
	mulStride     = fieldOf("mulArgs", "stride", 24)
	mulW          = fieldOf("mulArgs", "w", 32)
	mulPanelBytes = fieldOf("mulArgs", "panelBytes", 56)
	mulPanels     = fieldOf("mulArgs", "panels", 64)
	mulX          = fieldOf("mulArgs", "x", 72)
	mulQ          = fieldOf("mulArgs", "q", 96)
	mulCols       = fieldOf("mulArgs", "cols", 120)
	mulScale      = fieldOf("mulArgs", "scale", 128)
	mulQSum       = fieldOf("mulArgs", "qsum", 152)
	mulBlocks     = fieldOf("mulArgs", "blocks", 176)
	lineOut       = fieldOf("linesArgs", "out", 0)
	lineOutStride = fieldOf("linesArgs", "outStride", 24)
	lineA         = fieldOf("linesArgs", "a", 32)
	lineAStride   = fieldOf("linesArgs", "aStride", 56)
	lineF32       = fieldOf("linesArgs", "f32", 64)
	lineF16       = fieldOf("linesArgs", "f16", 88)
	lineStep      = fieldOf("linesArgs", "step", 112)
	lineN         = fieldOf("linesArgs", "n", 120)
	lineGroupStep = fieldOf("linesArgs", "groupStep", 128)
	lineGroups    = fieldOf("linesArgs", "groups", 136)
	lineAdd       = fieldOf("linesArgs", "add", 144)
	lineFold      = fieldOf("linesArgs", "fold", 152)
	lineColumns   = fieldOf("linesArgs", "columns", 160)
	lineFetch     = fieldOf("linesArgs", "fetch", 168)
	foldPart      = fieldOf("folding", "part", 0)
	foldBy        = fieldOf("folding", "by", 96)
	foldCross     = fieldOf("folding", "cross", 192)
	foldSum       = fieldOf("folding", "sum", 288)
	softX         = fieldOf("softmaxArgs", "x", 0)
	softN         = fieldOf("softmaxArgs", "n", 24)
	softScale     = fieldOf("softmaxArgs", "scale", 32)
	softMaximum   = fieldOf("softmaxArgs", "maximum", 36)
	softDen       = fieldOf("softmaxArgs", "den", 40)
)

// checkOffsets writes declarations that compile only where the kernels read the fields that they mean to.
func checkOffsets(w *strings.Builder) {
	fmt.Fprintln(w, "\n// The kernels read these fields at these offsets; another offset is an index out of range.\nvar (")
	for _, f := range fields {
		fmt.Fprintf(w, "_ = [1]struct{}{}[unsafe.Offsetof(%s{}.%s)-%d]\n", f.owner, f.name, f.off)
	}
	fmt.Fprintln(w, ")")
}

// begin starts a function of the unit with the Go parameters given. avo knows basic types only, so pointers to others are
// pointers to bytes to it.
func (u *unit) begin(name, params, doc string) {
	name += u.name
	u.Function(name)
	u.Attributes(attr.NOSPLIT)
	plain := params
	for _, t := range []string{"mulArgs", "linesArgs", "softmaxArgs", "lanes", "float32", "int8", "int32", "bulkhead.Lines"} {
		plain = strings.ReplaceAll(plain, "*"+t, "*byte")
	}
	u.SignatureExpr("func" + plain)
	u.Doc(name + " " + doc)
	fmt.Fprintf(&u.stubs, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", name, doc, name, params)
}

func (u *unit) end() {
	u.VZEROUPPER()
	u.RET()
}

func (u *unit) reg() reg.VecVirtual {
	if u.wide {
		return u.ZMM()
	}
	return u.YMM()
}

// pair is 16 lanes: one register or two.
type pair []reg.VecVirtual

func (u *unit) pair() pair {
	p := make(pair, u.regs)
	for i := range p {
		p[i] = u.reg()
	}
	return p
}

func (u *unit) pairs(n int) []pair {
	p := make([]pair, n)
	for i := range p {
		p[i] = u.pair()
	}
	return p
}

// arg loads a field of the arguments.
func (u *unit) arg(args reg.Register, off int) reg.GPVirtual {
	r := u.GP64()
	u.MOVQ(Mem{Base: args, Disp: off}, r)
	return r
}

func (u *unit) param(name string) reg.GPVirtual {
	r := u.GP64()
	u.Load(u.Param(name), r)
	return r
}

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

// zero clears a register.
func (u *unit) zero(r reg.VecVirtual) {
	if u.wide {
		u.VPXORD(r, r, r)
	} else {
		u.VPXOR(r, r, r)
	}
}

func (u *unit) clear(p pair) {
	for _, v := range p {
		u.zero(v)
	}
}

func (u *unit) and(a, b Op, dst reg.Register) {
	if u.wide {
		u.VPANDD(a, b, dst)
	} else {
		u.VPAND(a, b, dst)
	}
}

// words is a constant of one register's width, or more, of 32-bit words that repeat.
func (u *unit) words(name string, words ...uint32) Mem {
	if m, ok := u.consts[name]; ok {
		return m
	}
	if u.consts == nil {
		u.consts = map[string]Mem{}
	}
	m := u.StaticGlobal(name + u.name)
	u.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range max(16, len(words)) {
		u.AddDatum(4*i, U32(words[i%len(words)]))
	}
	u.consts[name] = m
	return m
}

func (u *unit) float(name string, v float32) Mem { return u.words(name, math.Float32bits(v)) }

// rows are the places of up to eight rows that lie a fixed distance apart, addressed without a register each. They are
// loaded from the arguments where they are needed: there are few registers.
type rows struct {
	base   []reg.GPVirtual // of rows 0 to 3 and 4 to 7
	stride reg.GPVirtual   // bytes
	three  reg.GPVirtual   // 3*stride
	n      int
}

// rows loads the places of n rows: base and distance, in values of size bytes, are fields of the arguments.
func (u *unit) rows(args reg.Register, n, base, stride, size int) rows {
	r := rows{base: []reg.GPVirtual{u.arg(args, base)}, n: n}
	if n == 1 {
		return r
	}
	r.stride = u.arg(args, stride)
	if size == 4 {
		u.SHLQ(U8(2), r.stride)
	}
	if n > 3 {
		r.three = u.GP64()
		u.LEAQ(Mem{Base: r.stride, Index: r.stride, Scale: 2}, r.three)
	}
	if n > 4 {
		r.base = append(r.base, u.second(r))
	}
	return r
}

// beside are other rows at the same distance.
func (u *unit) beside(r rows, args reg.Register, base int) rows {
	r.base = []reg.GPVirtual{u.arg(args, base)}
	if r.n > 4 {
		r.base = append(r.base, u.second(r))
	}
	return r
}

// second is the place of row 4.
func (u *unit) second(r rows) reg.GPVirtual {
	p := u.GP64()
	u.LEAQ(Mem{Base: r.base[0], Index: r.stride, Scale: 4}, p)
	return p
}

// at is disp bytes into row i.
func (r rows) at(i, disp int) Mem {
	base := r.base[i/4]
	switch i % 4 {
	case 1:
		return Mem{Base: base, Index: r.stride, Scale: 1, Disp: disp}
	case 2:
		return Mem{Base: base, Index: r.stride, Scale: 2, Disp: disp}
	case 3:
		return Mem{Base: base, Index: r.three, Scale: 1, Disp: disp}
	}
	return Mem{Base: base, Disp: disp}
}

// advance moves all rows on by bytes.
func (u *unit) advance(r rows, bytes Op) {
	for _, b := range r.base {
		u.ADDQ(bytes, b)
	}
}
