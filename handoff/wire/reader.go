package wire

import (
	"errors"
	"io"
)

// bufferBytes is enough for the longest frame. It is small, because what a read brings of a page beyond its frame has to be
// copied once more.
const bufferBytes = HeaderBytes + MaxBody

// Reader takes frames from a stream. It allocates its buffer once and nothing more, whatever comes.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int    // what was read and not taken
	last       []byte // the frame that Next gave, header included
}

// NewReader reads from src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 2*bufferBytes)} }

// Next is the next frame. Its body is valid until the next call of a method. An *Error says that the bytes are no frame;
// every other error is the stream's, io.EOF only between two frames.
func (r *Reader) Next() (Frame, error) {
	if err := r.fill(HeaderBytes); err != nil {
		if err == io.EOF && r.end > r.start {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	h, err := parseHeader(r.buf[r.start:])
	if err != nil {
		return Frame{}, err
	}
	if err := r.fill(HeaderBytes + h.size); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	r.last = r.buf[r.start : r.start+HeaderBytes+h.size]
	r.start += len(r.last)
	f := Frame{Type: h.typ, Room: h.room, Body: r.last[HeaderBytes:]}
	if frameSum(r.last, f.Body) != h.sum {
		return Frame{}, malformed("%v: its checksum is %08x, its bytes sum to %08x", h.typ, h.sum, frameSum(r.last, f.Body))
	}
	return f, nil
}

// Raw is the bytes of the frame that Next gave last, header included.
func (r *Reader) Raw() []byte { return r.last }

// Buffered takes what was read beyond the last frame into dst, as far as dst goes.
func (r *Reader) Buffered(dst []byte) int {
	n := copy(dst, r.buf[r.start:r.end])
	r.start += n
	return n
}

var errNoProgress = errors.New("handoff: reads bring nothing")

// fill sees to it that n bytes are buffered.
func (r *Reader) fill(n int) error {
	if r.start+n > len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	for empty := 0; r.end-r.start < n; {
		got, err := r.src.Read(r.buf[r.end:])
		r.end += got
		if r.end-r.start >= n {
			return nil
		}
		if err != nil {
			return err
		}
		if empty++; got > 0 {
			empty = 0
		} else if empty > 100 {
			return errNoProgress
		}
	}
	return nil
}

// Reset reads on from another view of the same stream; what was read before is kept.
func (r *Reader) Reset(src io.Reader) { r.src = src }
