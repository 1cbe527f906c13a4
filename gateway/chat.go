package gateway

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// chat is POST /v1/chat/completions.
func (g *Gateway) chat(c *call) *bulkhead.Refusal {
	a, ref := g.arrive(c)
	if ref != nil {
		return ref
	}
	defer a.leave()
	req, ref := openai.ParseChat(a.body)
	if ref != nil {
		return ref
	}
	counted, ref := g.countChat(a, req)
	if ref != nil {
		return ref
	}
	return g.answer(counted, &chatShape{g, g.head(c, "chatcmpl-"), openai.ChunkUsage{Asked: req.IncludeUsage}})
}

// answer is hops 3, 4 and 9 of a request whose prompts are counted.
func (g *Gateway) answer(c *counted, sh shape) *bulkhead.Refusal {
	c.body = nil // read and counted: it need not stay while the answer runs
	admission, ref := g.admit(c)
	if ref != nil {
		return ref
	}
	c.turn.leave()
	submission, ref := g.submit(admission)
	if ref != nil {
		return ref
	}
	return g.deliver(submission, sh)
}

// head is what all bodies of one answer share.
func (g *Gateway) head(c *call, prefix string) openai.Head {
	return openai.Head{ID: prefix + string(c.id), Created: c.start.Unix(), Model: g.cfg.Model.Name, SystemFingerprint: g.fingerprint}
}

// chatShape makes the bodies of chats.
type chatShape struct {
	g     *Gateway
	head  openai.Head
	chunk openai.ChunkUsage // of every chunk but the last
}

func (s *chatShape) whole(choices []*choice, u openai.Usage) any {
	out := make([]openai.ChatChoice, len(choices))
	for i, c := range choices {
		out[i] = openai.ChatChoice{Index: i, Message: openai.NewAnswer(c.content.String()), FinishReason: c.finish,
			Logprobs: s.logprobs(c, c.logprobs)}
	}
	return openai.NewChatCompletion(s.head, out, u)
}

func (s *chatShape) open(c *choice) any {
	return openai.NewChatChunk(s.head, s.chunk, openai.ChatDelta{Index: c.index,
		Delta: openai.Delta{Role: "assistant", Content: new(string), Refusal: &openai.Null{}}})
}

func (s *chatShape) part(c *choice, d delta) any {
	return openai.NewChatChunk(s.head, s.chunk, openai.ChatDelta{Index: c.index, Delta: openai.Delta{Content: &d.text},
		Logprobs: s.logprobs(c, d.logprobs)})
}

func (s *chatShape) finish(c *choice, reason string) any {
	return openai.NewChatChunk(s.head, s.chunk, openai.ChatDelta{Index: c.index, FinishReason: &reason})
}

func (s *chatShape) usage(u openai.Usage) any {
	return openai.NewChatChunk(s.head, openai.ChunkUsage{Asked: true, Usage: &u})
}

// logprobs are null unless asked for.
func (s *chatShape) logprobs(c *choice, tokens []tokenLogprob) *openai.ChatLogprobs {
	if !c.req.Sampling.Logprobs {
		return nil
	}
	out := &openai.ChatLogprobs{Content: make([]openai.TokenLogprob, len(tokens))}
	for i, t := range tokens {
		top := make([]openai.Alternative, len(t.Top))
		for j, a := range t.Top {
			top[j] = openai.NewAlternative(s.g.cfg.Text.Piece(a.Token), a.Logprob)
		}
		out.Content[i] = openai.TokenLogprob{Alternative: openai.NewAlternative(s.g.cfg.Text.Piece(t.token), t.Logprobs.Token), Top: top}
	}
	return out
}
