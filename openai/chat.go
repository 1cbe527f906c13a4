package openai

import (
	"slices"
	"strings"

	"github.com/bulkhead-llm/bulkhead"
)

// ChatRequest is the body of POST /v1/chat/completions.
type ChatRequest struct {
	Generation
	Messages []Message

	topLogprobs *int
}

// Message is one message of a chat. Content that came as several text parts is joined by newlines.
type Message struct {
	Role       string // system, developer, user, assistant or tool
	Content    string
	Name       string
	ToolCallID string

	content bool // there was one
}

// Roles are those that a message may have.
var Roles = []string{"system", "developer", "user", "assistant", "tool"}

// ParseChat reads the body of POST /v1/chat/completions.
func ParseChat(body []byte) (*ChatRequest, *bulkhead.Refusal) {
	req := &ChatRequest{Generation: newGeneration()}
	if ref := parse(body, func(r *reader) { chatFields.read(r, req) }); ref != nil {
		return nil, ref
	}
	if len(req.Messages) == 0 {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "messages", "`messages` is missing or empty: at least one message is needed")
	}
	if top := req.topLogprobs; top != nil {
		if !req.Sampling.Logprobs {
			return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "top_logprobs", "`top_logprobs` needs `logprobs`: true")
		}
		req.Sampling.TopLogprobs = *top
	}
	return req, req.check()
}

// ChatFields lists the fields of POST /v1/chat/completions.
func ChatFields() []FieldInfo { return chatFields.infos() }

var chatFields = join(
	lift(generationFields, func(c *ChatRequest) *Generation { return &c.Generation }),
	table[ChatRequest]{
		"messages": {Done, func(r *reader, c *ChatRequest) { c.Messages = readMessages(r) }},
		"max_completion_tokens": {Done, func(r *reader, c *ChatRequest) {
			n := r.integer(1, maxAnswer)
			c.maxCompletionTokens = &n
		}},
		"logprobs": {Done, func(r *reader, c *ChatRequest) { c.Sampling.Logprobs = r.boolean() }},
		"top_logprobs": {Done, func(r *reader, c *ChatRequest) {
			n := int(r.integer(0, MaxTopLogprobs))
			c.topLogprobs = &n
		}},

		"metadata": {Ignored, func(r *reader, _ *ChatRequest) {
			r.object(func(string) { r.text() })
		}},
		"store":                  {Ignored, ignoreBool[ChatRequest]},
		"service_tier":           {Ignored, ignoreText[ChatRequest]},
		"safety_identifier":      {Ignored, ignoreText[ChatRequest]},
		"prompt_cache_key":       {Ignored, ignoreText[ChatRequest]},
		"prompt_cache_retention": {Ignored, ignoreText[ChatRequest]},
		"prompt_cache_options":   {Ignored, func(r *reader, c *ChatRequest) { cacheOptions.read(r, c) }},
		"parallel_tool_calls":    {Ignored, ignoreBool[ChatRequest]}, // there are no tools

		"tools":              {NotYet, onlyEmpty[ChatRequest]},
		"functions":          {NotYet, onlyEmpty[ChatRequest]},
		"tool_choice":        {NotYet, noneOrObject},
		"function_call":      {NotYet, noneOrObject},
		"response_format":    {NotYet, readResponseFormat},
		"modalities":         {NotYet, readModalities},
		"verbosity":          {NotYet, onlyWord[ChatRequest]("medium")},
		"reasoning_effort":   {NotYet, onlyWord[ChatRequest]("none")},
		"audio":              {NotYet, nil},
		"prediction":         {NotYet, nil},
		"moderation":         {NotYet, nil},
		"web_search_options": {NotYet, nil},
	},
	all[ChatRequest](Unsupported, append([]string{"echo"}, extensionFields...)...),
	all[ChatRequest](Forbidden, controlFields...),
)

var cacheOptions = table[ChatRequest]{
	"mode": {Ignored, ignoreText[ChatRequest]},
	"ttl":  {Ignored, ignoreText[ChatRequest]},
}

// noneOrObject takes "none", which is what is done; a choice of tools is not done yet.
func noneOrObject(r *reader, c *ChatRequest) {
	switch r.kind() {
	case "a string":
		onlyWord[ChatRequest]("none")(r, c)
	case "an object":
		r.notYet()
	default:
		r.fail(bulkhead.CodeInvalid, "`%s` must be a string or an object, got %s", r.param(), r.kind())
	}
}

func readResponseFormat(r *reader, c *ChatRequest) {
	table[ChatRequest]{
		"type":        {NotYet, onlyWord[ChatRequest]("text")},
		"json_schema": {NotYet, nil},
	}.read(r, c)
}

func readModalities(r *reader, c *ChatRequest) {
	r.array(8, func(int) { onlyWord[ChatRequest]("text")(r, c) })
}

var messageFields = join(
	table[Message]{
		"role": {Done, func(r *reader, m *Message) {
			m.Role = r.text()
			if r.ref == nil && !slices.Contains(Roles, m.Role) {
				r.fail(bulkhead.CodeInvalid, "`%s` is %q: must be one of %s", r.param(), shorten(m.Role, maxShown), strings.Join(Roles, ", "))
			}
		}},
		"content": {Done, func(r *reader, m *Message) { m.Content, m.content = readContent(r), true }},
		"name":    {Done, func(r *reader, m *Message) { m.Name = r.text() }},
		"tool_call_id": {Done, func(r *reader, m *Message) {
			m.ToolCallID = r.text()
		}},
		// What clients send back of an answer.
		"annotations":   {Ignored, ignoreAny[Message]},
		"refusal":       {NotYet, nil},
		"tool_calls":    {NotYet, onlyEmpty[Message]},
		"function_call": {NotYet, nil},
		"audio":         {NotYet, nil},
	},
	all[Message](Unsupported, "reasoning_content", "reasoning", "tools"),
)

func readMessages(r *reader) (out []Message) {
	r.array(len(r.data), func(int) {
		var m Message
		messageFields.read(r, &m)
		switch {
		case r.ref != nil:
		case m.Role == "":
			r.missing("role")
		case !m.content:
			r.missing("content")
		case m.Role == "tool" && m.ToolCallID == "":
			r.missing("tool_call_id")
		case m.Role != "tool" && m.ToolCallID != "":
			r.path = append(r.path, ".tool_call_id"...)
			r.fail(bulkhead.CodeInvalid, "`%s` belongs to messages of the role tool", r.param())
		}
		out = append(out, m)
	})
	return out
}

// missing notes that the object at the reader's path lacks a member.
func (r *reader) missing(name string) {
	r.path = append(append(r.path, '.'), name...)
	r.fail(bulkhead.CodeInvalid, "`%s` is missing", r.param())
}

// part is one part of a message's content.
type part struct {
	kind, text string
	has        bool // a text, be it empty
}

var partFields = join(
	table[part]{
		"type":                    {Done, func(r *reader, p *part) { p.kind = readPartType(r) }},
		"text":                    {Done, func(r *reader, p *part) { p.text, p.has = r.text(), true }},
		"prompt_cache_breakpoint": {Ignored, ignoreAny[part]},
	},
	all[part](NotYet, "image_url", "input_audio", "file", "refusal", "video_url", "audio_url"),
)

func readPartType(r *reader) string {
	kind := r.text()
	if r.ref == nil && kind != "text" {
		r.fail(bulkhead.CodeUnsupported, "`%s` %q is not supported yet: only text parts are", r.param(), shorten(kind, maxShown))
	}
	return kind
}

func readContent(r *reader) string {
	switch r.kind() {
	case "a string":
		return r.text()
	case "an array":
	default:
		r.fail(bulkhead.CodeInvalid, "`%s` must be a string or an array of parts, got %s", r.param(), r.kind())
		return ""
	}
	var texts []string
	r.array(len(r.data), func(int) {
		var p part
		partFields.read(r, &p)
		switch {
		case r.ref != nil:
		case p.kind == "":
			r.missing("type")
		case !p.has:
			r.missing("text")
		}
		texts = append(texts, p.text)
	})
	if r.ref == nil && len(texts) == 0 {
		r.fail(bulkhead.CodeInvalid, "`%s` has no parts: at least one is needed", r.param())
	}
	return strings.Join(texts, "\n")
}
