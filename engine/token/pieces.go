package token

import (
	"slices"
	"unicode/utf8"
)

// A splitter cuts a text into pieces that are encoded each for itself. It yields all of the text, in order.
type splitter func(text string, yield func(piece string))

// pretokenizer is how one family of byte-level tokenizers splits text, and what else goes with the family's name.
type pretokenizer struct {
	split       splitter
	wholePieces bool // a piece that is a token as it stands is that token, whatever the merges say
	addBOS      bool // prompts start with BOS unless the file says otherwise
}

// pretokenizers by their names in GGUF (tokenizer.ggml.pre). Each is the regular expressions that llama.cpp has for the
// name; Go's regexp has no lookahead, so they are scanners by hand, with the expression in the comment of each.
var pretokenizers = func() map[string]pretokenizer {
	byName := make(map[string]pretokenizer)
	add := func(p pretokenizer, names ...string) {
		for _, name := range names {
			byName[name] = p
		}
	}
	llama3 := wordScanner{contractions: true, digits: 3, punctTail: "\r\n"}
	qwen2 := wordScanner{contractions: true, digits: 1, punctTail: "\r\n"}
	gpt4o := wordScanner{cased: true, suffixes: true, digits: 3, punctTail: "\r\n/"}
	tekken := wordScanner{cased: true, digits: 1, punctTail: "\r\n/"}
	qwen35 := wordScanner{contractions: true, withMarks: true, digits: 1, punctTail: "\r\n"}

	add(pretokenizer{split: passes(splitBy(falconPunct), splitBy(gpt2), splitBy(numbers), splitBy(threeDigits))},
		"", "default")
	add(pretokenizer{split: passes(splitBy(gpt2))},
		"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "modern-bert",
		"mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4")
	add(pretokenizer{split: passes(splitBy(oneNumber), splitBy(gpt2))},
		"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2")
	add(pretokenizer{split: passes(splitBy(llama3.match)), wholePieces: true, addBOS: true},
		"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")
	add(pretokenizer{split: passes(splitBy(llama3.match))}, "dbrx", "smaug-bpe", "chatglm-bpe", "glm4")
	add(pretokenizer{split: passes(splitBy(qwen2.match))},
		"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "f2llmv2", "solar-open", "grok-2")
	add(pretokenizer{split: passes(splitBy(qwen35.match))}, "qwen35")
	add(pretokenizer{split: passes(splitBy(tekken.match)), wholePieces: true, addBOS: true}, "tekken")
	add(pretokenizer{split: passes(splitBy(gpt4o.match))}, "gpt-4o", "llama4", "kanana2", "minimax-m2")
	add(pretokenizer{split: passes(splitBy(falconPunct2), splitBy(gpt2), splitBy(threeDigits))}, "falcon")
	add(pretokenizer{split: passes(splitBy(newline), splitBy(latinWord), splitBy(asciiPunct),
		splitTrailingSpace, splitBy(cjkRun), splitBy(numbers))}, "deepseek-llm")
	add(pretokenizer{split: passes(splitBy(newline), splitBy(spacedLetters), splitBy(spacedPunct),
		splitBy(cjkRun), splitBy(oneNumber))}, "deepseek-coder")
	add(pretokenizer{split: passes(splitBy(upToThreeNumbers), splitBy(cjkKanaRun), splitBy(deepseek3))},
		"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	return byName
}()

// Pretokenizers is the names of the pre-tokenizers that are supported.
func Pretokenizers() []string {
	var names []string
	for name := range pretokenizers {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A match is how many bytes at the start of a text one expression takes, 0 for none. rest is the text from here on.
type match func(rest string) int

// splitBy is one expression: a piece is a match, or what lies between two matches.
func splitBy(m match) splitter {
	return func(text string, yield func(string)) {
		gap := 0
		for i := 0; i < len(text); {
			n := m(text[i:])
			if n == 0 {
				_, size := decodeRune(text[i:])
				i += size
				continue
			}
			if i > gap {
				yield(text[gap:i])
			}
			yield(text[i : i+n])
			i += n
			gap = i
		}
		if gap < len(text) {
			yield(text[gap:])
		}
	}
}

// passes applies splitters one after the other, each to every piece of the one before.
func passes(splitters ...splitter) splitter {
	if len(splitters) == 1 {
		return splitters[0]
	}
	first, rest := splitters[0], passes(splitters[1:]...)
	return func(text string, yield func(string)) {
		first(text, func(piece string) { rest(piece, yield) })
	}
}

// splitTrailingSpace is `\s+$`: white space at the end of the piece. (As a match, tried at each space of a long run, it
// would take quadratic time.)
func splitTrailingSpace(text string, yield func(string)) {
	end := len(text)
	for end > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:end])
		if !is(r, space) {
			break
		}
		end -= size
	}
	if end > 0 {
		yield(text[:end])
	}
	if end < len(text) {
		yield(text[end:])
	}
}
