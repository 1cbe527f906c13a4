package bulkhead

import (
	"encoding/binary"
	"fmt"
)

// BlockTokens is how many tokens K is grouped by. Within a block K lies dimension by dimension, 16 tokens side by side, so
// that the scores of 16 tokens come out of one vector register and no reduction crosses lanes.
const BlockTokens = 16

// LineBytes is the unit of a sum: one dimension of a block of K, or 16 dimensions of one token of V.
const LineBytes = 32

const (
	sealFixed = 64 // bytes in front of the sums: identity, filled, room for more
	cacheLine = 64
)

// Layout says how a page's bytes lie. A page holds PageTokens slots in every layer, K and V, as F16, with its seal in
// front:
//
//	| seal | layer 0: K, V | layer 1: K, V | ...
//
//	seal:  identity 16 B, filled uint32, 44 B zero, then Layers x {K sum, V sum} uint64; padded to 64 B
//	K:     [KVHeads][PageTokens/16][HeadSize][16 tokens] F16: a line is one dimension of 16 tokens
//	V:     [KVHeads][PageTokens][HeadStride] F16: a line is 16 dimensions of one token
//
// HeadStride is HeadSize rounded up to 16; what the rounding adds is zero. Slots that are not filled are zero: pages are
// cleared before they are written, and sums count on that.
//
// K and V of one head are contiguous, so that heads can be read by different threads, and every K and V region starts on a
// cache line. The cost of the blocked K is that a token is appended as HeadSize scattered halfwords.
type Layout struct {
	Layers     int // transformer layers
	KVHeads    int // KV heads a layer
	HeadSize   int // dimensions of a head
	PageTokens int // token slots of a page, a multiple of BlockTokens
}

// Check reports what is wrong with the layout.
func (l Layout) Check() error {
	switch {
	case l.Layers < 1 || l.Layers > 1024:
		return fmt.Errorf("layout: %d layers, must be 1 to 1024", l.Layers)
	case l.KVHeads < 1 || l.KVHeads > 1024:
		return fmt.Errorf("layout: %d KV heads, must be 1 to 1024", l.KVHeads)
	case l.HeadSize < 2 || l.HeadSize > 1024 || l.HeadSize%2 != 0:
		return fmt.Errorf("layout: head size %d, must be even and 2 to 1024", l.HeadSize)
	case l.PageTokens < BlockTokens || l.PageTokens > 4096 || l.PageTokens%BlockTokens != 0:
		return fmt.Errorf("layout: page of %d tokens, must be a multiple of %d, 16 to 4096", l.PageTokens, BlockTokens)
	}
	return nil
}

// HeadStride is the number of F16 that a token's V takes in a head.
func (l Layout) HeadStride() int { return roundUp(l.HeadSize, LineBytes/2) }

// KHeadBytes is the size of one head's K in one layer of a page.
func (l Layout) KHeadBytes() int { return l.PageTokens * l.HeadSize * 2 }

// VHeadBytes is the size of one head's V in one layer of a page.
func (l Layout) VHeadBytes() int { return l.PageTokens * l.HeadStride() * 2 }

// SealBytes is the size of the seal in front of a page.
func (l Layout) SealBytes() int { return roundUp(sealFixed+l.Layers*16, cacheLine) }

// LayerBytes is the size of one layer's K and V in a page.
func (l Layout) LayerBytes() int {
	return roundUp(l.KVHeads*l.KHeadBytes(), cacheLine) + roundUp(l.KVHeads*l.VHeadBytes(), cacheLine)
}

// PageBytes is the size of a page, seal included.
func (l Layout) PageBytes() int { return l.SealBytes() + l.Layers*l.LayerBytes() }

// KOffset is where the K of a head of a layer starts in a page.
func (l Layout) KOffset(layer, head int) int {
	return l.SealBytes() + layer*l.LayerBytes() + head*l.KHeadBytes()
}

// VOffset is where the V of a head of a layer starts in a page.
func (l Layout) VOffset(layer, head int) int {
	return l.SealBytes() + layer*l.LayerBytes() + roundUp(l.KVHeads*l.KHeadBytes(), cacheLine) + head*l.VHeadBytes()
}

// Pages is how many pages n tokens take.
func (l Layout) Pages(n Tokens) int { return (int(n) + l.PageTokens - 1) / l.PageTokens }

// AppendFingerprint appends an encoding of the layout, the KV type and the definition of sums included, that differs for
// different ones.
func (l Layout) AppendFingerprint(b []byte) []byte {
	b = append(b, "kv2:f16:blocked16"...)
	for _, n := range []int{l.Layers, l.KVHeads, l.HeadSize, l.PageTokens} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
