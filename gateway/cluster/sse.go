package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errLine is a line that is longer than any of an answer.
var errLine = fmt.Errorf("a line has more than %d bytes", maxLine)

// eventReader reads server-sent events, of which each is one line of data as workers write them.
type eventReader struct {
	r    *bufio.Reader
	line []byte
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{r: bufio.NewReaderSize(r, 16<<10)} }

// next is the data of the next event. The error is io.EOF after "[DONE]" and at a clean end of the stream, errLine for a line
// that is too long, and else the connection's. The data is valid until the next call.
func (e *eventReader) next() ([]byte, error) {
	for {
		line, err := e.readLine()
		if err != nil {
			return nil, err
		}
		data, found := bytes.CutPrefix(line, []byte("data:"))
		if !found { // an empty line between events, a comment, a field that means nothing here
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return nil, io.EOF
		}
		return data, nil
	}
}

func (e *eventReader) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.r.ReadSlice('\n')
		if len(e.line)+len(part) > maxLine {
			return nil, errLine
		}
		e.line = append(e.line, part...)
		switch {
		case err == nil:
			return e.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(e.line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
