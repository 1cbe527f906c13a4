package token

import (
	"unicode"
	"unicode/utf8"
)

// class is a set of Unicode's general categories that the splitting expressions speak of.
type class uint8

const (
	letter class = 1 << iota // \p{L}
	number                   // \p{N}
	space                    // \s: the property White_Space
	punct                    // \p{P}
	sign                     // \p{S}
	accent                   // \p{M}
	crlf                     // [\r\n]
)

// ascii has the classes of the runes below 128, by which most text is decided.
var ascii = func() (table [128]class) {
	for r := range table {
		table[r] = classOf(rune(r))
	}
	return table
}()

func classOf(r rune) (c class) {
	switch {
	case unicode.Is(unicode.L, r):
		c = letter
	case unicode.Is(unicode.N, r):
		c = number
	case unicode.Is(unicode.M, r):
		c = accent
	case unicode.Is(unicode.P, r):
		c = punct
	case unicode.Is(unicode.S, r):
		c = sign
	}
	if unicode.IsSpace(r) {
		c |= space
	}
	if r == '\r' || r == '\n' {
		c |= crlf
	}
	return c
}

// is says that a rune has one of the classes. A byte that is no UTF-8 has none of them.
func is(r rune, c class) bool {
	if uint32(r) < 128 {
		return ascii[r]&c != 0
	}
	return classOf(r)&c != 0
}

// decodeRune is the first rune of a text that is not empty, and its size; -1 and 1 for a byte that is no UTF-8.
func decodeRune(text string) (rune, int) {
	if text[0] < utf8.RuneSelf {
		return rune(text[0]), 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && size == 1 {
		return -1, 1
	}
	return r, size
}

// run is the length of the longest start of a text whose runes have one of the classes.
func run(text string, c class) int {
	return runOf(text, func(r rune) bool { return is(r, c) })
}

// runNot is the same of runes that have none of the classes.
func runNot(text string, c class) int {
	return runOf(text, func(r rune) bool { return !is(r, c) })
}

func runOf(text string, in func(rune) bool) int {
	for i := 0; i < len(text); {
		r, size := decodeRune(text[i:])
		if !in(r) {
			return i
		}
		i += size
	}
	return len(text)
}

// one is the length of the first rune, where it is in the class.
func one(text string, in func(rune) bool) int {
	if text == "" {
		return 0
	}
	r, size := decodeRune(text)
	if !in(r) {
		return 0
	}
	return size
}

// within says that a rune lies in one of the ranges, which are given as pairs of first and last, in order.
func within(r rune, ranges []rune) bool {
	lo, hi := 0, len(ranges)/2
	for lo < hi {
		mid := (lo + hi) / 2
		switch {
		case r < ranges[2*mid]:
			hi = mid
		case r > ranges[2*mid+1]:
			lo = mid + 1
		default:
			return true
		}
	}
	return false
}
