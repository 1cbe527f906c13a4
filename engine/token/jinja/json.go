package jinja

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON reads a client's JSON: the order of keys and the digits of numbers are kept, and all of it is the client's.
func FromJSON(data []byte) (v Value, err error) {
	defer catch(&err)
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v = readJSON(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail("more than one JSON value")
	}
	return v, nil
}

func readJSON(d *json.Decoder, depth int) Value {
	if depth > nestingLimit {
		fail("JSON is nested more than %d deep", nestingLimit)
	}
	token, err := d.Token()
	if err != nil {
		fail("JSON: %v", err)
	}
	switch t := token.(type) {
	case bool:
		return Bool{t, true}
	case string:
		return Client(t)
	case json.Number:
		return jsonNumber(string(t))
	case json.Delim:
		if t == '[' {
			list := NewList()
			for d.More() {
				list.items = append(list.items, readJSON(d, depth+1))
			}
			endJSON(d)
			return list
		}
		dict := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				fail("JSON: %v", err)
			}
			dict.Set(Client(key.(string)), readJSON(d, depth+1))
		}
		endJSON(d)
		return dict
	}
	return nil
}

func endJSON(d *json.Decoder) {
	if _, err := d.Token(); err != nil {
		fail("JSON: %v", err)
	}
}

func jsonNumber(digits string) Value {
	if strings.ContainsAny(digits, ".eE") {
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			fail("JSON: the number %s is out of range", digits)
		}
		return Float{f: f, client: true}
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return Int{n, true}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		fail("JSON: the number %s is out of range", digits)
	}
	return Float{f: f, digits: digits, client: true}
}

// jsonStyle is how tojson lays out, as the arguments of Python's json.dumps.
type jsonStyle struct {
	item, key Str  // separators
	pretty    bool // a line for each element
	indent    Str
	sorted    bool
}

// json writes a value as json.dumps(ensure_ascii=False) does, which is Hugging Face's tojson.
func (b *builder) json(v Value, st jsonStyle, level int) {
	b.meter.step(1)
	b.meter.enter()
	defer b.meter.leave()
	switch v := v.(type) {
	case nil:
		b.own("null")
	case Bool:
		b.text(strconv.FormatBool(v.v), v.client)
	case Int:
		b.text(strconv.FormatInt(v.n, 10), v.client)
	case Float:
		spelled := strings.NewReplacer("nan", "NaN", "inf", "Infinity").Replace(v.String())
		b.text(spelled, v.client)
	case Str:
		b.jsonString(v)
	case *List:
		if v.lazy {
			fail("Object of type generator is not JSON serializable")
		}
		b.jsonItems("[", "]", len(v.items), st, level, func(i int) { b.json(v.items[i], st, level+1) })
	case *Dict:
		if v.namespace {
			fail("Object of type Namespace is not JSON serializable")
		}
		keys := v.keys
		if st.sorted {
			keys = sortedKeys(v)
		}
		b.jsonItems("{", "}", len(keys), st, level, func(i int) {
			b.jsonString(keys[i])
			b.add(st.key)
			b.json(v.values[keys[i].text], st, level+1)
		})
	default:
		fail("Object of type %s is not JSON serializable", kind(v))
	}
}

func (b *builder) jsonItems(open, end string, n int, st jsonStyle, level int, item func(int)) {
	b.own(open)
	for i := range n {
		if i > 0 {
			b.add(st.item)
		}
		b.newline(st, level+1)
		item(i)
	}
	if n > 0 {
		b.newline(st, level)
	}
	b.own(end)
}

func (b *builder) newline(st jsonStyle, level int) {
	if !st.pretty {
		return
	}
	b.own("\n")
	for range level {
		b.add(st.indent)
	}
}

func (b *builder) jsonString(s Str) {
	b.own(`"`)
	s.runes(func(at int, r rune, size int) bool {
		out := s.text[at : at+size]
		switch {
		case r == '"' || r == '\\':
			out = `\` + out
		case r == '\n':
			out = `\n`
		case r == '\r':
			out = `\r`
		case r == '\t':
			out = `\t`
		case r == '\b':
			out = `\b`
		case r == '\f':
			out = `\f`
		case r < 0x20:
			out = `\u` + hex(r, 4)
		case r == utf8.RuneError && size == 1:
			out = "\uFFFD"
		}
		b.text(out, s.clientAt(at))
		return true
	})
	b.own(`"`)
}
