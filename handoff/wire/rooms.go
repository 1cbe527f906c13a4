package wire

import (
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// MaxPages is the most pages of one room: a window of 2^31 tokens in the smallest pages.
const MaxPages = 1 << 27

// AppendEnter appends an ENTER frame.
func AppendEnter(b []byte, room bulkhead.Room, claim handoff.Claim) []byte {
	b, at := begin(b, TypeEnter, room)
	return end(append(b, claim[:]...), at)
}

// ParseEnter takes an ENTER frame apart.
func ParseEnter(f Frame) (handoff.Claim, error) {
	r := fields(f, TypeEnter)
	c := handoff.Claim(r.take(16))
	return c, r.end()
}

// AppendOffer appends an OFFER frame: the first pages of the room can be pulled.
func AppendOffer(b []byte, room bulkhead.Room, pages int) []byte {
	b, at := begin(b, TypeOffer, room)
	return end(binary.LittleEndian.AppendUint32(b, uint32(pages)), at)
}

// ParseOffer takes an OFFER frame apart.
func ParseOffer(f Frame) (pages int, err error) {
	r := fields(f, TypeOffer)
	pages = r.count("pages", 0, MaxPages)
	return pages, r.end()
}

// AppendPull appends a PULL frame for count pages from first on.
func AppendPull(b []byte, room bulkhead.Room, first, count int) []byte {
	b, at := begin(b, TypePull, room)
	b = binary.LittleEndian.AppendUint32(b, uint32(first))
	return end(binary.LittleEndian.AppendUint32(b, uint32(count)), at)
}

// ParsePull takes a PULL frame apart.
func ParsePull(f Frame) (first, count int, err error) {
	r := fields(f, TypePull)
	first = r.count("first page", 0, MaxPages-1)
	count = r.count("number of pages", 1, 1<<16)
	return first, count, r.end()
}

// Page announces one page. Unless it goes by the ring, its bytes follow the frame.
type Page struct {
	Page   int
	Bytes  int
	Ring   bool
	Offset uint64 // in the ring
}

// AppendPage appends a PAGE frame, without the page.
func AppendPage(b []byte, room bulkhead.Room, p Page) []byte {
	b, at := begin(b, TypePage, room)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Page))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Bytes))
	via := byte(0)
	if p.Ring {
		via = 1
	}
	b = append(b, via, 0, 0, 0, 0, 0, 0, 0)
	return end(binary.LittleEndian.AppendUint64(b, p.Offset), at)
}

// ParsePage takes a PAGE frame apart.
func ParsePage(f Frame) (Page, error) {
	r := fields(f, TypePage)
	p := Page{Page: r.count("page", 0, MaxPages-1), Bytes: r.count("bytes", 1, 1<<31-1)}
	via := r.u8()
	r.zero(7)
	p.Ring, p.Offset = via == 1, r.u64()
	switch {
	case via > 1:
		r.fail("it goes by way %d, must be 0 or 1", via)
	case via == 0 && p.Offset != 0:
		r.fail("it has an offset of %d and goes by the stream", p.Offset)
	}
	return p, r.end()
}

// AppendCommit appends a COMMIT frame.
func AppendCommit(b []byte, room bulkhead.Room) []byte {
	b, at := begin(b, TypeCommit, room)
	return end(b, at)
}

// noPage stands for no page in an ABANDON.
const noPage = 1<<32 - 1

// AppendAbandon appends an ABANDON frame; page is one that could not be proven, or -1.
func AppendAbandon(b []byte, room bulkhead.Room, page int) []byte {
	b, at := begin(b, TypeAbandon, room)
	return end(binary.LittleEndian.AppendUint32(b, uint32(page)), at)
}

// ParseAbandon takes an ABANDON frame apart.
func ParseAbandon(f Frame) (page int, err error) {
	r := fields(f, TypeAbandon)
	n := r.u32()
	if n != noPage && n >= MaxPages {
		r.fail("page is %d, must be 0 to %d or none", n, MaxPages-1)
	}
	if n == noPage {
		return -1, r.end()
	}
	return int(n), r.end()
}

// AppendDone appends a DONE frame.
func AppendDone(b []byte, room bulkhead.Room) []byte {
	b, at := begin(b, TypeDone, room)
	return end(b, at)
}
