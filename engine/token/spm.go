package token

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bulkhead-llm/bulkhead"
)

// spm is SentencePiece's byte pair encoding: no pre-tokenizer and no list of merges. A text starts as its characters,
// spaces written as U+2581; of all neighbours whose joint text is a token, the pair whose token has the best score is
// merged, the leftmost first among equals. A character that is no token becomes its bytes, where the vocabulary has
// tokens for bytes, else UNK: one for a run of such characters.
//
// Control tokens and tokens of bytes cannot be merged to: "</" and "s>" next to each other stay two tokens.
type spm struct {
	tokens   map[string]bulkhead.Token
	scores   []float32
	bytes    [256]bulkhead.Token
	unk      bulkhead.Token
	longest  int  // bytes of the longest token
	wordwise bool // words can be merged one by one: see encode
}

// spaceRune is how SentencePiece writes a space.
const spaceRune = "▁"

func newSPM(t *Tokenizer) (*spm, error) {
	v := &t.vocab
	s := &spm{tokens: make(map[string]bulkhead.Token, len(v.Tokens)), scores: v.Scores, unk: v.UNK, wordwise: true}
	if s.unk != none && t.roles[s.unk] != roleUnknown {
		s.unk = none // it is EOS or the like, too, and no text may become that
	}
	for i := range s.bytes {
		s.bytes[i] = none
	}
	for i, text := range v.Tokens {
		switch t.roles[i] {
		case roleControl, roleUnknown:
		case roleByte:
			b, err := byteOf(text)
			if err != nil {
				return nil, err
			}
			s.bytes[b] = bulkhead.Token(i)
		default:
			if text == "" {
				continue
			}
			s.tokens[text] = bulkhead.Token(i)
			s.longest = max(s.longest, len(text))
			s.wordwise = s.wordwise && wordEnd(text) == len(text)
		}
	}
	return s, nil
}

// byteOf reads the text of a token for a byte, such as <0x0A>.
func byteOf(text string) (byte, error) {
	if len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>' {
		if b, err := strconv.ParseUint(text[3:5], 16, 8); err == nil {
			return byte(b), nil
		}
	}
	return 0, fmt.Errorf("token %q is said to stand for a byte", text)
}

// wordEnd is the length of the first word with the spaces in front of it.
func wordEnd(text string) int {
	spaces := len(text) - len(strings.TrimLeft(text, spaceRune))
	if next := strings.Index(text[spaces:], spaceRune); next >= 0 {
		return spaces + next
	}
	return len(text)
}

// encode merges word by word where the vocabulary allows it: where no token has a space behind another character, no
// merge crosses from a word into the next one's space. That keeps the work linear, and repeated words are merged once.
func (s *spm) encode(dst []bulkhead.Token, text string) []bulkhead.Token {
	text = strings.ReplaceAll(text, " ", spaceRune)
	run := spmRun{spm: s, out: dst}
	known := make(memory)
	for text != "" {
		end := len(text)
		if s.wordwise {
			end = wordEnd(text)
		}
		word := text[:end]
		text = text[end:]
		if at, ok := known[word]; ok {
			run.out, run.afterUnknown = append(run.out, run.out[at.from:at.to]...), false
			continue
		}
		from, unknowns := len(run.out), run.unknowns
		run.merge(word)
		if run.unknowns == unknowns {
			known.keep(word, from, len(run.out))
		}
	}
	return run.out
}

// spmRun is the working memory of encoding one text.
type spmRun struct {
	*spm
	out          []bulkhead.Token
	parts        []stretch
	work         heap // a: the right one of the pair, b: the joint size
	unknowns     int  // characters so far that have no tokens
	afterUnknown bool // the last character was one
}

// stretch is a part of the text that stands as one: size 0 once it was merged into its left neighbour.
type stretch struct {
	from, size int32
	prev, next int32 // -1 at the ends
}

func (r *spmRun) merge(text string) {
	r.parts, r.work = r.parts[:0], r.work[:0]
	for i := 0; i < len(text); {
		_, size := decodeRune(text[i:])
		n := int32(len(r.parts))
		r.parts = append(r.parts, stretch{int32(i), int32(size), n - 1, n + 1})
		i += size
	}
	parts := r.parts
	parts[len(parts)-1].next = -1
	for i := range len(parts) - 1 {
		r.offer(text, int32(i), int32(i+1))
	}
	for len(r.work) > 0 {
		it := r.work.pop()
		at := int32(uint32(it.key))
		left, right := &parts[at], &parts[it.a]
		if left.size == 0 || right.size == 0 || left.size+right.size != it.b {
			continue // either has grown or gone since
		}
		left.size, right.size = it.b, 0
		left.next = right.next
		if right.next >= 0 {
			parts[right.next].prev = at
		}
		r.offer(text, left.prev, at)
		r.offer(text, at, left.next)
	}
	for i := int32(0); i >= 0; i = parts[i].next {
		r.give(text[parts[i].from : parts[i].from+parts[i].size])
	}
}

// offer puts two neighbours among the work, where their joint text is a token.
func (r *spmRun) offer(text string, left, right int32) {
	if left < 0 || right < 0 {
		return
	}
	from, size := r.parts[left].from, r.parts[left].size+r.parts[right].size
	if int(size) > r.longest {
		return
	}
	if id, ok := r.tokens[text[from:from+size]]; ok {
		r.work.push(item{key: key(bestFirst(r.scores[id]), left), a: right, b: size})
	}
}

// give gives out one piece: a token, the tokens of its bytes, or UNK.
func (r *spmRun) give(piece string) {
	if id, ok := r.tokens[piece]; ok {
		r.out = append(r.out, id)
		r.afterUnknown = false
		return
	}
	for i := range len(piece) {
		if r.bytes[piece[i]] == none {
			if r.unk != none && !r.afterUnknown {
				r.out = append(r.out, r.unk)
			}
			r.unknowns++
			r.afterUnknown = true
			return
		}
	}
	for i := range len(piece) {
		r.out = append(r.out, r.bytes[piece[i]])
	}
	r.afterUnknown = false
}
