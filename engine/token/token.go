// Package token turns text into token ids and back, and conversations into prompts, by the tokenizer and the chat
// template that a model file carries.
//
// A short guide:
//
//   - [FromMetadata] reads a [Vocab] out of a model file's metadata; [New] makes a [Tokenizer] of it. Two kinds of
//     tokenizer are known: byte-level BPE ("gpt2") with the pre-tokenizers of [Pretokenizers], and SentencePiece BPE
//     ("llama"). Both agree id for id with llama.cpp on its published vocabularies.
//   - [Tokenizer.Encode] takes plain text and never yields a control token, whatever the text looks like.
//   - [NewTemplate] compiles a chat template; [Template.Render] makes a [Prompt] of messages: segments that are text, and
//     control marks. [Tokenizer.EncodePrompt] makes tokens of it.
//   - [Tokenizer.Decode], [Tokenizer.Piece] and [Stream] go back.
//
// # A user's text never becomes a control token
//
// Engines commonly render the template to one string and then look for control tokens in all of it. A document that
// says <|im_start|>system then speaks as the system. Here every byte of a rendering knows whether the template wrote it
// or a client did (package jinja), and a control token is recognised only where the template wrote all of its bytes.
// So it does not matter what the template does with a message: trim it, split it, join it with another. The rest is
// encoded as plain text, in one piece between two control tokens, so that benign conversations get the same ids as
// elsewhere.
//
// Everything here is immutable after construction and safe for many goroutines, but a [Stream], which belongs to one.
package token

import (
	"fmt"
	"math"

	"github.com/bulkhead-llm/bulkhead"
)

// Limits of a vocabulary. Real ones have up to 262,144 tokens and about as many merges.
const (
	maxTokens   = 1 << 20
	maxMerges   = 1 << 21
	maxTokenLen = 1 << 14
)

// none stands for a token that the vocabulary does not have.
const none bulkhead.Token = -1

// Tokenizer encodes and decodes by one vocabulary.
//
// The work of Encode is split: the special tokens that plain text may hold are cut out first (see control.go), what is
// between them goes to a model, which is the one thing that differs between the two kinds.
type Tokenizer struct {
	vocab  Vocab
	model  model
	pieces []string // what each token stands for, as bytes
	roles  []role   // what each token is for
	eog    []bool   // tokens that end a generation

	control *matcher // control tokens: looked for in what templates wrote, and nowhere else
	plain   *matcher // tokens of the tokenizer's own that plain text may hold, such as runs of spaces
}

// model is the part of a tokenizer that differs between its kinds: it appends the tokens of one stretch of text, which
// may be any bytes. Its result has no control token.
type model interface {
	encode(dst []bulkhead.Token, text string) []bulkhead.Token
}

// New checks a vocabulary and prepares it. The error of a vocabulary that cannot be used says what is wrong with it; a
// tokenizer or pre-tokenizer that is not known is named, with the list of those that are.
func New(v Vocab) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	t := &Tokenizer{vocab: v, roles: make([]role, len(v.Tokens)), eog: make([]bool, len(v.Tokens))}
	t.assignRoles()
	t.assignPieces()
	t.control = newMatcher(v.Tokens, func(i int) bool { return t.roles[i] >= roleControl })
	t.plain = newMatcher(v.Tokens, func(i int) bool { return t.roles[i] == roleAdded })
	var err error
	switch v.Model {
	case ModelBPE:
		t.model, err = newBPE(t)
	case ModelSPM:
		t.model, err = newSPM(t)
	}
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return t, nil
}

func (v *Vocab) check() error {
	if v.Model != ModelBPE && v.Model != ModelSPM {
		return fmt.Errorf("tokenizer model %q is not supported; supported are %q (byte-level BPE) and %q (SentencePiece BPE)",
			v.Model, ModelBPE, ModelSPM)
	}
	n := len(v.Tokens)
	switch {
	case n == 0:
		return fmt.Errorf("the vocabulary is empty")
	case n > maxTokens:
		return fmt.Errorf("the vocabulary has %d tokens, more than %d", n, maxTokens)
	case len(v.Merges) > maxMerges:
		return fmt.Errorf("the vocabulary has %d merges, more than %d", len(v.Merges), maxMerges)
	case v.Types != nil && len(v.Types) != n:
		return fmt.Errorf("the vocabulary has %d tokens and %d token types", n, len(v.Types))
	case v.Scores != nil && len(v.Scores) != n:
		return fmt.Errorf("the vocabulary has %d tokens and %d scores", n, len(v.Scores))
	case v.Model == ModelSPM && v.Scores == nil:
		return fmt.Errorf("a vocabulary of kind %q needs scores and has none", v.Model)
	case v.Model == ModelBPE && len(v.Merges) == 0:
		return fmt.Errorf("a vocabulary of kind %q needs merges and has none", v.Model)
	}
	for _, id := range []struct {
		name string
		id   bulkhead.Token
	}{{"BOS", v.BOS}, {"EOS", v.EOS}, {"UNK", v.UNK}, {"EOT", v.EOT}, {"EOM", v.EOM}} {
		if id.id < none || int(id.id) >= n {
			return fmt.Errorf("the %s token is %d, outside the vocabulary of %d tokens", id.name, id.id, n)
		}
	}
	if v.AddBOS && v.BOS == none {
		return fmt.Errorf("a BOS token is to be added and the vocabulary names none")
	}
	seen := make(map[string]int, n)
	for i, text := range v.Tokens {
		if len(text) > maxTokenLen {
			return fmt.Errorf("token %d has %d bytes, more than %d", i, len(text), maxTokenLen)
		}
		if first, dup := seen[text]; dup && text != "" {
			return fmt.Errorf("tokens %d and %d are both %q", first, i, text)
		}
		seen[text] = i
		if v.Scores != nil && math.IsNaN(float64(v.Scores[i])) {
			return fmt.Errorf("the score of token %d is not a number", i)
		}
	}
	return nil
}

// Size is how many tokens the vocabulary has. Ids are 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.vocab.Tokens) }

// BOS is the token that starts a text, where the vocabulary has one.
func (t *Tokenizer) BOS() (bulkhead.Token, bool) { return t.vocab.BOS, t.vocab.BOS != none }

// EOS is the token that ends a text, where the vocabulary has one.
func (t *Tokenizer) EOS() (bulkhead.Token, bool) { return t.vocab.EOS, t.vocab.EOS != none }

// textOf is the text of BOS or EOS, "" where there is none.
func (t *Tokenizer) textOf(id bulkhead.Token, ok bool) string {
	if !ok {
		return ""
	}
	return t.vocab.Tokens[id]
}

// IsControl says that a token steers the model and is nobody's text: [Tokenizer.Encode] never yields it.
func (t *Tokenizer) IsControl(id bulkhead.Token) bool {
	return t.has(id) && t.roles[id] == roleControl
}

// EOG says that a token ends a generation.
func (t *Tokenizer) EOG(id bulkhead.Token) bool { return t.has(id) && t.eog[id] }

func (t *Tokenizer) has(id bulkhead.Token) bool { return id >= 0 && int(id) < len(t.roles) }

// Encode is the tokens of plain text, without BOS. None of them is a control token. The text may be any bytes; what the
// vocabulary has no tokens for is UNK ("llama") or left out ("gpt2", whose vocabularies have a token for nearly every
// byte).
//
// Tokens that the tokenizer keeps apart without their being control tokens (USER_DEFINED in GGUF, such as runs of
// spaces) are cut out first, the longest first, as llama.cpp and Hugging Face do.
func (t *Tokenizer) Encode(text string) []bulkhead.Token {
	e := encoder{t: t, afterMark: true}
	e.text(text)
	return e.out
}

// encoder gathers the tokens of a prompt.
type encoder struct {
	t         *Tokenizer
	out       []bulkhead.Token
	afterMark bool // at the start, or just after a token that was cut out: SentencePiece puts a space in front there
}

func (e *encoder) mark(id bulkhead.Token) {
	e.out = append(e.out, id)
	e.afterMark = true
}

func (e *encoder) text(text string) {
	for _, f := range e.t.plain.cut(text) {
		if f.id != none {
			e.mark(f.id)
			continue
		}
		stretch := f.text
		if e.afterMark && e.t.vocab.AddSpacePrefix {
			stretch = " " + stretch
		}
		e.out = e.t.model.encode(e.out, stretch)
		e.afterMark = false
	}
}
