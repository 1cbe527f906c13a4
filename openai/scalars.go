package openai

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
)

// number takes a number as it is written, by JSON's grammar.
func (r *reader) number() string {
	if !r.want("a number") {
		return ""
	}
	start := r.pos
	digits := func() bool {
		from := r.pos
		for r.pos < len(r.data) && r.data[r.pos] >= '0' && r.data[r.pos] <= '9' {
			r.pos++
		}
		return r.pos > from
	}
	next := func(chars string) bool {
		for i := range len(chars) {
			if r.pos < len(r.data) && r.data[r.pos] == chars[i] {
				r.pos++
				return true
			}
		}
		return false
	}
	next("-")
	zero := next("0")
	ok := digits() != zero // a leading zero stands alone
	if ok && next(".") {
		ok = digits()
	}
	if ok && next("eE") {
		next("+-")
		ok = digits()
	}
	if !ok {
		r.syntax("malformed number")
		return ""
	}
	if r.pos-start > maxNumber {
		r.fail(bulkhead.CodeInvalid, "`%s` is a number of %d characters: at most %d are taken", r.param(), r.pos-start, maxNumber)
		return ""
	}
	return string(r.data[start:r.pos])
}

// integer takes a whole number in [low, high].
func (r *reader) integer(low, high int64) int64 {
	text := r.number()
	if r.ref != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && err.(*strconv.NumError).Err == strconv.ErrSyntax:
		r.fail(bulkhead.CodeInvalid, "`%s` is %s: must be a whole number", r.param(), text)
	case err != nil || n < low || n > high:
		r.fail(bulkhead.CodeInvalid, "`%s` is %s: must be %d to %d", r.param(), text, low, high)
	}
	return n
}

// float takes a number in [low, high].
func (r *reader) float(low, high float64) float64 {
	text := r.number()
	if r.ref != nil {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x < low || x > high {
		r.fail(bulkhead.CodeInvalid, "`%s` is %s: must be %v to %v", r.param(), text, low, high)
	}
	return x
}

// text takes a string.
func (r *reader) text() string {
	if !r.want("a string") {
		return ""
	}
	r.pos++
	start := r.pos
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return string(r.data[start : r.pos-1])
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			r.syntax("control character in a string")
			return ""
		}
	}
	r.syntax("a string does not end")
	return ""
}

// escaped takes the rest of a string that started at start, from its first backslash on.
func (r *reader) escaped(start int) string {
	out := append([]byte(nil), r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		switch {
		case c == '"':
			r.pos++
			return string(out)
		case c < ' ':
			r.syntax("control character in a string")
			return ""
		case c != '\\':
			out = append(out, c)
			r.pos++
			continue
		}
		if out = r.escape(out); r.ref != nil {
			return ""
		}
	}
	r.syntax("a string does not end")
	return ""
}

// escape appends what one backslash sequence stands for.
func (r *reader) escape(out []byte) []byte {
	const plain, meaning = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if r.pos+1 < len(r.data) {
		for i := range len(plain) {
			if r.data[r.pos+1] == plain[i] {
				r.pos += 2
				return append(out, meaning[i])
			}
		}
	}
	c, ok := r.unit()
	if ok && utf16.IsSurrogate(c) {
		var low rune
		low, ok = r.unit()
		c = utf16.DecodeRune(c, low)
		ok = ok && c != utf8.RuneError
	}
	if !ok {
		r.syntax("a bad escape or half a surrogate pair in a string")
		return out
	}
	return utf8.AppendRune(out, c)
}

// unit takes a \uXXXX.
func (r *reader) unit() (rune, bool) {
	if r.pos+6 > len(r.data) || r.data[r.pos] != '\\' || r.data[r.pos+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(r.data[r.pos+2:r.pos+6]), 16, 16)
	r.pos += 6
	return rune(n), err == nil
}
