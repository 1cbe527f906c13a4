package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// admission is hop 3: every choice of a request, admitted by the workers' own limits. One that does not fit refuses all.
type admission struct {
	*counted
	choices []bulkhead.Admitted // n for the first prompt, then n for the next
}

// admit asks the limits. Its refusals name the counts and the limit, and no worker has heard of the request.
func (g *Gateway) admit(c *counted) (*admission, *bulkhead.Refusal) {
	limits := g.cfg.Backend.Limits()
	a := &admission{counted: c}
	seed := c.seed()
	for _, prompt := range c.prompts {
		c.row.Prompt += bulkhead.Tokens(len(prompt))
		for i := range c.gen.N {
			r := c.request(prompt, limits)
			r.ID = bulkhead.RequestID(fmt.Sprintf("%s-%03d", c.id, len(a.choices)))
			r.Sampling.Seed = seed + uint64(i) // choices differ, and a seed gives the same choices again
			adm, ref := limits.Admit(r)
			if ref != nil {
				if ref.Param == "messages" || ref.Param == "prompt" {
					ref.Param = c.param
				}
				return nil, ref
			}
			a.choices = append(a.choices, adm)
		}
	}
	return a, nil
}

func (c *counted) request(prompt []bulkhead.Token, l bulkhead.Limits) bulkhead.Request {
	r := bulkhead.Request{
		Tenant:    c.tenant,
		Prompt:    prompt,
		MaxTokens: c.gen.MaxTokens,
		IgnoreEOS: c.gen.IgnoreEOS,
		StopIDs:   c.gen.StopIDs,
		Sampling:  c.gen.Sampling,
		Deadline:  c.deadline,
	}
	if left := l.Window - bulkhead.Tokens(len(prompt)); c.less && left > 0 {
		r.MaxTokens = min(r.MaxTokens, left)
	}
	return r
}

// seed is the client's, or a fresh one.
func (c *counted) seed() uint64 {
	if c.gen.Seed != nil {
		return uint64(*c.gen.Seed)
	}
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
