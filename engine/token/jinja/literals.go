package jinja

import (
	"strings"
	"unicode"
)

func (l *lexer) number(rest string) {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789_"))
	}
	n, kind := digits(rest), tokInt
	if n+1 < len(rest) && rest[n] == '.' && digits(rest[n+1:]) > 0 {
		kind = tokFloat
		n += 1 + digits(rest[n+1:])
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		exp := n + 1
		if exp < len(rest) && (rest[exp] == '+' || rest[exp] == '-') {
			exp++
		}
		if d := digits(rest[exp:]); d > 0 {
			kind = tokFloat
			n = exp + d
		}
	}
	l.emit(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.advance(l.at + n)
}

func (l *lexer) str(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			l.emit(tokString, unescape(rest[1:i]))
			l.advance(l.at + i + 1)
			return
		}
	}
	l.fail("a string has no end")
}

// unescape reads the escapes of a Python string; a backslash before anything else stays.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	simple := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f",
		'v': "\v", '0': "\x00", '\n': ""}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if out, ok := simple[s[i]]; ok {
			b.WriteString(out)
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if r, ok := hexRune(s[i+1:], width); ok {
			b.WriteRune(r)
			i += width
			continue
		}
		b.WriteByte('\\')
		b.WriteByte(s[i])
	}
	return b.String()
}

func hexRune(s string, width int) (rune, bool) {
	if width == 0 || len(s) < width {
		return 0, false
	}
	r := rune(0)
	for _, c := range []byte(s[:width]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || r > unicode.MaxRune {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, r <= unicode.MaxRune
}

// isSpace is what Python's str.strip and \s take for white space.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F
}
