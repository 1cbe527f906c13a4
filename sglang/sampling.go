package sglang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// DefaultMaxNewTokens is how long an answer may be where the request does not say.
const DefaultMaxNewTokens = 128

// Bounds of sampling_params, beside those that they share with the OpenAI routes.
const (
	maxToken  = 1 << 30 // what SGLang writes for top_k "all"; larger than any vocabulary
	maxAnswer = 1 << 40 // larger than any window
	smallest  = 1e-9    // what top_p 0 means: the likeliest token alone
)

// FromRequest is the body that asks a worker for r. Nothing is lost: [Generate.Request] gives r again, but for the deadline,
// which is a moment here and a time left there (Native.Seconds): whoever has the clock sets it. r is an admitted request, so
// its MaxTokens is at least 1, and its biases are in order of tokens.
func FromRequest(r bulkhead.Request) Generate {
	s := r.Sampling
	most := int(r.MaxTokens)
	g := Generate{
		Rid: string(r.ID), InputIDs: r.Prompt, ReturnLogprob: s.Logprobs, TopLogprobsNum: s.TopLogprobs,
		Native: &Native{Tenant: r.Tenant.Name, Domain: r.Tenant.Domain},
		Sampling: Sampling{
			MaxNewTokens: &most, Temperature: &s.Temperature, Seed: &s.Seed,
			TopP: unless(0, s.TopP), TopK: unless(0, s.TopK), MinP: unless(0, s.MinP),
			FrequencyPenalty: unless(0, s.FrequencyPenalty), PresencePenalty: unless(0, s.PresencePenalty),
			RepetitionPenalty: unless(0, s.RepetitionPenalty),
			StopTokenIDs:      r.StopIDs, IgnoreEOS: r.IgnoreEOS,
		},
	}
	for _, b := range s.LogitBias {
		if g.Sampling.LogitBias == nil {
			g.Sampling.LogitBias = make(map[string]float32, len(s.LogitBias))
		}
		g.Sampling.LogitBias[strconv.Itoa(int(b.Token))] = b.Bias
	}
	return g
}

// unless is a pointer to v, or nil where v is what nil means.
func unless[T comparable](none, v T) *T {
	if v == none {
		return nil
	}
	return &v
}

// Request is what the body asks for, with every value in its range. The prompt is InputIDs; a Text is for whoever has a
// tokenizer. MaxTokens is 0 where the body does not say, Seed 0 likewise: see Sampling.Seed.
func (g *Generate) Request() (bulkhead.Request, *bulkhead.Refusal) {
	s := &g.Sampling
	if ref := s.check(); ref != nil {
		return bulkhead.Request{}, ref
	}
	if n := g.TopLogprobsNum; n < 0 || n > openai.MaxTopLogprobs {
		return bulkhead.Request{}, out("top_logprobs_num", n, 0, openai.MaxTopLogprobs)
	}
	bias, ref := s.bias()
	if ref != nil {
		return bulkhead.Request{}, ref
	}
	r := bulkhead.Request{
		ID: bulkhead.RequestID(g.Rid), Prompt: g.InputIDs, MaxTokens: bulkhead.Tokens(or(s.MaxNewTokens, 0)),
		IgnoreEOS: s.IgnoreEOS, StopIDs: s.StopTokenIDs,
		Sampling: bulkhead.Sampling{
			Temperature: or(s.Temperature, 1), TopP: or(s.TopP, 0), TopK: max(or(s.TopK, 0), 0), MinP: or(s.MinP, 0), Seed: or(s.Seed, 0),
			FrequencyPenalty: or(s.FrequencyPenalty, 0), PresencePenalty: or(s.PresencePenalty, 0), RepetitionPenalty: or(s.RepetitionPenalty, 0),
			LogitBias: bias, Logprobs: g.ReturnLogprob, TopLogprobs: g.TopLogprobsNum,
		},
	}
	if s.TopP != nil && *s.TopP == 0 {
		r.Sampling.TopP = smallest // 0 would switch it off
	}
	if g.Native != nil {
		r.Tenant = bulkhead.Tenant{Name: g.Native.Tenant, Domain: g.Native.Domain}
	}
	return r, nil
}

func or[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}

// check holds every value against its range, which is that of the OpenAI routes.
func (s *Sampling) check() *bulkhead.Refusal {
	return cmp.Or(
		within("max_new_tokens", s.MaxNewTokens, 1, maxAnswer),
		within("temperature", s.Temperature, 0, 2),
		within("top_p", s.TopP, 0, 1),
		within("top_k", s.TopK, -1, maxToken),
		within("min_p", s.MinP, 0, 1),
		within("frequency_penalty", s.FrequencyPenalty, -2, 2),
		within("presence_penalty", s.PresencePenalty, -2, 2),
		within("repetition_penalty", s.RepetitionPenalty, 0.01, 10),
		within("n", s.N, 1, openai.MaxChoices),
		atMost("stop_token_ids", len(s.StopTokenIDs), openai.MaxStopTokens),
		atMost("logit_bias", len(s.LogitBias), openai.MaxBias),
		s.checkStops(),
	)
}

func (s *Sampling) checkStops() *bulkhead.Refusal {
	for i, t := range s.StopTokenIDs {
		if t < 0 {
			return out(fmt.Sprintf("sampling_params.stop_token_ids[%d]", i), t, 0, maxToken)
		}
	}
	for i, stop := range s.Stop {
		if stop == "" || len(stop) > openai.MaxStopBytes {
			path := fmt.Sprintf("sampling_params.stop[%d]", i)
			return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` has %d bytes: must have 1 to %d", path, len(stop), openai.MaxStopBytes)
		}
	}
	return atMost("stop", len(s.Stop), openai.MaxStops)
}

// bias is logit_bias in order of tokens.
func (s *Sampling) bias() (all []bulkhead.TokenBias, _ *bulkhead.Refusal) {
	const path = "sampling_params.logit_bias"
	for key, b := range s.LogitBias {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != key {
			return nil, bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s`: %.40q is no token id", path, key)
		}
		if !(b >= -100 && b <= 100) {
			return nil, out(path+"."+key, b, -100, 100)
		}
		all = append(all, bulkhead.TokenBias{Token: bulkhead.Token(id), Bias: b})
	}
	slices.SortFunc(all, func(a, b bulkhead.TokenBias) int { return cmp.Compare(a.Token, b.Token) })
	return all, nil
}

// within refuses a value that is there and not in [low, high]. NaN is in no range.
func within[T int | float32](name string, v *T, low, high float64) *bulkhead.Refusal {
	if v == nil || float64(*v) >= float64(T(low)) && float64(*v) <= high {
		return nil
	}
	return out("sampling_params."+name, *v, T(low), T(high))
}

func out[T any](path string, v, low, high T) *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` is %v: must be %v to %v", path, v, low, high)
}

func atMost(name string, n, limit int) *bulkhead.Refusal {
	if n <= limit {
		return nil
	}
	path := "sampling_params." + name
	return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` has more than %d elements", path, limit)
}
