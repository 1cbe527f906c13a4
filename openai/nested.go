package openai

import (
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
)

// array reads an array of at most limit elements. The path names the element while each reads it.
func (r *reader) array(limit int, each func(i int)) {
	if !r.want("an array") || !r.enter() {
		return
	}
	base := len(r.path)
	for i := 0; r.more(']', i == 0); i++ {
		if i == limit {
			r.fail(bulkhead.CodeInvalid, "`%s` has more than %d elements", r.param(), limit)
			return
		}
		r.path = append(r.path, '[')
		r.path = strconv.AppendInt(r.path, int64(i), 10)
		r.path = append(r.path, ']')
		if each(i); r.ref != nil {
			return
		}
		r.path = r.path[:base]
	}
	r.depth--
}

// object reads an object; a key that comes twice is refused. The path names the member while each reads its value.
func (r *reader) object(each func(key string)) {
	if r.depth == 0 && r.kind() != "an object" {
		r.fail(bulkhead.CodeInvalid, "the request body must be a JSON object")
		return
	}
	if !r.want("an object") || !r.enter() {
		return
	}
	base := len(r.path)
	seen := make(map[string]struct{})
	for first := true; r.more('}', first); first = false {
		if r.kind() != "a string" {
			r.syntax("a key must be a string")
			return
		}
		key := r.text()
		if base > 0 {
			r.path = append(r.path, '.')
		}
		r.path = append(r.path, shorten(key, maxParam)...)
		if _, twice := seen[key]; twice {
			r.fail(bulkhead.CodeInvalid, "`%s` is given twice", r.param())
		}
		seen[key] = struct{}{}
		if r.colon(); r.ref != nil {
			return
		}
		if each(key); r.ref != nil {
			return
		}
		r.path = r.path[:base]
	}
	r.depth--
}

func (r *reader) enter() bool {
	r.pos++
	if r.depth++; r.depth > maxDepth {
		r.fail(bulkhead.CodeInvalid, "the request body is nested deeper than %d levels", maxDepth)
	}
	return r.ref == nil
}

// more takes the comma in front of the next element, or the end.
func (r *reader) more(end byte, first bool) bool {
	if r.ref != nil {
		return false
	}
	r.space()
	switch {
	case r.pos == len(r.data):
		r.syntax("the text ends early")
	case r.data[r.pos] == end:
		r.pos++
		return false
	case first:
		return true
	case r.data[r.pos] == ',':
		r.pos++
		return true
	default:
		r.syntax("a comma is missing")
	}
	return false
}

func (r *reader) colon() {
	r.space()
	if r.pos == len(r.data) || r.data[r.pos] != ':' {
		r.syntax("a colon is missing")
		return
	}
	r.pos++
}

// skip reads a value that nobody wants; it must still be valid.
func (r *reader) skip() {
	switch r.kind() {
	case "a string":
		r.text()
	case "a number":
		r.number()
	case "a boolean":
		r.boolean()
	case "null":
		r.null()
	case "an array":
		r.array(len(r.data), func(int) { r.skip() })
	case "an object":
		r.object(func(string) { r.skip() })
	}
}
