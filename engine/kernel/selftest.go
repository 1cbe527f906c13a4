package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/bulkhead-llm/bulkhead"
)

// selfTest tries every kernel of a set on small inputs against the Go set. It guards against CPUs, emulators and
// hypervisors that say they have an instruction and compute something else; it takes a few milliseconds.
func (s *Set) selfTest() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("kernels %s: self-test: %w", s.Name, err)
		}
	}()
	for _, test := range []func(*Set) error{tryElementwise, tryQuantize, tryMatMul, tryStore, tryAttention} {
		if err := test(s); err != nil {
			return err
		}
	}
	return nil
}

// noise is a sequence of numbers that look random and are the same every time.
type noise uint64

func (n *noise) next() uint32 {
	*n = *n*6364136223846793005 + 1442695040888963407
	return uint32(*n >> 33)
}

func (n *noise) floats(count int) []float32 {
	x := make([]float32, count)
	for i := range x {
		x[i] = float32(int32(n.next()%4001)-2000) / 1000
	}
	return x
}

// compare reports where got is further from want than rounding takes it.
func compare(what string, got, want []float32) error {
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-4*(1+math.Abs(float64(want[i])))) {
			return fmt.Errorf("%s: value %d is %v, should be %v", what, i, got[i], want[i])
		}
	}
	return nil
}

func tryElementwise(s *Set) error {
	const n = 55
	rng := noise(1)
	x, y, cos := rng.floats(n), rng.floats(n), rng.floats(n)
	for _, op := range []struct {
		name string
		do   func(s *Set, dst []float32)
	}{
		{"RMSNorm", func(s *Set, dst []float32) { s.RMSNorm(dst, x, y, 1e-5) }},
		{"SiLUMul", func(s *Set, dst []float32) { s.SiLUMul(dst, x, y) }},
		{"Add", func(s *Set, dst []float32) { s.Add(dst, x) }},
		{"addMul", func(s *Set, dst []float32) { s.addMul(dst, x, 0.7) }},
		{"Rope", func(s *Set, dst []float32) { s.Rope(dst[:54], 54, 50, cos, y) }},
	} {
		got, want := append([]float32(nil), y...), append([]float32(nil), y...)
		op.do(s, got)
		op.do(goSet, want)
		if err := compare(op.name, got, want); err != nil {
			return err
		}
	}
	return nil
}

func tryQuantize(s *Set) error {
	rng := noise(2)
	a, b := NewActivations(2, 96), NewActivations(2, 96)
	copy(a.F32, rng.floats(2*96))
	copy(b.F32, a.F32)
	s.Quantize(a, 0, 2)
	goSet.Quantize(b, 0, 2)
	for i := range b.Q {
		if a.Q[i] != b.Q[i] || a.Scale[i/QuantLen] != b.Scale[i/QuantLen] || a.QSum[i/QuantLen] != b.QSum[i/QuantLen] {
			return fmt.Errorf("quantize: value %d is %d, should be %d", i, a.Q[i], b.Q[i])
		}
	}
	return nil
}

// tryMatMul multiplies by every weight type: as many rows as there are sizes of tiles, and each of them alone.
func tryMatMul(s *Set) error {
	rng := noise(3)
	for _, t := range types {
		const outputs, cols = 70, 64
		x := NewActivations(15, cols)
		copy(x.F32, rng.floats(len(x.F32)))
		s.Quantize(x, 0, x.Rows)
		w := &Weight{Type: t, Rows: outputs, Cols: cols, Data: make([]byte, t.PackedBytes(outputs, cols))}
		t.Pack(w.Data, rng.matrix(t, outputs, cols), outputs, cols)
		got, want := make([]float32, x.Rows*outputs), make([]float32, x.Rows*outputs)
		s.MatMul(got, outputs, w, x, 0, w.Panels())
		goSet.MatMul(want, outputs, w, x, 0, w.Panels())
		if err := compare(t.Name, got, want); err != nil {
			return err
		}
		one, alone := NewActivations(1, cols), make([]float32, outputs)
		for r := range x.Rows {
			copy(one.F32, x.Row(r))
			s.Quantize(one, 0, 1)
			s.MatMul(alone, outputs, w, one, 0, w.Panels())
			for o, v := range alone {
				if v != got[r*outputs+o] {
					return fmt.Errorf("%s: row %d output %d is %v alone and %v among others", t.Name, r, o, v, got[r*outputs+o])
				}
			}
		}
	}
	return nil
}

// matrix is a matrix in the file's form, of values around one.
func (n *noise) matrix(t *Type, rows, cols int) []byte {
	data := make([]byte, rows*t.RowBytes(cols))
	for b := data; len(b) > 0; b = b[t.BlockBytes:] {
		for i := range b[:t.BlockBytes] {
			b[i] = byte(n.next())
		}
		v := n.floats(2)
		switch t.id {
		case f32Type:
			binary.LittleEndian.PutUint32(b, math.Float32bits(v[0]))
		case bf16Type:
			binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(v[0])>>16))
		case q4_1Type:
			binary.LittleEndian.PutUint16(b[2:], toF16(v[1]))
			fallthrough
		default:
			binary.LittleEndian.PutUint16(b, toF16(v[0]/64))
		}
	}
	return data
}

// selfTestLayout has what is awkward: a head that is no multiple of 16, and pages of two blocks.
var selfTestLayout = bulkhead.Layout{Layers: 1, KVHeads: 2, HeadSize: 40, PageTokens: 32}

// tryStore stores two pages of tokens, less a few, and compares bytes and sums.
func tryStore(s *Set) error {
	rng, l := noise(4), selfTestLayout
	a, b := make([]byte, l.PageBytes()), make([]byte, l.PageBytes())
	const filled = 27
	k, v := bulkhead.FilledTerm(filled), bulkhead.FilledTerm(filled)
	for slot := range filled {
		for h := range l.KVHeads {
			x := rng.floats(l.HeadSize)
			k += s.StoreK(&l, a, 0, h, slot, x)
			v += s.StoreV(&l, a, 0, h, slot, x)
			goSet.StoreK(&l, b, 0, h, slot, x)
			goSet.StoreV(&l, b, 0, h, slot, x)
		}
	}
	if string(a) != string(b) {
		return fmt.Errorf("store: other bytes")
	}
	for _, sum := range [][3]bulkhead.Sum{
		{l.SumK(b, 0, filled), k, s.SumK(&l, a, 0, filled)},
		{l.SumV(b, 0, filled), v, s.SumV(&l, a, 0, filled)},
	} {
		if sum[0] != sum[1] || sum[0] != sum[2] {
			return fmt.Errorf("store: sums %v and %v, should be %v", sum[1], sum[2], sum[0])
		}
	}
	return nil
}

// tryAttention attends over two pages and a bit with one to twelve rows, at the end and before it.
func tryAttention(s *Set) error {
	const n, most = 75, 12
	rng, l := noise(5), selfTestLayout
	var pages [][]byte
	for slot := range n {
		if slot%l.PageTokens == 0 {
			pages = append(pages, make([]byte, l.PageBytes()))
		}
		goSet.StoreK(&l, pages[slot/l.PageTokens], 0, 1, slot%l.PageTokens, rng.floats(l.HeadSize))
		goSet.StoreV(&l, pages[slot/l.PageTokens], 0, 1, slot%l.PageTokens, rng.floats(l.HeadSize))
	}
	q, scratch := rng.floats(most*l.HeadSize), NewScratch(&l)
	for rows := 1; rows <= most; rows++ {
		for _, back := range []int32{0, 5} { // decode and prefill
			got, want := newSpan(&l, pages, n, q, rows, back), newSpan(&l, pages, n, q, rows, back)
			s.Attend(got, scratch)
			goSet.Attend(want, scratch)
			if err := got.compare(want); err != nil {
				return err
			}
			raw := newSpan(&l, pages, n, q, rows, back)
			s.AttendUnguarded(raw, scratch)
			if err := raw.compare(got); err != nil {
				return err
			}
		}
	}
	return nil
}

// newSpan is a span of all n keys; row r is r*back positions before the last.
func newSpan(l *bulkhead.Layout, pages [][]byte, n int, q []float32, rows int, back int32) *Span {
	sp := &Span{Layout: l, Head: 1, Pages: pages, Len: n, Rows: rows, Q: q, QStride: l.HeadSize, Scale: 0.2,
		Pos: make([]int32, rows), Max: make([]float32, rows), Den: make([]float32, rows), Acc: make([]float32, rows*l.HeadSize),
		SumK: make([]bulkhead.Sum, len(pages)), SumV: make([]bulkhead.Sum, len(pages))}
	for r := range sp.Pos {
		sp.Pos[r] = int32(n-1) - int32(r)*back
	}
	return sp
}

// compare reports a difference in what spans put out; sums that were not taken are not compared.
func (sp *Span) compare(want *Span) error {
	for i := range want.SumK {
		if sp.SumK[0] != 0 && (sp.SumK[i] != want.SumK[i] || sp.SumV[i] != want.SumV[i]) {
			return fmt.Errorf("attention: sums of page %d are %v %v, should be %v %v", i, sp.SumK[i], sp.SumV[i], want.SumK[i], want.SumV[i])
		}
	}
	for _, part := range [][2][]float32{{sp.Max, want.Max}, {sp.Den, want.Den}, {sp.Acc, want.Acc}} {
		if err := compare("attention", part[0], part[1]); err != nil {
			return err
		}
	}
	return nil
}
