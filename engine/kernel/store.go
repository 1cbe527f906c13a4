package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// maxHeadSize is what a layout allows.
const maxHeadSize = 1024

// StoreK writes one token's K of one head into its slot, as F16 to nearest even, and returns what that adds to the sum:
// computed from the values written, never from the page.
func (s *Set) StoreK(l *bulkhead.Layout, page []byte, layer, head, slot int, k []float32) bulkhead.Sum {
	checkSlot(l, layer, head, slot, len(k))
	var buf [maxHeadSize]uint16
	values := buf[:l.HeadSize]
	s.narrowAll(values, k)
	const step = bulkhead.LineBytes
	block := page[l.KOffset(layer, head)+slot/bulkhead.BlockTokens*l.HeadSize*step:][:l.HeadSize*step]
	at := slot % bulkhead.BlockTokens * 2
	for _, v := range values {
		binary.LittleEndian.PutUint16(block[at:], v)
		at += step
	}
	return l.AppendedK(head, slot, values)
}

// narrowAll narrows to F16, 16 at a time.
func (s *Set) narrowAll(dst []uint16, src []float32) {
	for ; len(src) > 0; dst, src = dst[min(len(dst), 16):], src[min(len(src), 16):] {
		var v [16]float32
		copy(v[:], src)
		n := s.narrow(v)
		copy(dst, n[:])
	}
}

// StoreV writes one token's V of one head into its slot, as StoreK does.
func (s *Set) StoreV(l *bulkhead.Layout, page []byte, layer, head, slot int, v []float32) bulkhead.Sum {
	checkSlot(l, layer, head, slot, len(v))
	var buf [maxHeadSize]uint16
	values := buf[:l.HeadStride()]
	s.narrowAll(values[:l.HeadSize], v)
	line := page[l.VOffset(layer, head)+slot*len(values)*2:][:len(values)*2]
	var plain, placed [4]uint64 // by lane: sum of the lines written, and of each line times its place
	first := slot * len(values) * 2 / bulkhead.LineBytes
	for i := 0; i < len(values); i += 4 {
		word := uint64(values[i]) | uint64(values[i+1])<<16 | uint64(values[i+2])<<32 | uint64(values[i+3])<<48
		binary.LittleEndian.PutUint64(line[2*i:], word)
		plain[i/4%4] += word
		placed[i/4%4] += word * uint64(first+i/16)
	}
	return foldPlaced(head, plain, placed)
}

// foldPlaced is the sum of lines of head whose plain sum, and whose sum with each line times its place, are given.
func foldPlaced(head int, plain, placed [4]uint64) bulkhead.Sum {
	lines := bulkhead.Lines{A: plain}
	for j := range placed {
		lines.B[j] = -placed[j] // N is 0, so that N*A-B is placed
	}
	return lines.Fold(head)
}

func checkSlot(l *bulkhead.Layout, layer, head, slot, values int) {
	if layer < 0 || layer >= l.Layers || head < 0 || head >= l.KVHeads || slot < 0 || slot >= l.PageTokens || values != l.HeadSize {
		panic(fmt.Sprintf("kernel: %d values into slot %d of head %d of layer %d", values, slot, head, layer))
	}
}

// SumK is the sum of a layer's K as it stands, Layout.SumK.
func (s *Set) SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	blocks := (filled + bulkhead.BlockTokens - 1) / bulkhead.BlockTokens
	return s.sumHeads(l, page, l.KOffset(layer, 0), l.KHeadBytes(), blocks*l.HeadSize*bulkhead.LineBytes, filled)
}

// SumV is the sum of a layer's V as it stands, Layout.SumV.
func (s *Set) SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	return s.sumHeads(l, page, l.VOffset(layer, 0), l.VHeadBytes(), filled*l.HeadStride()*2, filled)
}

func (s *Set) sumHeads(l *bulkhead.Layout, page []byte, off, headBytes, n, filled int) bulkhead.Sum {
	if filled < 0 || filled > l.PageTokens {
		panic(fmt.Sprintf("kernel: %d tokens in a page of %d", filled, l.PageTokens))
	}
	sum := bulkhead.FilledTerm(filled)
	for h := range l.KVHeads {
		lines := s.sum(page[off+h*headBytes:][:n])
		sum += lines.Fold(h)
	}
	return sum
}

func narrow(v [16]float32) (n [16]uint16) {
	for i := range v {
		n[i] = toF16(v[i])
	}
	return n
}
