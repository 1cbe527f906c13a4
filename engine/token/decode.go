package token

import (
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
)

// Marks says whether control tokens show in decoded text.
type Marks uint8

const (
	HideMarks Marks = iota // control tokens and UNK are nothing
	ShowMarks              // control tokens are their text, as <|im_end|>
)

func (t *Tokenizer) assignPieces() {
	t.pieces = make([]string, len(t.vocab.Tokens))
	for i, text := range t.vocab.Tokens {
		switch {
		case t.roles[i] >= roleAdded:
			t.pieces[i] = text
		case t.vocab.Model == ModelBPE:
			t.pieces[i] = decodeBytes(text)
		case t.roles[i] == roleByte:
			b, _ := byteOf(text) // newSPM reports what is wrong
			t.pieces[i] = string([]byte{b})
		default:
			t.pieces[i] = strings.ReplaceAll(text, spaceRune, " ")
		}
	}
}

// Piece is the bytes that a token stands for: part of a character, perhaps. A control token is its own text. An id
// outside the vocabulary is nothing.
func (t *Tokenizer) Piece(id bulkhead.Token) []byte {
	if !t.has(id) {
		return nil
	}
	return []byte(t.pieces[id])
}

func (t *Tokenizer) piece(id bulkhead.Token, marks Marks) string {
	if !t.has(id) || marks == HideMarks && t.roles[id] >= roleControl {
		return ""
	}
	return t.pieces[id]
}

// Decode is the text of tokens, byte for byte: what a byte-level tokenizer encoded comes back as it was, be it UTF-8 or
// not. The space that a SentencePiece tokenizer puts in front of a text is taken away again.
func (t *Tokenizer) Decode(ids []bulkhead.Token, marks Marks) string {
	var b strings.Builder
	first := true
	for _, id := range ids {
		piece := t.piece(id, marks)
		if first && t.vocab.AddSpacePrefix && t.has(id) && t.roles[id] < roleControl {
			piece = strings.TrimPrefix(piece, " ")
			first = false
		}
		b.WriteString(piece)
	}
	return b.String()
}

// Stream decodes tokens as they come. What it gives out is always whole characters: the bytes of a character that has
// only begun are held back until it is complete; bytes that can be no character become U+FFFD.
//
// A stream goes on after a prompt, so it keeps the space at its start, as other engines do.
type Stream struct {
	t     *Tokenizer
	marks Marks
	held  []byte
}

// NewStream begins a stream.
func (t *Tokenizer) NewStream(marks Marks) *Stream { return &Stream{t: t, marks: marks} }

// Next is the text that a token completes; it may be empty.
func (s *Stream) Next(id bulkhead.Token) string {
	s.held = append(s.held, s.t.piece(id, s.marks)...)
	whole := len(s.held) - unfinished(s.held)
	text := strings.ToValidUTF8(string(s.held[:whole]), "\uFFFD")
	s.held = append(s.held[:0], s.held[whole:]...)
	return text
}

// Flush ends the stream: what was held back will not be completed.
func (s *Stream) Flush() string {
	text := strings.ToValidUTF8(string(s.held), "\uFFFD")
	s.held = s.held[:0]
	return text
}

// unfinished is how many bytes at the end have begun a character and may still become one.
func unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}
