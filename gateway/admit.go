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
	if ref := g.checkReady(); ref != nil {
		return nil, ref
	}
	limits := g.cfg.Backend.Limits()
	if ref := c.checkChoices(limits); ref != nil {
		return nil, ref
	}
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
				return nil, c.named(ref)
			}
			a.choices = append(a.choices, adm)
		}
	}
	return a, nil
}

// checkChoices refuses what could never be handed over as a whole: the workers queue no more at once of one tenant.
func (c *counted) checkChoices(l bulkhead.Limits) *bulkhead.Refusal {
	n, most := len(c.prompts)*c.gen.N, min(l.Queue, l.QueueTenant)
	if n <= most {
		return nil
	}
	return bulkhead.Refuse(bulkhead.CodeInvalid, "n", "%d prompts with %d choices each make %d answers: this server takes at most %d at once",
		len(c.prompts), c.gen.N, n, most)
}

// named is a refusal with the field that the prompt came in, which neither limits nor workers know.
func (c *counted) named(ref *bulkhead.Refusal) *bulkhead.Refusal {
	if ref.Param != "messages" && ref.Param != "prompt" {
		return ref
	}
	out := *ref
	out.Param = c.param
	return &out
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
