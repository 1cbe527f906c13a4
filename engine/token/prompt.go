package token

import (
	"strings"

	"github.com/bulkhead-llm/bulkhead"
)

// Prompt is what a model is to read: text, and control marks between it.
//
// Where a segment came from is decided once, when the template is rendered: Control segments are the template's own. The
// text of a client is in segments that are not Control, and whatever such a segment says, none of its tokens is a
// control token.
type Prompt []Segment

// Segment is a stretch of text, or one control token by its text.
type Segment struct {
	Text    string
	Control bool
}

// TextPrompt is a prompt of plain text, as clients of the completions API send it.
func TextPrompt(text string) Prompt { return Prompt{{Text: text}} }

// String is the prompt as one text. It is for people and tests: where it came from cannot be told from it.
func (p Prompt) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.Text)
	}
	return b.String()
}

// EncodePrompt is the tokens of a prompt: BOS in front where the vocabulary wants it and the template did not write it
// itself, the control tokens, and between each two of them the text in one piece, wherever its parts came from. For a
// prompt whose text holds nothing that looks like a control token this is what llama.cpp and Hugging Face make of the
// rendering. A Control segment whose text is no control token of this vocabulary is text.
func (t *Tokenizer) EncodePrompt(p Prompt) []bulkhead.Token {
	e := encoder{t: t, afterMark: true}
	var text strings.Builder
	flush := func() {
		e.text(text.String())
		text.Reset()
	}
	if t.vocab.AddBOS && !t.startsWithBOS(p) {
		e.mark(t.vocab.BOS)
	}
	for _, s := range p {
		if id, ok := t.control.find(s.Text); ok && s.Control {
			flush()
			e.mark(id)
			continue
		}
		text.WriteString(s.Text)
	}
	flush()
	return e.out
}

func (t *Tokenizer) startsWithBOS(p Prompt) bool {
	for _, s := range p {
		if s.Text != "" {
			return s.Control && s.Text == t.vocab.Tokens[t.vocab.BOS]
		}
	}
	return false
}
