package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// test is what stands behind "is".
type test func(r *rendering, v Value, a arguments) bool

var tests map[string]test

// than makes a test of a comparison.
func than(op string) test {
	return func(r *rendering, v Value, a arguments) bool {
		return compare(r.meter, op, v, first(a, "test"))
	}
}

// ofType makes a test of a type.
func ofType[T any]() test {
	return func(r *rendering, v Value, a arguments) bool {
		_, ok := v.(T)
		return ok
	}
}

func remainder(v Value, by int64) int64 {
	n, _, whole, _, _ := number(defined(v))
	if !whole || by == 0 {
		fail("a remainder needs whole numbers")
	}
	return n % by
}

func init() {
	tests = map[string]test{
		"defined":   func(r *rendering, v Value, a arguments) bool { _, missing := v.(Undefined); return !missing },
		"undefined": ofType[Undefined](),
		"none":      func(r *rendering, v Value, a arguments) bool { return v == nil },
		"boolean":   ofType[Bool](),
		"true":      func(r *rendering, v Value, a arguments) bool { b, ok := v.(Bool); return ok && b.v },
		"false":     func(r *rendering, v Value, a arguments) bool { b, ok := v.(Bool); return ok && !b.v },
		"integer":   func(r *rendering, v Value, a arguments) bool { return kind(v) == "int" },
		"float":     func(r *rendering, v Value, a arguments) bool { return kind(v) == "float" },
		"number":    func(r *rendering, v Value, a arguments) bool { _, _, _, ok, _ := number(v); return ok },
		"string":    ofType[Str](),
		"mapping":   func(r *rendering, v Value, a arguments) bool { return kind(v) == "dict" },
		"callable":  ofType[*Func](),
		"iterable": func(r *rendering, v Value, a arguments) bool {
			switch kind(v) {
			case "str", "list", "tuple", "generator", "dict", "Undefined":
				return true
			}
			return false
		},
		"sequence": func(r *rendering, v Value, a arguments) bool {
			switch kind(v) {
			case "str", "list", "tuple", "dict", "Undefined":
				return true
			}
			return false
		},
		"odd":  func(r *rendering, v Value, a arguments) bool { return remainder(v, 2) != 0 },
		"even": func(r *rendering, v Value, a arguments) bool { return remainder(v, 2) == 0 },
		"divisibleby": func(r *rendering, v Value, a arguments) bool {
			return remainder(v, intArg(a, 0, "num", 0)) == 0
		},
		"upper": func(r *rendering, v Value, a arguments) bool {
			return cased(text(r.meter, v), unicode.IsUpper, unicode.IsLower)
		},
		"lower": func(r *rendering, v Value, a arguments) bool {
			return cased(text(r.meter, v), unicode.IsLower, unicode.IsUpper)
		},
		"sameas":      than("=="),
		"eq":          than("=="),
		"equalto":     than("=="),
		"==":          than("=="),
		"ne":          than("!="),
		"!=":          than("!="),
		"lt":          than("<"),
		"lessthan":    than("<"),
		"<":           than("<"),
		"le":          than("<="),
		"<=":          than("<="),
		"gt":          than(">"),
		"greaterthan": than(">"),
		">":           than(">"),
		"ge":          than(">="),
		">=":          than(">="),
		"in":          than("in"),
	}
}

// globals are the names that every template has.
var globals = map[string]*Func{
	"raise_exception": {"raise_exception", func(r *rendering, a arguments) Value {
		message, _ := a.get(0, "message")
		panic(&Raised{text(r.meter, message).text})
	}},
	"namespace": {"namespace", func(r *rendering, a arguments) Value {
		d := makeDict(a)
		d.namespace = true
		return d
	}},
	"dict":         {"dict", func(r *rendering, a arguments) Value { return makeDict(a) }},
	"range":        {"range", rangeOf},
	"strftime_now": {"strftime_now", strftimeNow},
	"joiner": {"joiner", func(r *rendering, a arguments) Value {
		sep, ok := a.get(0, "sep")
		if !ok {
			sep = Own(", ")
		}
		used := false
		return &Func{"joiner", func(*rendering, arguments) Value {
			if !used {
				used = true
				return Str{}
			}
			return sep
		}}
	}},
}

func makeDict(a arguments) *Dict {
	d := NewDict()
	if from, ok := a.get(0, ""); ok {
		other, ok := from.(*Dict)
		if !ok {
			fail("'%s' object is not a mapping", kind(from))
		}
		for _, key := range other.keys {
			d.Set(key, other.values[key.text])
		}
	}
	for i, name := range a.names {
		d.Set(Own(name), a.named[i])
	}
	return d
}

func rangeOf(r *rendering, a arguments) Value {
	start, stop, step := int64(0), int64(0), intArg(a, 2, "step", 1)
	switch len(a.positional) {
	case 1:
		stop = intArg(a, 0, "stop", 0)
	case 2, 3:
		start, stop = intArg(a, 0, "start", 0), intArg(a, 1, "stop", 0)
	default:
		fail("range() takes one to three numbers")
	}
	if step == 0 {
		fail("range() arg 3 must not be zero")
	}
	l := &List{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		r.step(1)
		l.items = append(l.items, Int{n: i})
	}
	return l
}

// format is Python's s % values, for %s, %r, %d, %f, %.nf and %%.
func format(m *meter, s Str, values Value) Value {
	items := []Value{values}
	if l, ok := values.(*List); ok && l.tuple {
		items = l.items
	}
	b := builder{meter: m}
	for {
		at := strings.IndexByte(s.text, '%')
		if at < 0 || at+1 >= len(s.text) {
			break
		}
		b.add(s.slice(0, at))
		verb := 1 + len(s.text[at+1:]) - len(strings.TrimLeft(s.text[at+1:], ".0123456789"))
		if at+verb >= len(s.text) {
			fail("incomplete format")
		}
		spec, precision := s.text[at+verb], strings.TrimPrefix(s.text[at+1:at+verb], ".")
		rest := s.slice(at+verb+1, len(s.text))
		if spec == '%' {
			b.add(s.slice(at, at+1))
			s = rest
			continue
		}
		if len(items) == 0 {
			fail("not enough arguments for format string")
		}
		b.format(spec, precision, items[0], s.markup)
		items = items[1:]
		s = rest
	}
	b.add(s)
	if len(items) > 0 {
		fail("not all arguments converted during string formatting")
	}
	out := b.str()
	out.markup = s.markup
	return out
}

func (b *builder) format(spec byte, precision string, v Value, markup bool) {
	defined(v)
	n, f, whole, ok, client := number(v)
	switch spec {
	case 's':
		out := text(b.meter, v)
		if markup {
			out = escaped(b.meter, out)
		}
		b.add(out)
	case 'r':
		b.repr(v)
	case 'd', 'i':
		if !ok {
			fail("%%d format: a number is required, not %s", kind(v))
		}
		if !whole {
			n = int64(f)
		}
		b.text(strconv.FormatInt(n, 10), client)
	case 'f':
		if !ok {
			fail("must be real number, not %s", kind(v))
		}
		digits, err := strconv.Atoi(precision)
		if err != nil {
			digits = 6
		}
		b.text(strconv.FormatFloat(f, 'f', min(digits, 100), 64), client)
	default:
		fail("unsupported format character %q", spec)
	}
}

func strftimeNow(r *rendering, a arguments) Value {
	layout := needStr(first(a, "strftime_now"), "format")
	b := builder{meter: r.meter}
	b.text(strftime(r.now(), layout.text), layout.anyClient())
	return b.str()
}

// strftime is C's, for the directives that templates use; others stay as they are.
func strftime(t time.Time, layout string) string {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'y': "06", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02",
		'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'e': "_2"}
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		unpadded := layout[i] == '-' && i+1 < len(layout)
		if unpadded {
			i++
		}
		out := ""
		switch goLayout, ok := layouts[layout[i]]; {
		case ok:
			out = t.Format(goLayout)
		case layout[i] == 'j':
			out = fmt.Sprintf("%03d", t.YearDay())
		case layout[i] == '%':
			out = "%"
		default:
			out = "%" + layout[i:i+1]
		}
		if unpadded {
			if out = strings.TrimLeft(out, "0 "); out == "" {
				out = "0"
			}
		}
		b.WriteString(out)
	}
	return b.String()
}
