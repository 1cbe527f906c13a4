package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Methods of strings, lists and dicts, as Python has them.

type method[T any] func(r *rendering, of T, a arguments) Value

var stringMethods map[string]method[Str]

// The tables refer to functions that refer to the tables, so they are filled at start.
func init() {
	stringMethods = map[string]method[Str]{
		"strip":        func(r *rendering, s Str, a arguments) Value { return strip(s, a, true, true) },
		"lstrip":       func(r *rendering, s Str, a arguments) Value { return strip(s, a, true, false) },
		"rstrip":       func(r *rendering, s Str, a arguments) Value { return strip(s, a, false, true) },
		"upper":        func(r *rendering, s Str, a arguments) Value { return upper(r, s) },
		"lower":        func(r *rendering, s Str, a arguments) Value { return lower(r, s) },
		"capitalize":   func(r *rendering, s Str, a arguments) Value { return capitalize(r, s) },
		"title":        func(r *rendering, s Str, a arguments) Value { return title(r, s, unicode.IsLetter) },
		"split":        func(r *rendering, s Str, a arguments) Value { return splitMethod(r, s, a, false) },
		"rsplit":       func(r *rendering, s Str, a arguments) Value { return splitMethod(r, s, a, true) },
		"splitlines":   splitlines,
		"startswith":   func(r *rendering, s Str, a arguments) Value { return affix(s, a, strings.HasPrefix) },
		"endswith":     func(r *rendering, s Str, a arguments) Value { return affix(s, a, strings.HasSuffix) },
		"removeprefix": func(r *rendering, s Str, a arguments) Value { return removeAffix(s, a, true) },
		"removesuffix": func(r *rendering, s Str, a arguments) Value { return removeAffix(s, a, false) },
		"replace":      func(r *rendering, s Str, a arguments) Value { return replace(r, s, a) },
		"find":         func(r *rendering, s Str, a arguments) Value { return find(s, a, strings.Index) },
		"rfind":        func(r *rendering, s Str, a arguments) Value { return find(s, a, strings.LastIndex) },
		"count": func(r *rendering, s Str, a arguments) Value {
			return Int{n: int64(strings.Count(s.text, needStr(first(a, "count"), "argument").text))}
		},
		"join":    func(r *rendering, s Str, a arguments) Value { return join(r, first(a, "join"), s, "") },
		"isdigit": func(r *rendering, s Str, a arguments) Value { return all(s, unicode.IsDigit) },
		"isalpha": func(r *rendering, s Str, a arguments) Value { return all(s, unicode.IsLetter) },
		"isspace": func(r *rendering, s Str, a arguments) Value { return all(s, isSpace) },
		"isalnum": func(r *rendering, s Str, a arguments) Value {
			return all(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
		},
		"isupper": func(r *rendering, s Str, a arguments) Value {
			return Bool{v: cased(s, unicode.IsUpper, unicode.IsLower)}
		},
		"islower": func(r *rendering, s Str, a arguments) Value {
			return Bool{v: cased(s, unicode.IsLower, unicode.IsUpper)}
		},
	}
}

// first is the one argument that a method needs.
func first(a arguments, method string) Value {
	v, ok := a.get(0, "")
	if !ok {
		fail("%s() needs an argument", method)
	}
	return v
}

func needStr(v Value, what string) Str {
	s, ok := defined(v).(Str)
	if !ok {
		fail("%s must be str, not %s", what, kind(v))
	}
	return s
}

// intArg is an argument that is a number, or what it is when it is not given.
func intArg(a arguments, place int, name string, fallback int64) int64 {
	v, ok := a.get(place, name)
	if !ok || v == nil {
		return fallback
	}
	n, _, whole, _, _ := number(v)
	if !whole {
		fail("%s must be an integer, not %s", name, kind(v))
	}
	return n
}

func strip(s Str, a arguments, left, right bool) Value {
	in := isSpace
	if v, ok := a.get(0, "chars"); ok && v != nil {
		chars := needStr(v, "strip arg").text
		in = func(r rune) bool { return strings.ContainsRune(chars, r) }
	}
	return s.trim(left, right, in)
}

func upper(r *rendering, s Str) Str {
	return s.mapRunes(r.meter, func(c rune) string {
		if c == 'ß' {
			return "SS"
		}
		return string(unicode.ToUpper(c))
	})
}

func lower(r *rendering, s Str) Str {
	return s.mapRunes(r.meter, func(c rune) string { return string(unicode.ToLower(c)) })
}

func capitalize(r *rendering, s Str) Str {
	start := true
	return s.mapRunes(r.meter, func(c rune) string {
		if start {
			start = false
			return string(unicode.ToTitle(c))
		}
		return string(unicode.ToLower(c))
	})
}

// title has words begin with a capital. What is in a word is different for the method and the filter.
func title(r *rendering, s Str, inWord func(rune) bool) Str {
	inside := false
	return s.mapRunes(r.meter, func(c rune) string {
		was := inside
		inside = inWord(c)
		if was {
			return string(unicode.ToLower(c))
		}
		return string(unicode.ToTitle(c))
	})
}

func splitMethod(r *rendering, s Str, a arguments, fromEnd bool) Value {
	limit := int(intArg(a, 1, "maxsplit", -1))
	sep, ok := a.get(0, "sep")
	var parts []Str
	switch {
	case !ok || sep == nil:
		parts = fields(s, limit)
	case needStr(sep, "separator").text == "":
		fail("empty separator")
	case fromEnd:
		parts = rsplit(s, sep.(Str).text, limit)
	default:
		parts = s.split(sep.(Str).text, limit)
	}
	r.step(len(parts) + len(s.text)>>6)
	return strList(parts)
}

func strList(parts []Str) *List {
	l := &List{items: make([]Value, len(parts))}
	for i, part := range parts {
		l.items[i] = part
	}
	return l
}

// fields is the words between white space, at most limit and a rest.
func fields(s Str, limit int) (parts []Str) {
	for s = s.trim(true, false, isSpace); s.text != ""; s = s.trim(true, false, isSpace) {
		end := strings.IndexFunc(s.text, isSpace)
		if end < 0 || limit == 0 {
			return append(parts, s.trim(false, limit == 0, isSpace))
		}
		parts = append(parts, s.slice(0, end))
		s = s.slice(end, len(s.text))
		limit--
	}
	return parts
}

func rsplit(s Str, sep string, limit int) []Str {
	all := s.split(sep, -1)
	if limit < 0 || len(all)-1 <= limit {
		return all
	}
	tail := all[len(all)-limit:]
	size := limit * len(sep)
	for _, part := range tail {
		size += len(part.text)
	}
	return append([]Str{s.slice(0, len(s.text)-size)}, tail...)
}

func splitlines(r *rendering, s Str, a arguments) Value {
	var parts []Str
	for s.text != "" {
		end := strings.IndexAny(s.text, "\r\n")
		if end < 0 {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s.slice(0, end))
		if strings.HasPrefix(s.text[end:], "\r\n") {
			end++
		}
		s = s.slice(end+1, len(s.text))
	}
	r.step(len(parts))
	return strList(parts)
}

// affix tries one string or a tuple of them.
func affix(s Str, a arguments, has func(s, affix string) bool) Value {
	v := first(a, "startswith or endswith")
	if l, ok := v.(*List); ok && l.tuple {
		for _, item := range l.items {
			if has(s.text, needStr(item, "prefix or suffix").text) {
				return Bool{v: true}
			}
		}
		return Bool{}
	}
	return Bool{v: has(s.text, needStr(v, "prefix or suffix").text)}
}

func removeAffix(s Str, a arguments, prefix bool) Value {
	affix := needStr(first(a, "removeprefix or removesuffix"), "affix").text
	switch {
	case prefix && strings.HasPrefix(s.text, affix):
		return s.slice(len(affix), len(s.text))
	case !prefix && strings.HasSuffix(s.text, affix):
		return s.slice(0, len(s.text)-len(affix))
	}
	return s
}

func replace(r *rendering, s Str, a arguments) Value {
	if len(a.positional) < 2 {
		fail("replace() needs two arguments")
	}
	old, new := needStr(a.positional[0], "replace() argument 1"), needStr(a.positional[1], "replace() argument 2")
	limit := int(intArg(a, 2, "count", -1))
	if s.markup {
		new = escaped(r.meter, new)
	}
	b := builder{meter: r.meter}
	if old.text == "" {
		between(&b, s, new, limit)
	} else {
		for i, part := range s.split(old.text, limit) {
			r.step(1)
			if i > 0 {
				b.add(new)
			}
			b.add(part)
		}
	}
	out := b.str()
	out.markup = s.markup
	return out
}

// between writes a string with another before each character and at the end.
func between(b *builder, s, new Str, limit int) {
	s.runes(func(at int, _ rune, size int) bool {
		if limit != 0 {
			b.add(new)
			limit--
		}
		b.add(s.slice(at, at+size))
		return true
	})
	if limit != 0 {
		b.add(new)
	}
}

// find is a place in characters, as in Python.
func find(s Str, a arguments, search func(s, sub string) int) Value {
	at := search(s.text, needStr(first(a, "find"), "argument").text)
	if at > 0 {
		at = utf8.RuneCountInString(s.text[:at])
	}
	return Int{n: int64(at)}
}

func all(s Str, in func(rune) bool) Value {
	return Bool{v: s.text != "" && strings.IndexFunc(s.text, func(r rune) bool { return !in(r) }) < 0}
}

func cased(s Str, want, other func(rune) bool) bool {
	return strings.IndexFunc(s.text, want) >= 0 && strings.IndexFunc(s.text, other) < 0
}
