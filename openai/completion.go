package openai

import "github.com/bulkhead-llm/bulkhead"

// defaultAnswer is what a completion without max_tokens gets, by OpenAI's specification. A chat gets what the window
// leaves.
const defaultAnswer = 16

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Generation
	Prompts []Prompt // at least one
	Echo    bool     // the answer repeats the prompt in front
	Default bool     // MaxTokens is not the request's own: less is as good where the window leaves less
}

// Prompt is a text, or tokens where Tokens is not nil.
type Prompt struct {
	Text   string
	Tokens []bulkhead.Token
}

// ParseCompletion reads the body of POST /v1/completions.
func ParseCompletion(body []byte) (*CompletionRequest, *bulkhead.Refusal) {
	req := &CompletionRequest{Generation: newGeneration()}
	if ref := parse(body, func(r *reader) { completionFields.read(r, req) }); ref != nil {
		return nil, ref
	}
	switch n := len(req.Prompts) * req.N; {
	case n == 0:
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "prompt", "`prompt` is missing or empty")
	case n > MaxChoices:
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "n", "%d prompts with %d choices each make %d answers: at most %d are done",
			len(req.Prompts), req.N, n, MaxChoices)
	case req.Echo && req.Sampling.Logprobs:
		return nil, bulkhead.Refuse(bulkhead.CodeUnsupported, "logprobs", "`logprobs` together with `echo` is not supported yet")
	}
	if ref := req.check(); ref != nil {
		return nil, ref
	}
	if req.MaxTokens == 0 {
		req.MaxTokens, req.Default = defaultAnswer, true
	}
	return req, nil
}

// CompletionFields lists the fields of POST /v1/completions.
func CompletionFields() []FieldInfo { return completionFields.infos() }

var completionFields = join(
	lift(generationFields, func(c *CompletionRequest) *Generation { return &c.Generation }),
	table[CompletionRequest]{
		"prompt": {Done, func(r *reader, c *CompletionRequest) { c.Prompts = readPrompts(r) }},
		"echo":   {Done, func(r *reader, c *CompletionRequest) { c.Echo = r.boolean() }},
		"logprobs": {Done, func(r *reader, c *CompletionRequest) {
			c.Sampling.TopLogprobs = int(r.integer(0, MaxLogprobs))
			c.Sampling.Logprobs = true
		}},
		"best_of": {NotYet, func(r *reader, _ *CompletionRequest) {
			if n := r.integer(0, MaxChoices); n > 1 {
				r.notYet()
			}
		}},
		"suffix": {NotYet, func(r *reader, _ *CompletionRequest) {
			if r.text() != "" {
				r.notYet()
			}
		}},
		"response_format": {NotYet, func(r *reader, _ *CompletionRequest) { readResponseFormat(r, nil) }},
	},
	all[CompletionRequest](Unsupported, extensionFields...),
	all[CompletionRequest](Forbidden, controlFields...),
)

// readPrompts reads a string, an array of strings, an array of tokens, or an array of arrays of tokens.
func readPrompts(r *reader) (out []Prompt) {
	if r.kind() == "a string" {
		return []Prompt{{Text: r.text()}}
	}
	if r.kind() != "an array" {
		r.fail(bulkhead.CodeInvalid, "`%s` must be a string or an array, got %s", r.param(), r.kind())
		return nil
	}
	first := ""
	var tokens []bulkhead.Token
	r.array(len(r.data), func(i int) {
		kind := r.kind()
		if i == 0 {
			first = kind
		}
		switch {
		case kind == first && kind == "a number":
			tokens = append(tokens, readToken(r))
		case kind == first && kind == "a string":
			out = append(out, Prompt{Text: r.text()})
		case kind == first && kind == "an array":
			out = append(out, Prompt{Tokens: readTokens(r)})
		default:
			r.fail(bulkhead.CodeInvalid, "`%s` is %s: a prompt is a string, an array of strings, of tokens, or of arrays of tokens",
				r.param(), kind)
		}
		if len(out) > MaxChoices {
			r.fail(bulkhead.CodeInvalid, "`prompt` has more than %d prompts", MaxChoices)
		}
	})
	if tokens != nil {
		return []Prompt{{Tokens: tokens}}
	}
	return out
}

// readTokens reads an array of tokens; the result is not nil.
func readTokens(r *reader) []bulkhead.Token {
	out := []bulkhead.Token{}
	r.array(len(r.data), func(int) { out = append(out, readToken(r)) })
	return out
}
