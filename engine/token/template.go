package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead/engine/token/jinja"
)

// Roles are the roles that a message may have. They are a closed list because templates compare roles and write them
// next to their marks: a role is Bulkhead's word, not the client's.
var Roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// Message is one turn of a conversation, in the words of the chat API.
type Message struct {
	Role       string
	Content    string
	Name       string
	ToolCallID string
	// ToolCalls is the JSON list of an assistant's calls, arguments in a string or as an object. With calls and no Content
	// the template sees the content none.
	ToolCalls json.RawMessage
}

// RenderOptions are what a rendering has beside the messages.
type RenderOptions struct {
	AddGenerationPrompt bool             // end with the mark that starts the assistant's answer
	Tools               json.RawMessage  // the JSON list of tools, nil for none
	Now                 func() time.Time // for templates that write the date; nil: time.Now
}

// Rejection is messages that cannot be rendered: the template refuses them (its own words), or they are not what
// messages can be. It is the client's to mend.
type Rejection struct{ Text string }

func (e *Rejection) Error() string { return e.Text }

// Template is a chat template, prepared for one tokenizer. It may be used by many goroutines.
//
// Everything that comes from a client, be it content, names, calls, or the keys and values of tools' schemas, goes into
// the interpreter as a client's (package jinja), and comes out as such. Control marks are looked for only in what the
// template itself wrote, BOS and EOS included. A mark that the template puts together of its own pieces, or with a role,
// is found, since it is its bytes that count; one that needs a single byte of a client is text.
//
// A model whose template uses marks that are no control tokens of its vocabulary (Llama 2's [INST]) cannot be helped
// here: for it the mark is text, whoever wrote it.
type Template struct {
	tok       *Tokenizer
	jinja     *jinja.Template
	developer bool // the template knows the role developer; else it is told system
}

// Templates for files that have none.
const (
	chatML = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
	plainChat = `{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}

{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`
)

// HasTemplate says that the vocabulary came with a chat template.
func (t *Tokenizer) HasTemplate() bool { return t.vocab.ChatTemplate != "" }

// ChatTemplate is the template that the vocabulary came with; where it has none, ChatML for vocabularies that have its
// marks, else plain lines of "User: …" and "Assistant: …".
func (t *Tokenizer) ChatTemplate() (*Template, error) {
	src := t.vocab.ChatTemplate
	if src == "" {
		src = plainChat
		_, start := t.control.find("<|im_start|>")
		_, end := t.control.find("<|im_end|>")
		if start && end {
			src = chatML
		}
	}
	return NewTemplate(src, t)
}

// NewTemplate compiles a chat template.
func NewTemplate(src string, tok *Tokenizer) (*Template, error) {
	compiled, err := jinja.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return &Template{tok: tok, jinja: compiled, developer: strings.Contains(src, "developer")}, nil
}

// Render makes a prompt of messages. The error is a *Rejection where the messages are at fault.
func (t *Template) Render(messages []Message, o RenderOptions) (Prompt, error) {
	list := jinja.NewList()
	for i, m := range messages {
		v, err := t.message(m)
		if err != nil {
			return nil, &Rejection{fmt.Sprintf("message %d: %v", i, err)}
		}
		list.Append(v)
	}
	names := map[string]jinja.Value{
		"messages":              list,
		"add_generation_prompt": jinja.NewBool(o.AddGenerationPrompt),
		"bos_token":             jinja.Own(t.tok.textOf(t.tok.BOS())),
		"eos_token":             jinja.Own(t.tok.textOf(t.tok.EOS())),
	}
	if o.Tools != nil {
		tools, err := jinja.FromJSON(o.Tools)
		if err != nil {
			return nil, &Rejection{fmt.Sprintf("tools: %v", err)}
		}
		names["tools"] = tools
	}
	out, err := t.jinja.Render(names, jinja.Options{Now: o.Now})
	var raised *jinja.Raised
	switch {
	case errors.As(err, &raised):
		return nil, &Rejection{raised.Text}
	case err != nil:
		return nil, fmt.Errorf("token: %w", err)
	}
	return t.tok.prompt(out), nil
}

// message is a message as the template sees it. All of it is the client's, but its role and the names of its fields.
func (t *Template) message(m Message) (jinja.Value, error) {
	role := m.Role
	if !slices.Contains(Roles, role) {
		return nil, fmt.Errorf("the role %q is none of %s", role, strings.Join(Roles, ", "))
	}
	if role == "developer" && !t.developer {
		role = "system"
	}
	d := jinja.NewDict()
	set := func(key string, v jinja.Value) { d.Set(jinja.Own(key), v) }
	set("role", jinja.Own(role))
	set("content", jinja.Client(m.Content))
	if m.Name != "" {
		set("name", jinja.Client(m.Name))
	}
	if m.ToolCallID != "" {
		set("tool_call_id", jinja.Client(m.ToolCallID))
	}
	if m.ToolCalls != nil {
		calls, err := jinja.FromJSON(m.ToolCalls)
		if err != nil {
			return nil, fmt.Errorf("tool_calls: %v", err)
		}
		parseArguments(calls)
		set("tool_calls", calls)
		if m.Content == "" {
			set("content", nil)
		}
	}
	return d, nil
}

// parseArguments makes objects of calls' arguments that are an object's JSON in a string: the chat API has them so, and
// templates expect the object.
func parseArguments(calls jinja.Value) {
	list, _ := calls.(*jinja.List)
	for _, call := range list.Items() {
		d, _ := call.(*jinja.Dict)
		function, _ := d.Get("function").(*jinja.Dict)
		text, ok := function.Get("arguments").(jinja.Str)
		if !ok {
			continue
		}
		if parsed, err := jinja.FromJSON([]byte(text.String())); err == nil {
			if object, ok := parsed.(*jinja.Dict); ok {
				function.Set(jinja.Own("arguments"), object)
			}
		}
	}
}

// prompt finds the control marks in what a template wrote.
func (t *Tokenizer) prompt(out jinja.Str) Prompt {
	var p Prompt
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			p = append(p, Segment{Text: text.String()})
			text.Reset()
		}
	}
	for run, client := range out.Runs {
		if client {
			text.WriteString(run)
			continue
		}
		for _, f := range t.control.cut(run) {
			if f.id == none {
				text.WriteString(f.text)
				continue
			}
			flush()
			p = append(p, Segment{Text: f.text, Control: true})
		}
	}
	flush()
	return p
}
