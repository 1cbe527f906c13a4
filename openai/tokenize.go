package openai

import "github.com/bulkhead-llm/bulkhead"

// TokenizeRequest is the body of POST /tokenize: a text, or the messages of a chat. The shapes are vLLM's.
type TokenizeRequest struct {
	Model    string // empty: the one that is served
	Prompt   string
	Messages []Message // nil: Prompt is meant
	Strings  bool      // return the text of each token too

	prompt bool
}

// DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string // empty: the one that is served
	Tokens []bulkhead.Token
}

// ParseTokenize reads the body of POST /tokenize.
func ParseTokenize(body []byte) (*TokenizeRequest, *bulkhead.Refusal) {
	req := &TokenizeRequest{}
	if ref := parse(body, func(r *reader) { tokenizeFields.read(r, req) }); ref != nil {
		return nil, ref
	}
	if req.prompt == (len(req.Messages) > 0) {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "prompt", "exactly one of `prompt` and `messages` is needed")
	}
	return req, nil
}

// ParseDetokenize reads the body of POST /detokenize.
func ParseDetokenize(body []byte) (*DetokenizeRequest, *bulkhead.Refusal) {
	req := &DetokenizeRequest{}
	if ref := parse(body, func(r *reader) { detokenizeFields.read(r, req) }); ref != nil {
		return nil, ref
	}
	if req.Tokens == nil {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "tokens", "`tokens` is missing")
	}
	return req, nil
}

// TokenizeFields lists the fields of POST /tokenize.
func TokenizeFields() []FieldInfo { return tokenizeFields.infos() }

// DetokenizeFields lists the fields of POST /detokenize.
func DetokenizeFields() []FieldInfo { return detokenizeFields.infos() }

var tokenizeFields = join(
	table[TokenizeRequest]{
		"model":  {Done, func(r *reader, t *TokenizeRequest) { t.Model = r.text() }},
		"prompt": {Done, func(r *reader, t *TokenizeRequest) { t.Prompt, t.prompt = r.text(), true }},
		"messages": {Done, func(r *reader, t *TokenizeRequest) {
			t.Messages = readMessages(r)
		}},
		"return_token_strs": {Done, func(r *reader, t *TokenizeRequest) { t.Strings = r.boolean() }},
	},
	all[TokenizeRequest](Unsupported, "add_special_tokens", "add_generation_prompt", "continue_final_message",
		"chat_template", "chat_template_kwargs", "mm_processor_kwargs", "tools"),
	all[TokenizeRequest](Forbidden, controlFields...),
)

var detokenizeFields = join(
	table[DetokenizeRequest]{
		"model":  {Done, func(r *reader, d *DetokenizeRequest) { d.Model = r.text() }},
		"tokens": {Done, func(r *reader, d *DetokenizeRequest) { d.Tokens = readTokens(r) }},
	},
	all[DetokenizeRequest](Unsupported, "skip_special_tokens"),
	all[DetokenizeRequest](Forbidden, controlFields...),
)
