package ask

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is all that a server said to one question, put together the same way from a whole body and from a stream.
type Answer struct {
	Status     int
	RetryAfter string
	Choices    map[int]*Choice
	Prompt     int // tokens, of the usage; -1 where none was sent
	Completion int
	Failure    *Failure // an error body, or the error event that ended a stream
	Done       bool     // the body was whole, or the stream ended as it must: with [DONE], or with an error event
}

// Choice is one of the answers to a question.
type Choice struct {
	Text     string
	Finish   string
	Logprobs []string // one a token: its text, its log-probability, the alternatives and the place, as JSON
}

// Failure is OpenAI's error object.
type Failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func (f *Failure) String() string {
	param := "null"
	if f.Param != nil {
		param = *f.Param
	}
	return fmt.Sprintf("%s (type %s, param %s): %s", f.Code, f.Type, param, f.Message)
}

// Tokens is how many tokens the answer has, by its usage or else by its log-probabilities.
func (a *Answer) Tokens() int { return max(a.Completion, 0) }

// choice is the one of an index.
func (a *Answer) choice(index int) *Choice {
	if a.Choices[index] == nil {
		a.Choices[index] = &Choice{}
	}
	return a.Choices[index]
}

// wire is the union of a whole answer and of a chunk, of chats and of completions.
type wire struct {
	Choices []struct {
		Index    int     `json:"index"`
		Text     string  `json:"text"`
		Message  *piece  `json:"message"`
		Delta    *piece  `json:"delta"`
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Content       []json.RawMessage `json:"content"`
			Tokens        []string          `json:"tokens"`
			TokenLogprobs []json.Number     `json:"token_logprobs"`
			TopLogprobs   []json.RawMessage `json:"top_logprobs"`
			TextOffset    []int             `json:"text_offset"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *Failure `json:"error"`
}

type piece struct {
	Content *string `json:"content"`
}

// add takes in a whole answer or a chunk.
func (a *Answer) add(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("%w in %s", err, data)
	}
	if w.Error != nil {
		a.Failure = w.Error
		return nil
	}
	for _, c := range w.Choices {
		to := a.choice(c.Index)
		if to.Finish != "" {
			return fmt.Errorf("choice %d goes on after its end: %s", c.Index, data)
		}
		to.Text += c.Text
		for _, p := range []*piece{c.Message, c.Delta} {
			if p != nil && p.Content != nil {
				to.Text += *p.Content
			}
		}
		if c.Finish != nil {
			to.Finish = *c.Finish
		}
		l := c.Logprobs
		if l == nil {
			continue
		}
		for _, token := range l.Content {
			to.Logprobs = append(to.Logprobs, string(token))
		}
		if len(l.TokenLogprobs) != len(l.Tokens) || len(l.TextOffset) != len(l.Tokens) {
			return fmt.Errorf("choice %d: lists of log-probabilities of different lengths: %s", c.Index, data)
		}
		for i, token := range l.Tokens {
			top := "null"
			if i < len(l.TopLogprobs) {
				top = string(l.TopLogprobs[i])
			}
			to.Logprobs = append(to.Logprobs, fmt.Sprintf("[%q,%s,%s,%d]", token, l.TokenLogprobs[i], top, l.TextOffset[i]))
		}
	}
	if u := w.Usage; u != nil {
		if u.Total != u.Prompt+u.Completion || u.Details.Cached < 0 || u.Details.Cached > u.Prompt {
			return fmt.Errorf("usage does not add up: %s", data)
		}
		a.Prompt, a.Completion = u.Prompt, u.Completion
	}
	return nil
}

// Differs says where an answer is not the one that it must be, "" if nowhere. Both are whole.
func (a *Answer) Differs(want *Answer) string {
	if a.Status != want.Status {
		return fmt.Sprintf("HTTP %d, must be %d%s", a.Status, want.Status, because(a))
	}
	if (a.Failure == nil) != (want.Failure == nil) {
		return fmt.Sprintf("failure %v, must be %v", a.Failure, want.Failure)
	}
	if a.Failure != nil && a.Failure.String() != want.Failure.String() {
		return fmt.Sprintf("failure %v, must be %v", a.Failure, want.Failure)
	}
	if d := a.Strays(want); d != "" {
		return d
	}
	for _, i := range slices.Sorted(maps.Keys(want.Choices)) {
		got, must := a.Choices[i], want.Choices[i]
		switch {
		case got == nil:
			return fmt.Sprintf("choice %d is missing", i)
		case got.Text != must.Text:
			return fmt.Sprintf("choice %d: text ends early: %q, must be %q", i, got.Text, must.Text)
		case len(got.Logprobs) != len(must.Logprobs):
			return fmt.Sprintf("choice %d: %d tokens with log-probabilities, must be %d", i, len(got.Logprobs), len(must.Logprobs))
		case got.Finish != must.Finish:
			return fmt.Sprintf("choice %d: finish_reason %q, must be %q", i, got.Finish, must.Finish)
		}
	}
	if a.Prompt != want.Prompt || a.Completion != want.Completion {
		return fmt.Sprintf("usage %d and %d tokens, must be %d and %d", a.Prompt, a.Completion, want.Prompt, want.Completion)
	}
	return ""
}

// Strays says where what has come so far is not the beginning of the answer that it must be, "" if nowhere. It is what holds
// of an answer that failed or was left in the middle.
func (a *Answer) Strays(want *Answer) string {
	for _, i := range slices.Sorted(maps.Keys(a.Choices)) {
		got, must := a.Choices[i], want.Choices[i]
		if must == nil {
			return fmt.Sprintf("choice %d, of which there must be none: %q", i, got.Text)
		}
		for j, token := range got.Logprobs {
			if j >= len(must.Logprobs) {
				return fmt.Sprintf("choice %d: token %d is %s, and there must be none", i, j, token)
			}
			if token != must.Logprobs[j] {
				return fmt.Sprintf("choice %d: token %d is %s, must be %s", i, j, token, must.Logprobs[j])
			}
		}
		if !strings.HasPrefix(must.Text, got.Text) {
			return fmt.Sprintf("choice %d: text %q, must be %q", i, got.Text, must.Text)
		}
		if got.Finish != "" && (got.Finish != must.Finish || got.Text != must.Text) {
			return fmt.Sprintf("choice %d: ends with %q after %q, must end with %q after %q", i, got.Finish, got.Text, must.Finish, must.Text)
		}
	}
	return ""
}

func because(a *Answer) string {
	if a.Failure == nil {
		return ""
	}
	return ": " + a.Failure.String()
}
