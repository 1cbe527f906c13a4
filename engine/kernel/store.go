package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// StoreK writes one token's K of one head into its slot, as F16 to nearest even, and returns what that adds to the sum:
// computed from the values written, never from the page.
func (s *Set) StoreK(l *bulkhead.Layout, page []byte, layer, head, slot int, k []float32) bulkhead.Sum {
	checkSlot(l, layer, head, slot, len(k))
	const step = bulkhead.LineBytes
	at, in := slot/bulkhead.BlockTokens, slot%bulkhead.BlockTokens
	plain, placed := s.storeK(page[l.KOffset(layer, head)+at*len(k)*step:][:len(k)*step], in, k)
	placed += uint64(at*bulkhead.BlockRows) * plain
	// A token's K lies in one halfword of each line: in lane in/4, shifted by 16 bits for each place in it.
	lines := bulkhead.Lines{}
	shift := 16 * (in % 4)
	lines.A[in/4], lines.B[in/4] = plain<<shift, -placed<<shift // N is 0, so that N*A-B is placed
	return lines.Fold(head, 0)
}

// storeK writes k as halfword in of each line of a block, and returns the sum of the halfwords and that of each times the
// row, of the block's, that it counts in.
func storeK(lines []byte, in int, k []float32) (plain, placed uint64) {
	for d, v := range k {
		h := toF16(v)
		binary.LittleEndian.PutUint16(lines[d*bulkhead.LineBytes+2*in:], h)
		plain += uint64(h)
		placed += uint64(d%bulkhead.BlockRows) * uint64(h)
	}
	return plain, placed
}

// StoreV writes one token's V of one head into its slot, as StoreK does.
func (s *Set) StoreV(l *bulkhead.Layout, page []byte, layer, head, slot int, v []float32) bulkhead.Sum {
	checkSlot(l, layer, head, slot, len(v))
	const turn = 4 // pieces of which the first slot%turn are early, see bulkhead.Layout.WrittenV
	n := l.HeadStride() * 2
	dst := page[l.VOffset(layer, head)+slot*n:][:n]
	var all, early, placed [4]uint64
	for piece := 0; piece < n/bulkhead.LineBytes; {
		end := piece/turn*turn + slot%turn
		late := piece >= end
		if late {
			end = piece/turn*turn + turn
		}
		end = min(end, n/bulkhead.LineBytes)
		lines := s.storeV(dst[piece*bulkhead.LineBytes:end*bulkhead.LineBytes], v[min(len(v), piece*PanelRows):min(len(v), end*PanelRows)])
		for j, a := range lines.A {
			all[j] += a
			placed[j] += uint64(piece+lines.N)*a - lines.B[j]
			if !late {
				early[j] += a
			}
		}
		piece = end
	}
	return l.WrittenV(head, slot, all, early, placed)
}

// storeV writes v and zeros up to the end of the line, and returns the sum of the lines.
func storeV(dst []byte, v []float32) (sum bulkhead.Lines) {
	for len(dst) > 0 {
		var line [bulkhead.LineBytes]byte
		n := min(len(v), bulkhead.LineBytes/2)
		for d, x := range v[:n] {
			binary.LittleEndian.PutUint16(line[2*d:], toF16(x))
		}
		sum.Add(line[:])
		copy(dst, line[:])
		dst, v = dst[bulkhead.LineBytes:], v[n:]
	}
	return sum
}

func checkSlot(l *bulkhead.Layout, layer, head, slot, values int) {
	if layer < 0 || layer >= l.Layers || head < 0 || head >= l.KVHeads || slot < 0 || slot >= l.PageTokens || values != l.HeadSize {
		panic(fmt.Sprintf("kernel: %d values into slot %d of head %d of layer %d", values, slot, head, layer))
	}
}

// SumK is the sum of a layer's K as it stands, Layout.SumK.
func (s *Set) SumK(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	checkFilled(l, filled)
	sum := bulkhead.FilledTerm(filled)
	n := (filled + bulkhead.BlockTokens - 1) / bulkhead.BlockTokens * l.HeadSize * bulkhead.LineBytes
	for h := range l.KVHeads {
		rows := s.sumBlocks(page[l.KOffset(layer, h):][:n], l.HeadSize)
		sum += rows.Fold(h, 0)
	}
	return sum
}

// SumV is the sum of a layer's V as it stands, Layout.SumV.
func (s *Set) SumV(l *bulkhead.Layout, page []byte, layer, filled int) bulkhead.Sum {
	checkFilled(l, filled)
	sum := bulkhead.FilledTerm(filled)
	size, pieces := l.HeadStride()*2, l.HeadStride()/PanelRows
	for h := range l.KVHeads {
		for from := 0; from < filled; from += partTokens {
			n := min(partTokens, filled-from)
			columns := s.sumColumns(page[l.VOffset(layer, h)+from*size:][:n*size], pieces)
			sum += columns.Fold(h, pieces, from, n)
		}
	}
	return sum
}

func checkFilled(l *bulkhead.Layout, filled int) {
	if filled < 0 || filled > l.PageTokens {
		panic(fmt.Sprintf("kernel: %d tokens in a page of %d", filled, l.PageTokens))
	}
}
