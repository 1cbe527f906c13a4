package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is a value as it is printed: Python's str.
func text(m *meter, v Value) Str {
	if s, ok := v.(Str); ok {
		return s
	}
	if _, ok := v.(Undefined); ok {
		return Str{}
	}
	b := builder{meter: m}
	b.repr(v)
	return b.str()
}

// repr writes a value as Python does inside a list.
func (b *builder) repr(v Value) {
	b.meter.step(1)
	b.meter.enter()
	defer b.meter.leave()
	switch v := v.(type) {
	case nil:
		b.own("None")
	case Undefined:
		b.own("Undefined")
	case Bool:
		b.text(map[bool]string{true: "True", false: "False"}[v.v], v.client)
	case Int:
		b.text(strconv.FormatInt(v.n, 10), v.client)
	case Float:
		b.text(v.String(), v.client)
	case Str:
		b.quote(v)
	case *List:
		b.reprList(v)
	case *Dict:
		b.own("{")
		for i, key := range v.keys {
			if i > 0 {
				b.own(", ")
			}
			b.quote(key)
			b.own(": ")
			b.repr(v.values[key.text])
		}
		b.own("}")
	default:
		fail("a %s cannot be printed", kind(v))
	}
}

func (b *builder) reprList(v *List) {
	if v.lazy {
		fail("a generator cannot be printed")
	}
	open, end := "[", "]"
	if v.tuple {
		open, end = "(", ")"
		if len(v.items) == 1 {
			end = ",)"
		}
	}
	b.own(open)
	for i, item := range v.items {
		if i > 0 {
			b.own(", ")
		}
		b.repr(item)
	}
	b.own(end)
}

// quote writes a string as Python's repr: in single quotes unless only it has some, with escapes.
func (b *builder) quote(s Str) {
	mark := "'"
	if strings.Contains(s.text, "'") && !strings.Contains(s.text, `"`) {
		mark = `"`
	}
	b.own(mark)
	s.runes(func(at int, r rune, size int) bool {
		out := s.text[at : at+size]
		switch {
		case out == mark || r == '\\':
			out = `\` + out
		case r == '\n':
			out = `\n`
		case r == '\r':
			out = `\r`
		case r == '\t':
			out = `\t`
		case r == utf8.RuneError && size == 1:
			out = `\ufffd`
		case !unicode.IsPrint(r):
			switch {
			case r < 0x100:
				out = `\x` + hex(r, 2)
			case r < 0x10000:
				out = `\u` + hex(r, 4)
			default:
				out = `\U` + hex(r, 8)
			}
		}
		b.text(out, s.clientAt(at))
		return true
	})
	b.own(mark)
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}

// String is Python's writing of a float: as few digits as tell it apart, always with a point or an exponent.
func (f Float) String() string {
	switch {
	case f.digits != "":
		return f.digits
	case math.IsNaN(f.f):
		return "nan"
	case math.IsInf(f.f, 1):
		return "inf"
	case math.IsInf(f.f, -1):
		return "-inf"
	}
	if abs := math.Abs(f.f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f.f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f.f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
