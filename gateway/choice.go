package gateway

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/stop"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// choice is one answer on its way from tokens to text.
//
// Three things hold text back, each for its own reason: the decoder, until a character is whole; the finder of stop strings, until it is
// no part of a stop string; and log-probabilities wait with the text of their token. The end lets go of what is left.
type choice struct {
	index   int
	prompt  int // which of the request's prompts it answers
	echo    string
	req     bulkhead.Request
	text    Text
	leave   func()
	decoder Decoder
	stop    stop.Finder

	content  strings.Builder // what was let out
	pending  []tokenLogprob  // of tokens whose text is held back
	logprobs []tokenLogprob  // of what was let out, where nothing is streamed

	decoded, runes  int // bytes and characters that the decoder has given
	released        int // bytes of these that were let out
	tokens, cached  bulkhead.Tokens
	finish          string // set once it is known how the answer ends
	begun, finished bool   // an event has been sent; the End has come
}

// tokenLogprob is a token with its log-probabilities and where its text is in the answer.
type tokenLogprob struct {
	token      bulkhead.Token
	start, end int // bytes
	runes      int // characters in front
	bulkhead.Logprobs
}

// delta is what one event adds to an answer.
type delta struct {
	text     string
	logprobs []tokenLogprob
	finish   string // set in the last
}

func (d delta) empty() bool { return d.text == "" && len(d.logprobs) == 0 }

func newChoice(text Text, index, n int, req bulkhead.Request, stops []string, leave func()) *choice {
	return &choice{index: index, prompt: index / n, req: req, text: text, leave: leave,
		decoder: text.Decoder(), stop: stop.Finder{Stops: stops}}
}

// take adds an event. The refusal says why there is no answer.
func (c *choice) take(e bulkhead.Event) (delta, *bulkhead.Refusal) {
	if e.End != nil {
		return c.end(e.End)
	}
	if c.finish != "" { // a stop string was complete; the workers have not heard of it yet
		return delta{}, nil
	}
	c.tokens++
	if c.terminal(e.Token) {
		return delta{}, nil
	}
	text := c.decoder.Next(e.Token)
	if e.Logprobs != nil {
		c.pending = append(c.pending, tokenLogprob{e.Token, c.decoded, c.decoded + len(text), c.runes, *e.Logprobs})
	}
	return c.add(text), nil
}

// terminal says that a token only ends the answer and is no text of it.
func (c *choice) terminal(t bulkhead.Token) bool {
	return slices.Contains(c.req.StopIDs, t) || !c.req.IgnoreEOS && c.text.Ends(t)
}

// add lets out what text makes possible.
func (c *choice) add(text string) (d delta) {
	c.decoded += len(text)
	c.runes += utf8.RuneCountInString(text)
	out, found := c.stop.Next(text)
	d.text = out
	c.released += len(out)
	c.content.WriteString(out)
	n := 0
	for n < len(c.pending) && (c.pending[n].end <= c.released || found && c.pending[n].start < c.released) {
		n++
	}
	d.logprobs, c.pending = c.pending[:n:n], c.pending[n:]
	if found {
		c.pending = nil
		c.finish, d.finish = openai.FinishStop, openai.FinishStop
		c.leave()
	}
	return d
}

// end takes the last event.
func (c *choice) end(end *bulkhead.End) (delta, *bulkhead.Refusal) {
	c.finished = true
	c.cached = end.Cached
	if c.finish != "" {
		return delta{}, nil
	}
	switch end.Reason {
	case bulkhead.Stopped:
		c.finish = openai.FinishStop
	case bulkhead.Length:
		c.finish = openai.FinishLength
	case bulkhead.Violated:
		return delta{}, openai.Violated()
	default:
		if end.Refusal != nil {
			return delta{}, end.Refusal
		}
		return delta{}, internal()
	}
	d := c.add(c.decoder.Flush())
	if d.finish == "" {
		d.finish = c.finish
		rest := c.stop.Flush()
		d.text += rest
		c.content.WriteString(rest)
		d.logprobs = append(d.logprobs, c.pending...)
	}
	return d, nil
}
