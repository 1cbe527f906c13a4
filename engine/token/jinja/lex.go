package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF      tokenKind = iota
	tokText               // template text, as it is to be written
	tokPrint              // {{
	tokPrintEnd           // }}
	tokBlock              // {%
	tokBlockEnd           // %}
	tokName               // a name or keyword
	tokInt                //
	tokFloat              //
	tokString             // its value, without quotes and escapes
	tokOp                 // an operator or bracket
)

type token struct {
	kind tokenKind
	text string
	line int
}

// lexer cuts a template into tokens. White space round tags is gone afterwards: that after a block or comment up to and
// with the end of its line (trim_blocks), that before it from the start of its line (lstrip_blocks), and all of it on
// the side of a tag that has a minus; a plus keeps it.
type lexer struct {
	src       string
	at        int
	line      int
	lineStart bool // what was read last ended a line
	tokens    []token
}

func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, lineStart: true}
	for l.at < len(l.src) {
		tag := l.nextTag()
		if tag < 0 {
			l.emit(tokText, l.src[l.at:])
			break
		}
		text := l.src[l.at:tag]
		l.advance(tag)
		open := l.src[tag : tag+2]
		l.advance(tag + 2)
		l.emitBefore(text, l.sign(), open != "{{")
		switch open {
		case "{{":
			l.emit(tokPrint, "")
			l.expression("}}", tokPrintEnd)
		case "{#":
			l.comment()
		default:
			if !l.raw() {
				l.emit(tokBlock, "")
				l.expression("%}", tokBlockEnd)
			}
		}
	}
	l.emit(tokEOF, "")
	return l.tokens
}

func (l *lexer) nextTag() int {
	for i := l.at; i+1 < len(l.src); i++ {
		if l.src[i] == '{' && (l.src[i+1] == '{' || l.src[i+1] == '%' || l.src[i+1] == '#') {
			return i
		}
	}
	return -1
}

func (l *lexer) emit(kind tokenKind, text string) {
	if kind != tokText || text != "" {
		l.tokens = append(l.tokens, token{kind, text, l.line})
	}
}

func (l *lexer) advance(to int) {
	l.line += strings.Count(l.src[l.at:to], "\n")
	l.at = to
}

func (l *lexer) fail(format string, args ...any) { failAt(l.line, format, args...) }

// sign reads the minus or plus after the start of a tag.
func (l *lexer) sign() byte {
	if l.at < len(l.src) && (l.src[l.at] == '-' || l.src[l.at] == '+') {
		l.at++
		return l.src[l.at-1]
	}
	return 0
}

// emitBefore writes the text before a tag.
func (l *lexer) emitBefore(text string, sign byte, block bool) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && block:
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
	}
	l.emit(tokText, text)
}

// end takes the end of a tag at l.at, if it is there, with the white space that goes with it.
func (l *lexer) end(closer string, trimLine bool) bool {
	rest := l.src[l.at:]
	var size int
	switch {
	case strings.HasPrefix(rest, "-"+closer):
		size = len(rest) - len(strings.TrimLeftFunc(rest[len(closer)+1:], isSpace))
	case strings.HasPrefix(rest, "+"+closer) && trimLine:
		size = len(closer) + 1
	case strings.HasPrefix(rest, closer):
		size = len(closer)
		if trimLine && strings.HasPrefix(rest[size:], "\n") {
			size++
		}
	default:
		return false
	}
	l.lineStart = rest[size-1] == '\n'
	l.advance(l.at + size)
	return true
}

func (l *lexer) comment() {
	at := strings.Index(l.src[l.at:], "#}")
	if at < 0 {
		l.fail("a comment has no end")
	}
	at += l.at
	if at > l.at && (l.src[at-1] == '-' || l.src[at-1] == '+') {
		at--
	}
	l.advance(at)
	l.end("#}", true)
}

// raw reads {% raw %} … {% endraw %}, if that is what comes.
func (l *lexer) raw() bool {
	rest := strings.TrimLeftFunc(l.src[l.at:], isSpace)
	if !strings.HasPrefix(rest, "raw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[3:], isSpace)
	if !strings.HasPrefix(rest, "%}") && !strings.HasPrefix(rest, "-%}") {
		return false
	}
	l.advance(len(l.src) - len(rest))
	l.end("%}", false)
	for from := l.at; ; {
		at := strings.Index(l.src[from:], "{%")
		if at < 0 {
			l.fail("a raw block has no end")
		}
		at += from
		from = at + 2
		tail := lexer{src: l.src, at: from, line: l.line}
		sign := tail.sign()
		name := strings.TrimLeftFunc(l.src[tail.at:], isSpace)
		if !strings.HasPrefix(name, "endraw") {
			continue
		}
		tail.at = len(l.src) - len(strings.TrimLeftFunc(name[len("endraw"):], isSpace))
		if !tail.end("%}", true) {
			continue
		}
		l.emitBefore(l.src[l.at:at], sign, true)
		l.advance(tail.at)
		l.lineStart = tail.lineStart
		return true
	}
}

// operators, the longer before those that they begin with.
var operators = []string{"//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", ".", ":", "|", ",",
	"(", ")", "[", "]", "{", "}"}

// expression reads the tokens of a tag up to its end. The end's characters are operators while a bracket is open.
func (l *lexer) expression(closer string, endKind tokenKind) {
	var open []byte
	for {
		l.advance(len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace)))
		if l.at >= len(l.src) {
			l.fail("a tag has no end")
		}
		line := l.line
		if len(open) == 0 && l.end(closer, closer == "%}") {
			l.tokens = append(l.tokens, token{endKind, "", line})
			return
		}
		rest := l.src[l.at:]
		r, _ := utf8.DecodeRuneInString(rest)
		switch {
		case r >= '0' && r <= '9':
			l.number(rest)
		case r == '\'' || r == '"':
			l.str(rest)
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(rest)
			}
			l.emit(tokName, rest[:n])
			l.advance(l.at + n)
		default:
			op := l.operator(rest)
			open = l.bracket(open, op)
			l.emit(tokOp, op)
			l.advance(l.at + len(op))
		}
	}
}

func (l *lexer) operator(rest string) string {
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			return op
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	l.fail("unexpected character %q", r)
	return ""
}

func (l *lexer) bracket(open []byte, op string) []byte {
	switch op {
	case "(", "[", "{":
		if len(open) >= nestingLimit {
			l.fail("brackets are nested more than %d deep", nestingLimit)
		}
		return append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
	case ")", "]", "}":
		if len(open) == 0 || open[len(open)-1] != op[0] {
			l.fail("unexpected %q", op)
		}
		return open[:len(open)-1]
	}
	return open
}
