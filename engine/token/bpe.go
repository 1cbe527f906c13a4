package token

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
)

// bpe is byte-level byte pair encoding, as GPT-2 has it.
//
// The text is split into pieces by the pre-tokenizer; each piece starts as its bytes, and the pair with the best rank is
// merged, again and again, the leftmost first among equals. A heap holds the pairs, so a long piece costs n log n.
//
// Symbols are numbered: those below the vocabulary's size are its tokens, the ones above are texts that merges go
// through without their being tokens. Where a merge ends at such a text, its bytes are given out one by one. Control
// tokens are not symbols at all, so no merge can end at one.
type bpe struct {
	split   splitter
	whole   map[string]bulkhead.Token // pieces that are tokens as they stand, where merges are not asked ("ignore_merges")
	bytes   [256]symbol
	merges  map[pair]merge
	texts   []string // of the symbols that are not tokens
	size    int
	byteIDs [256]bulkhead.Token // token of each byte, or none
}

type symbol int32

type pair struct{ left, right symbol }

type merge struct {
	rank   int32
	merged symbol
}

func newBPE(t *Tokenizer) (*bpe, error) {
	v := &t.vocab
	pre, ok := pretokenizers[v.Pre]
	if !ok {
		return nil, fmt.Errorf("pre-tokenizer %q is not supported; supported are %s", v.Pre, strings.Join(Pretokenizers(), ", "))
	}
	b := &bpe{split: pre.split, merges: make(map[pair]merge, len(v.Merges)), size: len(v.Tokens)}
	symbols := make(map[string]symbol, len(v.Tokens))
	for i, text := range v.Tokens {
		// An added token of one character stands for that character, not for the byte that is written so.
		addedRune := t.roles[i] == roleAdded && utf8.RuneCountInString(text) == 1
		if t.roles[i] < roleControl && !addedRune && text != "" {
			symbols[text] = symbol(i)
		}
	}
	if pre.wholePieces {
		b.whole = make(map[string]bulkhead.Token, len(symbols))
		for text, s := range symbols {
			b.whole[decodeBytes(text)] = bulkhead.Token(s)
		}
	}
	intern := func(text string) symbol {
		s, ok := symbols[text]
		if !ok {
			s = symbol(b.size + len(b.texts))
			symbols[text] = s
			b.texts = append(b.texts, decodeBytes(text))
		}
		return s
	}
	for i := range 256 {
		b.bytes[i] = intern(string(byteRunes[i]))
		b.byteIDs[i] = none
		if int(b.bytes[i]) < b.size {
			b.byteIDs[i] = bulkhead.Token(b.bytes[i])
		}
	}
	for rank, text := range v.Merges {
		left, right, ok := cutMerge(text)
		if !ok {
			return nil, fmt.Errorf("merge %d is %q, not two texts with a space between", rank, text)
		}
		if len(left)+len(right) > maxTokenLen {
			return nil, fmt.Errorf("merge %d makes %d bytes, more than %d", rank, len(left)+len(right), maxTokenLen)
		}
		p := pair{intern(left), intern(right)}
		if _, twice := b.merges[p]; !twice {
			b.merges[p] = merge{int32(rank), intern(left + right)}
		}
	}
	return b, nil
}

// cutMerge splits "left right" at its first space that is not its first byte.
func cutMerge(text string) (left, right string, ok bool) {
	if len(text) < 3 {
		return "", "", false
	}
	at := strings.IndexByte(text[1:], ' ')
	if at < 0 || at+2 >= len(text) {
		return "", "", false
	}
	return text[:at+1], text[at+2:], true
}

func (b *bpe) encode(dst []bulkhead.Token, text string) []bulkhead.Token {
	known := make(memory)
	var m merger
	b.split(text, func(piece string) {
		if id, ok := b.whole[piece]; ok {
			dst = append(dst, id)
			return
		}
		if at, ok := known[piece]; ok {
			dst = append(dst, dst[at.from:at.to]...)
			return
		}
		from := len(dst)
		dst = b.mergePiece(dst, &m, piece)
		known.keep(piece, from, len(dst))
	})
	return dst
}

// merger is the working memory of merging one piece: a list of symbols that shrinks, and the merges that may be done.
type merger struct {
	nodes []node
	work  heap
}

type node struct {
	sym        symbol
	prev, next int32 // -1 at the ends
}

// dead stands in a node that was merged into its left neighbour.
const dead symbol = -1

func (b *bpe) mergePiece(dst []bulkhead.Token, m *merger, piece string) []bulkhead.Token {
	m.nodes, m.work = m.nodes[:0], m.work[:0]
	for i := range len(piece) {
		m.nodes = append(m.nodes, node{b.bytes[piece[i]], int32(i - 1), int32(i + 1)})
	}
	m.nodes[len(piece)-1].next = -1
	for i := range len(piece) - 1 {
		b.offer(m, int32(i))
	}
	for len(m.work) > 0 {
		it := m.work.pop()
		at := int32(uint32(it.key))
		left := &m.nodes[at]
		if left.sym != symbol(it.a) || left.next < 0 || m.nodes[left.next].sym != symbol(it.b) {
			continue // one of the two was merged with another since
		}
		right := &m.nodes[left.next]
		left.sym, right.sym = symbol(it.c), dead
		left.next = right.next
		if right.next >= 0 {
			m.nodes[right.next].prev = at
		}
		if left.prev >= 0 {
			b.offer(m, left.prev)
		}
		b.offer(m, at)
	}
	for i := int32(0); i >= 0; i = m.nodes[i].next {
		dst = b.appendSymbol(dst, m.nodes[i].sym)
	}
	return dst
}

// offer puts the pair that starts at a node among the work, where it can be merged.
func (b *bpe) offer(m *merger, at int32) {
	left := m.nodes[at]
	if left.next < 0 {
		return
	}
	p := pair{left.sym, m.nodes[left.next].sym}
	if to, ok := b.merges[p]; ok {
		m.work.push(item{key(uint32(to.rank), at), int32(p.left), int32(p.right), int32(to.merged)})
	}
}

// appendSymbol gives out a symbol: a token, or the tokens of its bytes. A byte without a token is nothing, as with
// llama.cpp; byte-level vocabularies have a token for every byte.
func (b *bpe) appendSymbol(dst []bulkhead.Token, s symbol) []bulkhead.Token {
	if int(s) < b.size {
		return append(dst, bulkhead.Token(s))
	}
	text := b.texts[int(s)-b.size]
	for i := range len(text) {
		if id := b.byteIDs[text[i]]; id != none {
			dst = append(dst, id)
		}
	}
	return dst
}

// byteRunes is GPT-2's writing of bytes in a vocabulary: printable ones stand for themselves, the others for the code
// points from U+0100 on, in order.
var byteRunes, runeBytes = func() (runes [256]rune, bytes map[rune]byte) {
	bytes = make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xA1 && r <= 0xAC || r >= 0xAE && r <= 0xFF) {
			r = next
			next++
		}
		runes[b], bytes[r] = r, byte(b)
	}
	return runes, bytes
}()

// decodeBytes is the bytes that a token's text stands for. A code point that stands for no byte is taken as it is.
func decodeBytes(text string) string {
	out := make([]byte, 0, len(text))
	for i, r := range text {
		if b, ok := runeBytes[r]; ok {
			out = append(out, b)
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		out = append(out, text[i:i+size]...)
	}
	return string(out)
}
