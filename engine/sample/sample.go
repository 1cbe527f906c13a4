// Package sample draws tokens from logits.
//
//	s, err := sample.New(request.Sampling, vocab, request.Prompt)
//	token, logprobs, err := s.Next(logits)
//
// A [Sampler] belongs to one request and remembers what it has drawn. Nothing but the request's own seed, prompt and
// logits decides what comes next: the randomness of token i is a function of (seed, i), so a request that was set back and
// recomputed, or that ran beside others, draws the same tokens.
//
// Logits are changed in this order, which is vLLM's: logit_bias; repetition penalty (over prompt and answer); frequency
// and presence penalty (over the answer, as OpenAI defines them); temperature; min_p; top_k; top_p. Log-probabilities are
// those of the model itself, before any of it, as vLLM's are by default; OpenAI does not say.
//
// Ties go to the lowest id. A logit that is no finite number is an error: it is never drawn over in silence.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bulkhead-llm/bulkhead"
)

// ErrNotFinite marks logits among which is a NaN or an infinity; test with errors.Is.
var ErrNotFinite = errors.New("logits are not finite")

// greedyBelow is the temperature under which the most likely token is taken, as in vLLM.
const greedyBelow = 1e-5

// Sampler draws the tokens of one request. It is not for concurrent use.
type Sampler struct {
	params bulkhead.Sampling
	vocab  int
	drawn  uint64  // tokens so far
	counts []int32 // by token, how often it was drawn; nil where no penalty needs it
	inText []bulkhead.Token
	seen   []bool // by token, whether it is in inText: tokens of prompt (for the repetition penalty) and answer
}

// Logprobs are the log-probabilities that come with a token.
type Logprobs struct {
	Logprob float32                 // of the token itself
	Top     []bulkhead.TokenLogprob // the most likely tokens, best first
}

// New makes a sampler over a vocabulary. It refuses parameters that mean nothing.
func New(params bulkhead.Sampling, vocab int, prompt []bulkhead.Token) (*Sampler, error) {
	if vocab < 1 {
		return nil, fmt.Errorf("sample: a vocabulary of %d tokens", vocab)
	}
	for _, p := range []struct {
		name   string
		x      float32
		lo, hi float32
	}{
		{"temperature", params.Temperature, 0, math.MaxFloat32},
		{"top_p", params.TopP, 0, 1},
		{"min_p", params.MinP, 0, 1},
		{"presence_penalty", params.PresencePenalty, -math.MaxFloat32, math.MaxFloat32},
		{"frequency_penalty", params.FrequencyPenalty, -math.MaxFloat32, math.MaxFloat32},
		{"repetition_penalty", params.RepetitionPenalty, 0, math.MaxFloat32},
	} {
		if !(p.x >= p.lo && p.x <= p.hi) {
			return nil, fmt.Errorf("sample: %s is %v", p.name, p.x)
		}
	}
	for _, b := range params.LogitBias {
		if b.Token < 0 || int(b.Token) >= vocab || b.Bias-b.Bias != 0 {
			return nil, fmt.Errorf("sample: logit_bias %v of token %d in a vocabulary of %d", b.Bias, b.Token, vocab)
		}
	}
	s := &Sampler{params: params, vocab: vocab}
	repeats := params.RepetitionPenalty != 0 && params.RepetitionPenalty != 1
	if repeats || params.PresencePenalty != 0 || params.FrequencyPenalty != 0 {
		s.counts, s.seen = make([]int32, vocab), make([]bool, vocab)
		s.inText = make([]bulkhead.Token, 0, vocab)
	}
	if repeats {
		for _, t := range prompt {
			if t < 0 || int(t) >= vocab {
				return nil, fmt.Errorf("sample: token %d in the prompt, the vocabulary has %d", t, vocab)
			}
			s.see(t)
		}
	}
	return s, nil
}

func (s *Sampler) see(t bulkhead.Token) {
	if !s.seen[t] {
		s.seen[t] = true
		s.inText = append(s.inText, t)
	}
}

// Next draws the next token. Logits are left as they are. Log-probabilities are nil unless the request asked for them.
func (s *Sampler) Next(logits []float32) (bulkhead.Token, *Logprobs, error) {
	if len(logits) != s.vocab {
		return 0, nil, fmt.Errorf("sample: %d logits for a vocabulary of %d", len(logits), s.vocab)
	}
	best, err := argmax(logits)
	if err != nil {
		return 0, nil, err
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	t := best
	adjusted := logits
	if len(s.params.LogitBias) > 0 || s.counts != nil {
		adjusted = b.copy(logits)
		s.adjust(adjusted)
		if t, err = argmax(adjusted); err != nil {
			return 0, nil, fmt.Errorf("after penalties and biases: %w", err)
		}
	}
	if s.params.Temperature >= greedyBelow {
		t = b.draw(adjusted, adjusted[t], &s.params, uniform(s.params.Seed, s.drawn))
	}
	s.drawn++
	if s.counts != nil {
		s.counts[t]++
		s.see(t)
	}
	if !s.params.Logprobs {
		return t, nil, nil
	}
	return t, logprobs(logits, logits[best], t, s.params.TopLogprobs), nil
}

// adjust applies biases and penalties.
func (s *Sampler) adjust(logits []float32) {
	for _, b := range s.params.LogitBias {
		logits[b.Token] += b.Bias
	}
	repetition := s.params.RepetitionPenalty
	for _, t := range s.inText {
		l := logits[t]
		switch {
		case repetition == 0 || repetition == 1:
		case l > 0:
			l /= repetition
		default:
			l *= repetition
		}
		if n := s.counts[t]; n > 0 {
			l -= float32(float32(n)*s.params.FrequencyPenalty) + s.params.PresencePenalty
		}
		logits[t] = l
	}
}

// argmax is the most likely token.
func argmax(logits []float32) (bulkhead.Token, error) {
	best, top := 0, logits[0]
	var odd float32 // stays 0 unless something is not finite
	for i, l := range logits {
		odd += l - l
		if l > top {
			best, top = i, l
		}
	}
	if odd != 0 {
		for i, l := range logits {
			if l-l != 0 {
				return 0, fmt.Errorf("sample: %w: token %d has %v", ErrNotFinite, i, l)
			}
		}
	}
	return bulkhead.Token(best), nil
}

// uniform is a number in [0,1) for token i of a seed.
func uniform(seed, i uint64) float64 {
	var pcg rand.PCG
	pcg.Seed(seed^0x9e3779b97f4a7c15, i*0xd1342543de82ef95+seed)
	pcg.Uint64() // the first depends on much of the state only weakly
	return float64(pcg.Uint64()>>11) / (1 << 53)
}
