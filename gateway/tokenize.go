package gateway

import (
	"net/http"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// tokenize is POST /tokenize: the tokens that a prompt or a chat would have.
func (g *Gateway) tokenize(c *call) *bulkhead.Refusal {
	a, ref := g.arrive(c)
	if ref != nil {
		return ref
	}
	defer a.leave()
	req, ref := openai.ParseTokenize(a.body)
	if ref != nil {
		return ref
	}
	if req.Model != "" {
		if ref := g.checkModel(req.Model); ref != nil {
			return ref
		}
	}
	tokens := g.cfg.Text.Prompt(req.Prompt)
	if req.Messages != nil {
		if tokens, ref = g.renderChat(req.Messages); ref != nil {
			return ref
		}
	}
	out := openai.Tokenized{Count: len(tokens), MaxModelLen: int(g.cfg.Backend.Limits().Window), Tokens: make([]int32, len(tokens))}
	for i, t := range tokens {
		out.Tokens[i] = int32(t)
		if req.Strings {
			out.TokenStrs = append(out.TokenStrs, string(g.cfg.Text.Piece(t)))
		}
	}
	a.turn.counted() // the answer may be large too, and its client slow: the tenant's part is held until it is written
	c.row.failed(c.json(http.StatusOK, out))
	return nil
}

// detokenize is POST /detokenize: the text of tokens.
func (g *Gateway) detokenize(c *call) *bulkhead.Refusal {
	a, ref := g.arrive(c)
	if ref != nil {
		return ref
	}
	defer a.leave()
	req, ref := openai.ParseDetokenize(a.body)
	if ref != nil {
		return ref
	}
	if req.Model != "" {
		if ref := g.checkModel(req.Model); ref != nil {
			return ref
		}
	}
	if ref := g.checkTokens("tokens", req.Tokens); ref != nil {
		return ref
	}
	out := openai.Detokenized{Prompt: g.cfg.Text.Decode(req.Tokens)}
	a.turn.counted()
	c.row.failed(c.json(http.StatusOK, out))
	return nil
}
