package gatewaytest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// The tokens of [Text]: a byte each, and marks.
const (
	EOS   bulkhead.Token = 256 // ends an answer
	Start bulkhead.Token = 257 // before a message's role
	Body  bulkhead.Token = 258 // between role and content
	Size                 = 259
)

// Text is a tokenizer of bytes. A chat is Start, role, Body, content, EOS for each message, and Start, "assistant", Body.
type Text struct{}

// Chat implements [gateway.Text]. It takes no chat that the assistant begins.
func (Text) Chat(messages []openai.Message) (out []bulkhead.Token, err error) {
	if messages[0].Role == "assistant" {
		return nil, fmt.Errorf("the assistant cannot begin")
	}
	for _, m := range append(messages, openai.Message{Role: "assistant"}) {
		out = append(out, Start)
		out = append(out, Bytes(m.Role)...)
		out = append(out, Body)
		out = append(append(out, Bytes(m.Content)...), EOS)
	}
	return out[:len(out)-1], nil
}

// Prompt implements [gateway.Text].
func (Text) Prompt(text string) []bulkhead.Token { return Bytes(text) }

// Size implements [gateway.Text].
func (Text) Size() int { return Size }

// Ends implements [gateway.Text].
func (Text) Ends(t bulkhead.Token) bool { return t == EOS }

// Piece implements [gateway.Text].
func (Text) Piece(t bulkhead.Token) []byte {
	if t > 255 {
		return []byte(fmt.Sprintf("<%d>", t))
	}
	return []byte{byte(t)}
}

// Decode implements [gateway.Text].
func (Text) Decode(tokens []bulkhead.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t < 256 {
			b.WriteByte(byte(t))
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// Decoder implements [gateway.Text].
func (Text) Decoder() gateway.Decoder { return &decoder{} }

type decoder struct{ held []byte }

func (d *decoder) Next(t bulkhead.Token) string {
	if t < 256 {
		d.held = append(d.held, byte(t))
	}
	if !utf8.FullRune(d.held) {
		return ""
	}
	return d.Flush()
}

func (d *decoder) Flush() string {
	out := strings.ToValidUTF8(string(d.held), "\uFFFD")
	d.held = nil
	return out
}

// Bytes is the tokens of a text.
func Bytes(text string) []bulkhead.Token {
	out := make([]bulkhead.Token, len(text))
	for i := range len(text) {
		out[i] = bulkhead.Token(text[i])
	}
	return out
}

// Repeat answers with the content of the last message that somebody wrote, or with the whole of a plain prompt, and EOS.
func Repeat(r bulkhead.Request) []bulkhead.Token {
	p := r.Prompt
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != EOS {
			continue
		}
		j := i
		for j > 0 && p[j] != Body {
			j--
		}
		return append(append([]bulkhead.Token(nil), p[j+1:i]...), EOS)
	}
	return append(append([]bulkhead.Token(nil), p...), EOS)
}
