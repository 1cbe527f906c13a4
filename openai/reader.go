package openai

import (
	"fmt"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
)

// Bounds of a body. They hold whatever its size.
const (
	maxDepth  = 32  // nested arrays and objects
	maxNumber = 64  // characters of a number
	maxParam  = 120 // bytes of a path in an error
	maxShown  = 40  // bytes of a client's text in an error
)

// reader reads one JSON text front to back and checks as it goes. It is its own and no json.Decoder because of what
// passes there: duplicate keys (the last one wins, while a proxy in front may have looked at the first), invalid UTF-8
// and lone surrogates (replaced), and numbers that lose digits.
//
// The first thing that is wrong sticks in ref, with the path of the value being read; from then on every read returns a
// zero value and every loop ends. So parsers read straight through and look at ref once.
type reader struct {
	data  []byte
	pos   int
	depth int
	path  []byte
	ref   *bulkhead.Refusal
}

// parse reads data as one object and nothing after it.
func parse(data []byte, object func(r *reader)) *bulkhead.Refusal {
	r := &reader{data: data}
	if at := invalidUTF8(data); at >= 0 {
		r.pos = at
		r.syntax("invalid UTF-8")
		return r.ref
	}
	r.space()
	if r.pos == len(data) {
		r.fail(bulkhead.CodeInvalid, "the request body is empty: a JSON object is needed")
		return r.ref
	}
	object(r)
	r.space()
	if r.ref == nil && r.pos < len(data) {
		r.syntax("something follows the object")
	}
	return r.ref
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; ; {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size < 2 {
			return i
		}
		i += size
	}
}

// fail notes what is wrong with the value at the reader's path.
func (r *reader) fail(code bulkhead.Code, format string, args ...any) {
	if r.ref == nil {
		r.ref = bulkhead.Refuse(code, r.param(), format, args...)
	}
}

// syntax notes that the body is no JSON.
func (r *reader) syntax(what string) {
	if r.ref == nil {
		r.ref = bulkhead.Refuse(bulkhead.CodeInvalid, "", "the request body is not valid JSON: %s at byte %d", what, r.pos)
	}
}

func (r *reader) param() string { return shorten(string(r.path), maxParam) }

// shorten cuts what a client wrote for an error message, between characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

func (r *reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

// kind is the type of the next value, as errors call it.
func (r *reader) kind() string {
	r.space()
	if r.ref != nil || r.pos == len(r.data) {
		r.syntax("the text ends early")
		return ""
	}
	switch c := r.data[r.pos]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	c, _ := utf8.DecodeRune(r.data[r.pos:])
	r.syntax(fmt.Sprintf("unexpected character %q", c))
	return ""
}

// want says whether the next value is of a kind, and notes it as ill-typed where it is not.
func (r *reader) want(kind string) bool {
	got := r.kind()
	if r.ref != nil || got == kind {
		return r.ref == nil
	}
	r.fail(bulkhead.CodeInvalid, "`%s` must be %s, got %s", r.param(), kind, got)
	return false
}

func (r *reader) literal(word string) {
	if len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		r.syntax("unknown word")
		return
	}
	r.pos += len(word)
}

// null takes a null, if one is next.
func (r *reader) null() bool {
	if r.kind() != "null" {
		return false
	}
	r.literal("null")
	return r.ref == nil
}

func (r *reader) boolean() bool {
	if !r.want("a boolean") {
		return false
	}
	if r.data[r.pos] == 't' {
		r.literal("true")
		return r.ref == nil
	}
	r.literal("false")
	return false
}
