package token

import "strings"

// The expressions of the pre-tokenizers, as scanners. Each says which expression it is, in the writing of llama.cpp and
// Hugging Face; alternatives are tried in order, so the order of the code is that of the expression.

// gpt2 is `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
func gpt2(rest string) int {
	if n := contraction(rest, false); n > 0 {
		return n
	}
	lead := 0
	if rest[0] == ' ' {
		lead = 1
	}
	if n := run(rest[lead:], letter); n > 0 {
		return lead + n
	}
	if n := run(rest[lead:], number); n > 0 {
		return lead + n
	}
	if n := runNot(rest[lead:], space|letter|number); n > 0 {
		return lead + n
	}
	return spaces(rest)
}

// contraction is `'s|'t|'re|'ve|'m|'ll|'d`, with anyCase `(?i:…)`.
func contraction(rest string, anyCase bool) int {
	if rest == "" || rest[0] != '\'' {
		return 0
	}
	for _, end := range [...]string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if len(rest) < len(end) {
			continue
		}
		start := rest[:len(end)]
		if start == end || anyCase && lowerASCII(start) == end {
			return len(end)
		}
	}
	return 0
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// spaces is `\s+(?!\S)|\s+`: white space, but the last of it is left to the word that follows, unless it is alone.
func spaces(rest string) int {
	n := run(rest, space)
	if n == 0 || n == len(rest) {
		return n
	}
	last := 0
	for i := 0; i < n; {
		last = i
		_, size := decodeRune(rest[i:])
		i += size
	}
	if last == 0 {
		return n
	}
	return last
}

// newlines is `\s*[\r\n]+`: white space up to its last line end.
func newlines(rest string) int {
	n := run(rest, space)
	return strings.LastIndexAny(rest[:n], "\r\n") + 1
}

// wordScanner is the family that Llama 3, Qwen, Tekken and GPT-4o are of:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type wordScanner struct {
	contractions bool   // the first alternative is there
	cased        bool   // words end before a capital: see casedWord
	suffixes     bool   // a contraction belongs to the word before it (with cased)
	withMarks    bool   // [\p{L}\p{M}] in place of \p{L}
	digits       int    // \p{N}{1,digits}
	punctTail    string // what may follow punctuation within its piece
}

func (w wordScanner) match(rest string) int {
	if w.contractions {
		if n := contraction(rest, true); n > 0 {
			return n
		}
	}
	if n := w.word(rest); n > 0 {
		return n
	}
	if n := upTo(rest, w.digits, number); n > 0 {
		return n
	}
	lead := 0
	if rest[0] == ' ' {
		lead = 1
	}
	if n := runNot(rest[lead:], space|w.letters()|number); n > 0 {
		n += lead
		return n + runOf(rest[n:], func(r rune) bool { return strings.ContainsRune(w.punctTail, r) })
	}
	if n := newlines(rest); n > 0 {
		return n
	}
	return spaces(rest)
}

func (w wordScanner) letters() class {
	if w.withMarks {
		return letter | accent
	}
	return letter
}

// word is `[^\r\n\p{L}\p{N}]?\p{L}+`.
func (w wordScanner) word(rest string) int {
	if lead := one(rest, func(r rune) bool { return !is(r, crlf|letter|number) }); lead > 0 {
		if n := w.bareWord(rest[lead:]); n > 0 {
			return lead + n
		}
	}
	return w.bareWord(rest)
}

func (w wordScanner) bareWord(rest string) int {
	if !w.cased {
		return run(rest, w.letters())
	}
	n := casedWord(rest)
	if n > 0 && w.suffixes {
		n += contraction(rest[n:], true)
	}
	return n
}

// casedWord is `U*L+|U+L*` where U is a letter but a-z and L a letter but A-Z. (llama.cpp has these in place of the
// Unicode categories of the original; only ASCII has case here.)
func casedWord(rest string) int {
	upper := runOf(rest, func(r rune) bool { return is(r, letter) && !(r >= 'a' && r <= 'z') })
	lower := func(r rune) bool { return is(r, letter) && !(r >= 'A' && r <= 'Z') }
	if n := runOf(rest[upper:], lower); n > 0 {
		return upper + n
	}
	// U* has taken all letters: it gives back as few as L+ needs.
	end := 0
	for i := 0; i < upper; {
		r, size := decodeRune(rest[i:])
		i += size
		if lower(r) {
			end = i
		}
	}
	if end > 0 {
		return end
	}
	return upper
}

// upTo is the length of at most limit runes of a class.
func upTo(rest string, limit int, c class) int {
	n := 0
	for range limit {
		size := one(rest[n:], func(r rune) bool { return is(r, c) })
		if size == 0 {
			break
		}
		n += size
	}
	return n
}

func oneNumber(rest string) int        { return upTo(rest, 1, number) } // \p{N}
func upToThreeNumbers(rest string) int { return upTo(rest, 3, number) } // \p{N}{1,3}
func numbers(rest string) int          { return run(rest, number) }     // \p{N}+
func newline(rest string) int          { return upTo(rest, 1, crlf) }   // [\r\n]

// threeDigits is `[0-9][0-9][0-9]`.
func threeDigits(rest string) int {
	if len(rest) < 3 {
		return 0
	}
	for i := range 3 {
		if rest[i] < '0' || rest[i] > '9' {
			return 0
		}
	}
	return 3
}

// falconPunct is `[\p{P}\$\+<=>\^~\|]+`.
func falconPunct(rest string) int {
	return runOf(rest, func(r rune) bool { return is(r, punct) || strings.ContainsRune("$+<=>^~|", r) })
}

// falconPunct2 is the same and the backquote.
func falconPunct2(rest string) int {
	return runOf(rest, func(r rune) bool { return is(r, punct) || strings.ContainsRune("$+<=>^~|`", r) })
}

// spaced is `\s?` and what follows it, or what follows alone.
func spaced(rest string, in func(rune) bool) int {
	if lead := one(rest, func(r rune) bool { return is(r, space) }); lead > 0 {
		if n := runOf(rest[lead:], in); n > 0 {
			return lead + n
		}
	}
	return runOf(rest, in)
}

// spacedLetters is `\s?\p{L}+`.
func spacedLetters(rest string) int {
	return spaced(rest, func(r rune) bool { return is(r, letter) })
}

// spacedPunct is `\s?\p{P}+`.
func spacedPunct(rest string) int {
	return spaced(rest, func(r rune) bool { return is(r, punct) })
}

// latinWord is `\s?[A-Za-zµÀ-Ö…]+`: letters with case of the scripts that DeepSeek lists.
func latinWord(rest string) int {
	return spaced(rest, func(r rune) bool { return within(r, casedLetters) })
}

// asciiPunct is `\s?[!-/:-~！-／：-～‘-‟　-。]+`. U+3000 is in the list and white space, too; llama.cpp takes it for white
// space only, Hugging Face as it is written, and so does this.
func asciiPunct(rest string) int {
	return spaced(rest, func(r rune) bool {
		return r >= '!' && r <= '/' || r >= ':' && r <= '~' || r >= 0xFF01 && r <= 0xFF0F || r >= 0xFF1A && r <= 0xFF5E ||
			r >= 0x2018 && r <= 0x201F || r >= 0x3000 && r <= 0x3002
	})
}

// cjkRun is `[一-龥ࠀ-一가-퟿]+`.
func cjkRun(rest string) int {
	return runOf(rest, func(r rune) bool { return r >= 0x0800 && r <= 0x9FA5 || r >= 0xAC00 && r <= 0xD7FF })
}

// cjkKanaRun is `[一-龥぀-ゟ゠-ヿ]+`.
func cjkKanaRun(rest string) int {
	return runOf(rest, func(r rune) bool { return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF })
}

// deepseek3 is
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseek3(rest string) int {
	if c := rest[0]; c > ' ' && c < 0x7F && ascii[c]&(punct|sign) != 0 {
		n := runOf(rest[1:], func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
		if n > 0 {
			return 1 + n
		}
	}
	if lead := one(rest, func(r rune) bool { return !is(r, crlf|letter|punct|sign) }); lead > 0 {
		if n := run(rest[lead:], letter|accent); n > 0 {
			return lead + n
		}
	}
	if n := run(rest, letter|accent); n > 0 {
		return n
	}
	lead := 0
	if rest[0] == ' ' {
		lead = 1
	}
	if n := run(rest[lead:], punct|sign); n > 0 {
		n += lead
		return n + run(rest[n:], crlf)
	}
	if n := newlines(rest); n > 0 {
		return n
	}
	return spaces(rest)
}

// casedLetters is the letters of latinWord, as pairs of first and last.
var casedLetters = []rune{
	'A', 'Z', 'a', 'z', 0xB5, 0xB5, 0xC0, 0xD6, 0xD8, 0xF6, 0xF8, 0x1BA, 0x1BC, 0x1BF, 0x1C4, 0x293, 0x295, 0x2AF,
	0x370, 0x373, 0x376, 0x377, 0x37B, 0x37D, 0x37F, 0x37F, 0x386, 0x386, 0x388, 0x38A, 0x38C, 0x38C, 0x38E, 0x3A1,
	0x3A3, 0x3F5, 0x3F7, 0x481, 0x48A, 0x52F, 0x531, 0x556, 0x10A0, 0x10C5, 0x13A0, 0x13F5, 0x13F8, 0x13FD,
	0x1C90, 0x1CBA, 0x1CBD, 0x1CBF, 0x1D00, 0x1D2B, 0x1D6B, 0x1D77, 0x1D79, 0x1D9A, 0x1E00, 0x1F15, 0x1F18, 0x1F1D,
	0x1F20, 0x1F45, 0x1F48, 0x1F4D, 0x1F50, 0x1F57, 0x1F59, 0x1F59, 0x1F5B, 0x1F5B, 0x1F5D, 0x1F5D, 0x1F5F, 0x1F7D,
	0x1F80, 0x1FB4, 0x1FB6, 0x1FBC, 0x1FBE, 0x1FBE, 0x1FC2, 0x1FC4, 0x1FC6, 0x1FCC, 0x1FD0, 0x1FD3, 0x1FD6, 0x1FDB,
	0x1FE0, 0x1FEC, 0x1FF2, 0x1FF4, 0x1FF6, 0x1FFC, 0x2102, 0x2102, 0x2107, 0x2107, 0x210A, 0x2113, 0x2115, 0x2115,
	0x2119, 0x211D, 0x2124, 0x2124, 0x2126, 0x2126, 0x2128, 0x2128, 0x212A, 0x212D, 0x212F, 0x2134, 0x2139, 0x2139,
	0x213C, 0x213F, 0x2145, 0x2149, 0x214E, 0x214E, 0x2183, 0x2184, 0x2C00, 0x2C7B, 0x2C7E, 0x2CE4, 0x2CEB, 0x2CEE,
	0x2CF2, 0x2CF3, 0xA640, 0xA66D, 0xA680, 0xA69B, 0xA722, 0xA76F, 0xA771, 0xA787, 0xA78B, 0xA78E, 0xAB70, 0xABBF,
	0xFB00, 0xFB06, 0xFB13, 0xFB17, 0xFF21, 0xFF3A, 0xFF41, 0xFF5A, 0x10400, 0x1044F, 0x104B0, 0x104D3,
	0x104D8, 0x104FB, 0x10C80, 0x10CB2, 0x10CC0, 0x10CF2, 0x118A0, 0x118DF, 0x1E900, 0x1E943,
}
