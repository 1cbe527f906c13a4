package openai

import (
	"maps"
	"slices"

	"github.com/bulkhead-llm/bulkhead"
)

// Class says what is done with a field of a request.
type Class string

// The classes. null counts as absent in all of them but Forbidden.
const (
	Done        Class = "done"
	Ignored     Class = "ignored"     // checked for its type and taken; it would change nothing of the answer here
	NotYet      Class = "not yet"     // OpenAI's; neglect would change the answer, so only its default is taken
	Unsupported Class = "unsupported" // an extension of SGLang or vLLM that is not done here
	Forbidden   Class = "forbidden"   // would steer the machinery (rule I8): refused, whatever its value
)

// field is one field of a request: its class and what reads its value into the request. A field that is NotYet may have a
// read that takes its default and fails on all else.
type field[R any] struct {
	class Class
	read  func(r *reader, into *R)
}

// table is every field that one kind of object may have. A name that is not in it is refused.
type table[R any] map[string]field[R]

// read reads one object.
func (t table[R]) read(r *reader, into *R) {
	r.object(func(name string) {
		f, known := t[name]
		switch {
		case !known:
			r.fail(bulkhead.CodeInvalid, "unknown field `%s`", r.param())
		case f.class == Forbidden:
			r.fail(bulkhead.CodeForbidden, "`%s` is a control field of the serving system: no client may set it; leave it out", r.param())
		case r.null():
		case f.read != nil:
			f.read(r, into)
		case f.class == NotYet:
			r.notYet()
		case f.class == Unsupported:
			r.fail(bulkhead.CodeUnsupported, "`%s` is an extension that is not supported here; leave it out", r.param())
		}
	})
}

func (r *reader) notYet() {
	r.fail(bulkhead.CodeUnsupported, "`%s` is not supported yet; leave it out", r.param())
}

// FieldInfo describes one field for documents.
type FieldInfo struct {
	Name  string
	Class Class
}

func (t table[R]) infos() []FieldInfo {
	var out []FieldInfo
	for _, name := range slices.Sorted(maps.Keys(t)) {
		out = append(out, FieldInfo{name, t[name].class})
	}
	return out
}

// join is a table with the rows of several.
func join[R any](tables ...table[R]) table[R] {
	all := table[R]{}
	for _, t := range tables {
		for name, f := range t {
			if _, twice := all[name]; twice {
				panic("openai: field " + name + " is in two tables")
			}
			all[name] = f
		}
	}
	return all
}

// lift makes a table for a part of R one for R.
func lift[R, P any](t table[P], part func(*R) *P) table[R] {
	out := table[R]{}
	for name, f := range t {
		lifted := field[R]{class: f.class}
		if f.read != nil {
			lifted.read = func(r *reader, into *R) { f.read(r, part(into)) }
		}
		out[name] = lifted
	}
	return out
}

// all gives every name the same class.
func all[R any](class Class, names ...string) table[R] {
	t := table[R]{}
	for _, name := range names {
		t[name] = field[R]{class: class}
	}
	return t
}

// Readers of values that are checked and dropped.
func ignoreText[R any](r *reader, _ *R) { r.text() }
func ignoreBool[R any](r *reader, _ *R) { r.boolean() }
func ignoreAny[R any](r *reader, _ *R)  { r.skip() }

// onlyWord takes one of the words that mean what is done anyway; any other string is not supported yet.
func onlyWord[R any](words ...string) func(*reader, *R) {
	return func(r *reader, _ *R) {
		word := r.text()
		if r.ref == nil && !slices.Contains(words, word) {
			r.fail(bulkhead.CodeUnsupported, "`%s` %q is not supported yet; leave it out or say %q",
				r.param(), shorten(word, maxShown), words[0])
		}
	}
}

// onlyFalse takes false and fails with what true would need.
func onlyFalse[R any](r *reader, _ *R) {
	if r.boolean() {
		r.notYet()
	}
}

// onlyEmpty takes an empty array.
func onlyEmpty[R any](r *reader, _ *R) {
	r.array(len(r.data), func(int) {
		r.path = r.path[:lastIndex(r.path)]
		r.notYet()
	})
}

func lastIndex(path []byte) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '[' {
			return i
		}
	}
	return len(path)
}
