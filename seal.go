package bulkhead

import (
	"encoding/binary"
	"encoding/hex"
)

// Identity says what a page holds: a keyed hash over the tenant's key, the model's fingerprint, the KV layout, the identity
// of the page before it and the page's own tokens. The reader computes it from its own request, so a stale, foreign,
// misplaced or missing page all look the same: wrong. The zero Identity is that of no page.
type Identity [16]byte

func (id Identity) String() string { return hex.EncodeToString(id[:]) }

// Seal is the seal of one page, in place: a view of the first SealBytes of the page. It says what the page says it holds,
// which is not yet what it holds; only a reader who compares makes it so.
type Seal struct{ b []byte }

// SealOf is the seal in front of a page.
func (l Layout) SealOf(page []byte) Seal { return Seal{page[:l.SealBytes():l.SealBytes()]} }

// Identity is who the page says it is.
func (s Seal) Identity() Identity { return Identity(s.b[:16]) }

// SetIdentity seals the page as id.
func (s Seal) SetIdentity(id Identity) { copy(s.b, id[:]) }

// Filled is how many token slots the page says are filled.
func (s Seal) Filled() int { return int(binary.LittleEndian.Uint32(s.b[16:])) }

// SetFilled sets how many token slots are filled.
func (s Seal) SetFilled(n int) { binary.LittleEndian.PutUint32(s.b[16:], uint32(n)) }

// K is the sum of the layer's K that the seal holds.
func (s Seal) K(layer int) Sum { return s.sum(2 * layer) }

// V is the sum of the layer's V that the seal holds.
func (s Seal) V(layer int) Sum { return s.sum(2*layer + 1) }

// SetK replaces the sum of the layer's K.
func (s Seal) SetK(layer int, sum Sum) { s.setSum(2*layer, sum) }

// SetV replaces the sum of the layer's V.
func (s Seal) SetV(layer int, sum Sum) { s.setSum(2*layer+1, sum) }

func (s Seal) sum(i int) Sum { return Sum(binary.LittleEndian.Uint64(s.b[sealFixed+8*i:])) }

func (s Seal) setSum(i int, sum Sum) { binary.LittleEndian.PutUint64(s.b[sealFixed+8*i:], uint64(sum)) }

// Bytes is the seal as it lies in memory and travels with its page.
func (s Seal) Bytes() []byte { return s.b }
