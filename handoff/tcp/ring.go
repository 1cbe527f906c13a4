package tcp

import (
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// ring is memory that the two ends of one connection share: slots of a page each. The source writes a page into a free slot
// and says so in a PAGE frame; the target copies it out, and gives the slot back by a CREDIT. The source alone can write
// there, and it puts there only pages of rooms that this peer has entered.
//
// The target sums its copy, never the ring: what a hostile source changes meanwhile either is in the copy or is not.
type ring struct {
	mem   []byte
	size  int // bytes from one slot to the next: a page, rounded up
	page  int // bytes of a page
	slots int
	unmap func()

	free []int  // the source's: slots to write to
	out  []bool // the source's: slots that the target reads
}

const slotAlign = 4096

// slotBytes is the size of a slot for pages of a size.
func slotBytes(page int) int { return (page + slotAlign - 1) / slotAlign * slotAlign }

func newRing(mem []byte, page, slots int, unmap func()) *ring {
	g := &ring{mem: mem, size: slotBytes(page), page: page, slots: slots, unmap: unmap, out: make([]bool, slots)}
	for i := range slots {
		g.free = append(g.free, slots-1-i)
	}
	return g
}

func (g *ring) shape() wire.Ring { return wire.Ring{Slots: g.slots, SlotBytes: uint64(g.size)} }

func (g *ring) slot(i int) []byte { return g.mem[i*g.size : i*g.size+g.page] }

func (g *ring) offset(i int) uint64 { return uint64(i * g.size) }

// at is the slot at an offset that the source has named.
func (g *ring) at(offset uint64) (int, error) {
	size := uint64(g.size)
	if offset%size != 0 || offset/size >= uint64(g.slots) {
		return 0, wire.Errorf(wire.CodeProtocol, "a page at %d of shared memory, which has %d slots of %d bytes", offset, g.slots, g.size)
	}
	return int(offset / size), nil
}

// take gives a free slot to write to.
func (g *ring) take() (int, bool) {
	n := len(g.free)
	if n == 0 {
		return 0, false
	}
	i := g.free[n-1]
	g.free, g.out[i] = g.free[:n-1], true
	return i, true
}

// give takes a slot back. It reports false where the target did not have it.
func (g *ring) give(i int) bool {
	if i >= g.slots || !g.out[i] {
		return false
	}
	g.out[i] = false
	g.free = append(g.free, i)
	return true
}

func (g *ring) close() { g.unmap() }

// useRing switches to the ring that the target has mapped.
func (s *serving) useRing(g wire.Ring) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.o.ring.given(s.pair)
	switch {
	case s.ring != nil || mine == nil:
		return wire.Errorf(wire.CodeProtocol, "RING, and no shared memory was handed out")
	case mine.shape() != g:
		return wire.Errorf(wire.CodeProtocol, "RING of %d slots of %d bytes, and %d of %d were handed out", g.Slots, g.SlotBytes, mine.slots, mine.size)
	}
	s.ring = mine
	return nil
}

// credit takes a slot back.
func (s *serving) credit(slot int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil || !s.ring.give(slot) {
		return wire.Errorf(wire.CodeProtocol, "CREDIT of slot %d, which the target does not have", slot)
	}
	s.wake()
	return nil
}
