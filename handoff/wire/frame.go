package wire

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/bulkhead-llm/bulkhead"
)

var (
	magic      = [4]byte{'b', 'h', 'o', 'f'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Frame is one frame as it was read: its header is in order and its body is what was sent. What the body says has still to
// be parsed, by the function of its type.
type Frame struct {
	Type Type
	Room bulkhead.Room
	Body []byte
}

// header is a frame's header, taken apart.
type header struct {
	typ  Type
	room bulkhead.Room
	size int
	sum  uint32
}

// parseHeader refuses whatever a frame cannot start with, before anything is allocated or read for its body.
func parseHeader(b []byte) (header, error) {
	h := header{typ: Type(b[4]), room: bulkhead.Room(binary.LittleEndian.Uint64(b[8:])), sum: binary.LittleEndian.Uint32(b[20:])}
	size := binary.LittleEndian.Uint32(b[16:])
	switch {
	case [4]byte(b) != magic:
		return h, malformed("a frame starts with %x, not with %x: this is no handoff", b[:4], magic[:])
	case !h.typ.known():
		return h, malformed("a frame of unknown type %d", uint8(h.typ))
	case b[5] != 0 || b[6] != 0 || b[7] != 0:
		return h, malformed("%v: the bytes 5 to 7 of its header are %x, not zero", h.typ, b[5:8])
	}
	s := shapes[h.typ]
	switch {
	case size < uint32(s.min) || size > uint32(s.max):
		return h, malformed("%v: a body of %d bytes, must be %d to %d", h.typ, size, s.min, s.max)
	case s.room && (h.room == 0 || h.room>>63 != 0):
		return h, malformed("%v: room %v is none", h.typ, h.room)
	case !s.room && h.room != 0:
		return h, malformed("%v: it names room %v and is about none", h.typ, h.room)
	}
	h.size = int(size)
	return h, nil
}

// frameSum is the checksum of a header without its sum, and a body.
func frameSum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:20], castagnoli), castagnoli, body)
}

// begin appends a header whose body follows; end completes it.
func begin(b []byte, t Type, room bulkhead.Room) ([]byte, int) {
	at := len(b)
	b = append(b, magic[:]...)
	b = append(b, byte(t), 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(room))
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0), at
}

func end(b []byte, at int) []byte {
	head, body := b[at:at+HeaderBytes], b[at+HeaderBytes:]
	binary.LittleEndian.PutUint32(head[16:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[20:], frameSum(head, body))
	return b
}
