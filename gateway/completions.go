package gateway

import (
	"fmt"
	"unicode/utf8"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// completions is POST /v1/completions.
func (g *Gateway) completions(c *call) *bulkhead.Refusal {
	a, ref := g.arrive(c)
	if ref != nil {
		return ref
	}
	defer a.leave()
	req, ref := openai.ParseCompletion(a.body)
	if ref != nil {
		return ref
	}
	counted, ref := g.countCompletion(a, req)
	if ref != nil {
		return ref
	}
	return g.answer(counted, &textShape{g, g.head(c, "cmpl-"), openai.ChunkUsage{Asked: req.IncludeUsage}})
}

// textShape makes the bodies of completions.
type textShape struct {
	g     *Gateway
	head  openai.Head
	chunk openai.ChunkUsage // of every chunk but the last
}

func (s *textShape) whole(choices []*choice, u openai.Usage) any {
	out := make([]openai.TextChoice, len(choices))
	for i, c := range choices {
		out[i] = openai.TextChoice{Index: i, Text: c.echo + c.content.String(), FinishReason: &c.finish, Logprobs: s.logprobs(c, c.logprobs)}
	}
	return openai.NewCompletion(s.head, openai.ChunkUsage{Asked: true, Usage: &u}, out...)
}

func (s *textShape) open(c *choice) any {
	if c.echo == "" {
		return nil
	}
	return s.event(openai.TextChoice{Index: c.index, Text: c.echo})
}

func (s *textShape) part(c *choice, d delta) any {
	return s.event(openai.TextChoice{Index: c.index, Text: d.text, Logprobs: s.logprobs(c, d.logprobs)})
}

func (s *textShape) finish(c *choice, reason string) any {
	return s.event(openai.TextChoice{Index: c.index, FinishReason: &reason})
}

func (s *textShape) event(c openai.TextChoice) any { return openai.NewCompletion(s.head, s.chunk, c) }

func (s *textShape) usage(u openai.Usage) any {
	return openai.NewCompletion(s.head, openai.ChunkUsage{Asked: true, Usage: &u})
}

// logprobs are null unless asked for. The token itself is among the alternatives, as OpenAI has it.
func (s *textShape) logprobs(c *choice, tokens []tokenLogprob) *openai.TextLogprobs {
	if !c.req.Sampling.Logprobs {
		return nil
	}
	n := len(tokens)
	out := &openai.TextLogprobs{Tokens: make([]string, n), TokenLogprobs: make([]float64, n),
		TopLogprobs: make([]map[string]float64, n), TextOffset: make([]int, n)}
	for i, t := range tokens {
		out.Tokens[i] = s.key(t.token)
		out.TokenLogprobs[i] = openai.Logprob(t.Logprobs.Token)
		out.TextOffset[i] = t.runes
		out.TopLogprobs[i] = map[string]float64{out.Tokens[i]: out.TokenLogprobs[i]}
		for _, a := range t.Top {
			out.TopLogprobs[i][s.key(a.Token)] = openai.Logprob(a.Logprob)
		}
	}
	return out
}

// key is a token's text; tokens that are no whole characters are written byte by byte, so that they differ.
func (s *textShape) key(t bulkhead.Token) string {
	piece := s.g.cfg.Text.Piece(t)
	if utf8.Valid(piece) {
		return string(piece)
	}
	out := "bytes:"
	for _, b := range piece {
		out += fmt.Sprintf(`\x%02x`, b)
	}
	return out
}
