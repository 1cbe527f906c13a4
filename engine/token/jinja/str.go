// Package jinja renders the Jinja templates that model files carry, and knows for every byte of the result whether the
// template wrote it or a client did.
//
// Parse compiles a template; Render runs it. Values from clients go in as [Client] strings and through [FromJSON]; the
// operator's and the template's own through [Own]. The result is a [Str], whose Runs tell the two apart, whatever the
// template did in between: cutting, joining, case, replacement, JSON.
//
// It is an own interpreter, not a library, for three reasons. No library keeps track of where text comes from, and to
// tell it afterwards from the rendered text cannot be done safely. Rendering must fail where the reference fails (an
// undefined name in a sum, a message of an odd kind), since a prompt that is silently wrong is worse than a refusal. And
// a template comes out of a file that somebody else made, so parsing and rendering are bounded in depth, steps and bytes
// ([Limits]); a Go program cannot survive a stack overflow.
//
// The language is what chat templates use, as Python's jinja2 3.1 has it with Hugging Face's settings: trim_blocks,
// lstrip_blocks, no autoescape, loop controls, raise_exception, strftime_now and Hugging Face's tojson. There is no
// include, import, block, extends or recursive loop.
package jinja

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// Str is a string that knows which of its bytes a client wrote.
//
// It is a string and the places in it that are a client's. All operations of the interpreter go through slice and
// builder, which keep the places; a byte that is made of a client's bytes (another case, an escape) is the client's.
// What a client decides without writing it, such as which branch is taken or a length, is the template's.
type Str struct {
	text   string
	client []span // ascending, not empty, not touching
	markup bool   // came through the filters safe or escape: what is added to it is escaped, as by Python's Markup
}

// span is bytes lo up to hi of a text.
type span struct{ lo, hi int }

// Own is text that the template, the model file or the operator wrote.
func Own(text string) Str { return Str{text: text} }

// Client is text that a client wrote.
func Client(text string) Str {
	if text == "" {
		return Str{}
	}
	return Str{text: text, client: []span{{0, len(text)}}}
}

// String is the text, from wherever.
func (s Str) String() string { return s.text }

// Runs yields the text in stretches that are wholly the client's or wholly not.
func (s Str) Runs(yield func(text string, client bool) bool) {
	at := 0
	for _, sp := range s.client {
		if at < sp.lo && !yield(s.text[at:sp.lo], false) {
			return
		}
		if !yield(s.text[sp.lo:sp.hi], true) {
			return
		}
		at = sp.hi
	}
	if at < len(s.text) {
		yield(s.text[at:], false)
	}
}

// slice is bytes lo up to hi.
func (s Str) slice(lo, hi int) Str {
	out := Str{text: s.text[lo:hi], markup: s.markup}
	first := sort.Search(len(s.client), func(i int) bool { return s.client[i].hi > lo })
	for _, sp := range s.client[first:] {
		if sp.lo >= hi {
			break
		}
		out.client = append(out.client, span{max(sp.lo, lo) - lo, min(sp.hi, hi) - lo})
	}
	return out
}

// clientAt says whose byte i is.
func (s Str) clientAt(i int) bool {
	first := sort.Search(len(s.client), func(k int) bool { return s.client[k].hi > i })
	return first < len(s.client) && s.client[first].lo <= i
}

// anyClient says that a client wrote some of it.
func (s Str) anyClient() bool { return len(s.client) > 0 }

// runes yields the characters, each with its place.
func (s Str) runes(yield func(at int, r rune, size int) bool) {
	for i := 0; i < len(s.text); {
		r, size := utf8.DecodeRuneInString(s.text[i:])
		if !yield(i, r, size) {
			return
		}
		i += size
	}
}

// trim takes characters off the ends.
func (s Str) trim(left, right bool, in func(rune) bool) Str {
	lo, hi := 0, len(s.text)
	if left {
		lo = hi - len(strings.TrimLeftFunc(s.text, in))
	}
	if right {
		hi = lo + len(strings.TrimRightFunc(s.text[lo:], in))
	}
	return s.slice(lo, hi)
}

// mapRunes rewrites each character; what becomes of a client's is the client's.
func (s Str) mapRunes(m *meter, f func(r rune) string) Str {
	b := builder{meter: m}
	s.runes(func(at int, r rune, size int) bool {
		if r == utf8.RuneError && size == 1 {
			b.text(s.text[at:at+1], s.clientAt(at))
		} else {
			b.text(f(r), s.clientAt(at))
		}
		return true
	})
	out := b.str()
	out.markup = s.markup
	return out
}

// split cuts at a separator that is not empty, at most limit times where limit is not negative.
func (s Str) split(sep string, limit int) []Str {
	var parts []Str
	at := 0
	for limit != 0 {
		next := strings.Index(s.text[at:], sep)
		if next < 0 {
			break
		}
		parts = append(parts, s.slice(at, at+next))
		at += next + len(sep)
		limit--
	}
	return append(parts, s.slice(at, len(s.text)))
}

// builder puts a Str together.
type builder struct {
	meter  *meter
	bytes  []byte
	client []span
}

func (b *builder) text(text string, client bool) {
	if text == "" {
		return
	}
	b.meter.grow(len(text))
	at := len(b.bytes)
	b.bytes = append(b.bytes, text...)
	if client {
		b.mark(at, len(b.bytes))
	}
}

func (b *builder) own(text string) { b.text(text, false) }

func (b *builder) add(s Str) {
	b.meter.grow(len(s.text))
	at := len(b.bytes)
	b.bytes = append(b.bytes, s.text...)
	for _, sp := range s.client {
		b.mark(at+sp.lo, at+sp.hi)
	}
}

func (b *builder) mark(lo, hi int) {
	if last := len(b.client) - 1; last >= 0 && b.client[last].hi == lo {
		b.client[last].hi = hi
		return
	}
	b.client = append(b.client, span{lo, hi})
}

func (b *builder) str() Str { return Str{text: string(b.bytes), client: b.client} }

// concat joins two strings.
func concat(m *meter, a, c Str) Str {
	b := builder{meter: m}
	b.add(a)
	b.add(c)
	return b.str()
}

// plus is Python's sum of two strings, of which one may be markup.
func plus(m *meter, a, c Str) Str {
	if !a.markup && !c.markup {
		return concat(m, a, c)
	}
	out := concat(m, escaped(m, a), escaped(m, c))
	out.markup = true
	return out
}

var escapes = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&#34;", '\'': "&#39;"}

// escaped is a string as markup.
func escaped(m *meter, s Str) Str {
	if s.markup {
		return s
	}
	out := s.mapRunes(m, func(r rune) string {
		if e, ok := escapes[r]; ok {
			return e
		}
		return string(r)
	})
	out.markup = true
	return out
}
