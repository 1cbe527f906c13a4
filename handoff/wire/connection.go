package wire

import "encoding/binary"

// AppendPing appends a PING frame; its answer carries the same number.
func AppendPing(b []byte, n uint64) []byte { return number(b, TypePing, n) }

// AppendPong appends a PONG frame.
func AppendPong(b []byte, n uint64) []byte { return number(b, TypePong, n) }

func number(b []byte, t Type, n uint64) []byte {
	b, at := begin(b, t, 0)
	return end(binary.LittleEndian.AppendUint64(b, n), at)
}

// ParsePing takes a PING frame apart.
func ParsePing(f Frame) (uint64, error) {
	r := fields(f, TypePing)
	n := r.u64()
	return n, r.end()
}

// ParsePong takes a PONG frame apart.
func ParsePong(f Frame) (uint64, error) {
	r := fields(f, TypePong)
	n := r.u64()
	return n, r.end()
}

// Ring is the shared memory that a target has mapped.
type Ring struct {
	Slots     int
	SlotBytes uint64 // from one slot to the next
}

// AppendRing appends a RING frame.
func AppendRing(b []byte, g Ring) []byte {
	b, at := begin(b, TypeRing, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(g.Slots))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return end(binary.LittleEndian.AppendUint64(b, g.SlotBytes), at)
}

// ParseRing takes a RING frame apart.
func ParseRing(f Frame) (Ring, error) {
	r := fields(f, TypeRing)
	g := Ring{Slots: r.count("slots", 1, 1<<16)}
	r.zero(4)
	g.SlotBytes = r.u64()
	if g.SlotBytes < 1 || g.SlotBytes > 1<<32 {
		r.fail("slots of %d bytes", g.SlotBytes)
	}
	return g, r.end()
}

// AppendCredit appends a CREDIT frame.
func AppendCredit(b []byte, slot int) []byte {
	b, at := begin(b, TypeCredit, 0)
	return end(binary.LittleEndian.AppendUint32(b, uint32(slot)), at)
}

// ParseCredit takes a CREDIT frame apart.
func ParseCredit(f Frame) (slot int, err error) {
	r := fields(f, TypeCredit)
	slot = r.count("slot", 0, 1<<16-1)
	return slot, r.end()
}
