package wire

import (
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// reader takes a body apart from front to back. The first thing that is wrong stays its error; what is read after it is
// zero.
type reader struct {
	typ Type
	b   []byte
	err error
}

func fields(f Frame, want Type) *reader {
	invariant.Check(f.Type == want, "wire: a frame was parsed as one of another type")
	return &reader{typ: want, b: f.Body}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		e := malformed(format, args...)
		e.Text = r.typ.String() + ": " + e.Text
		r.err = e
	}
}

// take is the next n bytes, valid until the frame is.
func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.fail("it ends %d bytes early", n-len(r.b))
	}
	if r.err != nil {
		return make([]byte, min(n, MaxBody))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

// count is a number that must be lo to hi.
func (r *reader) count(what string, lo, hi uint32) int {
	n := r.u32()
	if n < lo || n > hi {
		r.fail("%s is %d, must be %d to %d", what, n, lo, hi)
		return 0
	}
	return int(n)
}

// zero takes bytes that have no meaning yet.
func (r *reader) zero(n int) {
	for _, c := range r.take(n) {
		if c != 0 {
			r.fail("a byte that must be zero is %#02x", c)
			return
		}
	}
}

// text is n bytes that may go into a log.
func (r *reader) text(n int, what string) string {
	s := string(r.take(n))
	if r.err != nil {
		return ""
	}
	if !isPrintable(s) {
		r.fail("its %s is not printable UTF-8", what)
		return ""
	}
	return s
}

// end is the error, if any; bytes that are left over are one.
func (r *reader) end() error {
	if len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	return r.err
}

// appendText appends a text with its length in one byte.
func appendText(b []byte, s string, limit int) []byte {
	s = printable(s, limit)
	return append(append(b, byte(len(s))), s...)
}
