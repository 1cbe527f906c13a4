package main

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/token"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// text is the model's tokenizer and chat template as the gateway sees them.
type text struct {
	tok      *token.Tokenizer
	template *token.Template
}

var _ gateway.Text = (*text)(nil)

func newText(f *gguf.File) (*text, error) {
	vocab, err := token.FromMetadata(f)
	if err != nil {
		return nil, err
	}
	tok, err := token.New(vocab)
	if err != nil {
		return nil, err
	}
	template, err := tok.ChatTemplate()
	if err != nil {
		return nil, err
	}
	return &text{tok: tok, template: template}, nil
}

// Chat renders the messages and tokenises. Nothing in a message becomes a control token.
func (t *text) Chat(messages []openai.Message) ([]bulkhead.Token, error) {
	list := make([]token.Message, len(messages))
	for i, m := range messages {
		list[i] = token.Message{Role: m.Role, Content: m.Content, Name: m.Name}
	}
	prompt, err := t.template.Render(list, token.RenderOptions{AddGenerationPrompt: true})
	if err != nil {
		return nil, err
	}
	return t.tok.EncodePrompt(prompt), nil
}

// Prompt tokenises plain text.
func (t *text) Prompt(s string) []bulkhead.Token { return t.tok.EncodePrompt(token.TextPrompt(s)) }

// Size is the size of the vocabulary.
func (t *text) Size() int { return t.tok.Size() }

// Ends says that a token ends an answer.
func (t *text) Ends(id bulkhead.Token) bool { return t.tok.EOG(id) }

// Piece is the bytes of a token.
func (t *text) Piece(id bulkhead.Token) []byte { return t.tok.Piece(id) }

// Decode is the text of tokens, without marks.
func (t *text) Decode(ids []bulkhead.Token) string { return t.tok.Decode(ids, token.HideMarks) }

// Decoder turns tokens into text as they come.
func (t *text) Decoder() gateway.Decoder { return t.tok.NewStream(token.HideMarks) }

// ends lists the tokens that end an answer.
func (t *text) ends() []bulkhead.Token {
	var ids []bulkhead.Token
	for id := range bulkhead.Token(t.tok.Size()) {
		if t.tok.EOG(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
