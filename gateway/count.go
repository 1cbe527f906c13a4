package gateway

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// counted is hop 2: a request whose prompts are tokens, so that its size is exact before anybody behind the gateway hears
// of it.
type counted struct {
	*arrival
	gen     *openai.Generation
	prompts [][]bulkhead.Token
	echo    []string // the text in front of each prompt's answers; nil: none
	param   string   // the field that the prompt came in, for refusals
	less    bool     // max_tokens is a default: what the window leaves will do
}

// countChat renders the template and tokenises.
func (g *Gateway) countChat(a *arrival, req *openai.ChatRequest) (*counted, *bulkhead.Refusal) {
	if ref := g.checkGeneration(&req.Generation); ref != nil {
		return nil, ref
	}
	tokens, ref := g.renderChat(req.Messages)
	if ref != nil {
		return nil, ref
	}
	return &counted{arrival: a, gen: &req.Generation, prompts: [][]bulkhead.Token{tokens}, param: "messages"}, nil
}

// renderChat is the prompt of messages. Templates know the role "system" and not its later name "developer".
func (g *Gateway) renderChat(messages []openai.Message) ([]bulkhead.Token, *bulkhead.Refusal) {
	for i := range messages {
		if messages[i].Role == "developer" {
			messages[i].Role = "system"
		}
	}
	tokens, err := g.cfg.Text.Chat(messages)
	if err != nil {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "messages", "the model's chat template does not take these messages: %v", err)
	}
	return tokens, nil
}

// countCompletion tokenises what came as text.
func (g *Gateway) countCompletion(a *arrival, req *openai.CompletionRequest) (*counted, *bulkhead.Refusal) {
	if ref := g.checkGeneration(&req.Generation); ref != nil {
		return nil, ref
	}
	c := &counted{arrival: a, gen: &req.Generation, param: "prompt", less: req.Default}
	for i, p := range req.Prompts {
		tokens, text := p.Tokens, p.Text
		if tokens == nil {
			tokens = g.cfg.Text.Prompt(text)
		} else if ref := g.checkTokens(promptPath(i, len(req.Prompts)), tokens); ref != nil {
			return nil, ref
		} else if req.Echo {
			text = g.cfg.Text.Decode(tokens)
		}
		c.prompts = append(c.prompts, tokens)
		if req.Echo {
			c.echo = append(c.echo, text)
		}
	}
	return c, nil
}

func promptPath(i, n int) string {
	if n == 1 {
		return "prompt"
	}
	return fmt.Sprintf("prompt[%d]", i)
}

// checkGeneration looks at what only the model knows: its name and its vocabulary.
func (g *Gateway) checkGeneration(gen *openai.Generation) *bulkhead.Refusal {
	if ref := g.checkModel(gen.Model); ref != nil {
		return ref
	}
	if ref := g.checkTokens("stop_token_ids", gen.StopIDs); ref != nil {
		return ref
	}
	for _, b := range gen.Sampling.LogitBias {
		if ref := g.checkTokens("logit_bias", []bulkhead.Token{b.Token}); ref != nil {
			return ref
		}
	}
	return nil
}

// anyModel names the one model that is served, whatever its own name is: so that examples work everywhere.
const anyModel = "bulkhead"

func (g *Gateway) checkModel(name string) *bulkhead.Refusal {
	if name == g.cfg.Model.Name || name == anyModel {
		return nil
	}
	return bulkhead.Refuse(bulkhead.CodeNotFound, "model", "the model %q does not exist here; this server has %q", short(name), g.cfg.Model.Name)
}

func (g *Gateway) checkTokens(param string, tokens []bulkhead.Token) *bulkhead.Refusal {
	for _, t := range tokens {
		if int(t) >= g.cfg.Text.Size() {
			return bulkhead.Refuse(bulkhead.CodeInvalid, param, "`%s` has the token %d: the model's vocabulary ends at %d", param, t, g.cfg.Text.Size()-1)
		}
	}
	return nil
}
