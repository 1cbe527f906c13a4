package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Code says why a connection is closed.
type Code uint16

// The codes. Those up to CodePageSize, and CodeSecret and CodeName, refuse a peer in the handshake.
const (
	CodeVersion     Code = 1  // no version of the protocol in common
	CodeRole        Code = 2  // a source dialled a source's port, or a target answered
	CodeModel       Code = 3  // another model
	CodeKVType      Code = 4  // another type of KV
	CodeLayout      Code = 5  // another number of layers, of KV heads, or head size
	CodePageSize    Code = 6  // pages of another size
	CodeSecret      Code = 7  // the peer does not know the cluster's secret
	CodeName        Code = 8  // a name that the certificate does not prove, or not the one that was dialled
	CodeMalformed   Code = 9  // bytes that are no frame
	CodeProtocol    Code = 10 // a frame that the state does not allow
	CodeLimit       Code = 11 // a limit was passed
	CodeTimeout     Code = 12 // nothing was heard, or nothing moved, for too long
	CodeClosing     Code = 13 // the worker is shutting down
	CodeConnections Code = 14 // too many connections
	CodeNetwork     Code = 15 // the connection broke; never sent
)

var codeNames = [...]string{CodeVersion: "version", CodeRole: "role", CodeModel: "model", CodeKVType: "kv type",
	CodeLayout: "layout", CodePageSize: "page size", CodeSecret: "secret", CodeName: "name", CodeMalformed: "malformed",
	CodeProtocol: "protocol", CodeLimit: "limit", CodeTimeout: "timeout", CodeClosing: "closing",
	CodeConnections: "connections", CodeNetwork: "network"}

func (c Code) String() string {
	if int(c) < len(codeNames) && codeNames[c] != "" {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// MaxText is the longest text of an error, in bytes.
const MaxText = 1024

// Error is why a connection is closed: what a peer is told in an ERROR frame, and what its rooms are lost with.
type Error struct {
	Code Code
	Text string
	Peer bool // the peer said it
}

func (e *Error) Error() string {
	if e.Peer {
		return fmt.Sprintf("handoff: the peer says: %v: %s", e.Code, e.Text)
	}
	return fmt.Sprintf("handoff: %v: %s", e.Code, e.Text)
}

// Errorf makes an error with a formatted text.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Text: fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) *Error { return Errorf(CodeMalformed, format, args...) }

// AppendError appends an ERROR frame. A text that is too long is cut, and what is not printable is replaced.
func AppendError(b []byte, e *Error) []byte {
	b, at := begin(b, TypeError, 0)
	text := printable(e.Text, MaxText)
	b = binary.LittleEndian.AppendUint16(b, uint16(e.Code))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return end(append(b, text...), at)
}

// ParseError takes an ERROR frame apart. A code that is not known is kept: a later version may have more.
func ParseError(f Frame) (*Error, error) {
	r := fields(f, TypeError)
	e := &Error{Code: Code(r.u16()), Text: r.text(int(r.u16()), "text"), Peer: true}
	return e, r.end()
}

// printable cuts a text to at most n bytes of printable UTF-8 on one line.
func printable(s string, n int) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == utf8.RuneError {
			return '?'
		}
		return c
	}, s)
	for len(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// isPrintable reports whether a peer's text may go into a log as it stands.
func isPrintable(s string) bool { return printable(s, len(s)) == s }
