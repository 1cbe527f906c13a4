package openai

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
)

// Bounds of what a request may ask for.
const (
	MaxChoices      = 128     // n, and n times the number of prompts
	MaxStops        = 16      // stop strings; OpenAI takes 4
	MaxStopBytes    = 256     // bytes of one stop string: that much of an answer is held back at most
	MaxStopTokens   = 64      // stop_token_ids
	MaxBias         = 1024    // entries of logit_bias
	MaxTopLogprobs  = 20      // top_logprobs of a chat
	MaxLogprobs     = 5       // logprobs of a completion
	maxToken        = 1 << 24 // larger than any vocabulary; the gateway knows the real one
	maxAnswer       = 1 << 40 // larger than any window: so that a refusal can name what was asked for
	maxRepetition   = 10
	minRepetition   = 0.01
	smallestTopP    = 1e-9 // what top_p 0 means: the likeliest token alone
	defaultRandomly = 1    // temperature where the request names none
)

// Generation is what requests for a chat and for a completion have in common.
type Generation struct {
	Model        string
	MaxTokens    bulkhead.Tokens // 0: none given
	N            int             // choices for each prompt, at least 1
	Stream       bool
	IncludeUsage bool // a last chunk with the usage
	Stop         []string
	StopIDs      []bulkhead.Token
	IgnoreEOS    bool
	Seed         *int64            // nil: none given
	Sampling     bulkhead.Sampling // without Seed

	maxTokens, maxCompletionTokens *int64
	streamOptions                  bool
}

func newGeneration() Generation {
	return Generation{N: 1, Sampling: bulkhead.Sampling{Temperature: defaultRandomly}}
}

var generationFields = table[Generation]{
	"model":  {Done, func(r *reader, g *Generation) { g.Model = r.text() }},
	"stream": {Done, func(r *reader, g *Generation) { g.Stream = r.boolean() }},
	"n":      {Done, func(r *reader, g *Generation) { g.N = int(r.integer(1, MaxChoices)) }},
	"max_tokens": {Done, func(r *reader, g *Generation) {
		n := r.integer(1, maxAnswer)
		g.maxTokens = &n
	}},
	"seed": {Done, func(r *reader, g *Generation) {
		n := r.integer(math.MinInt64, math.MaxInt64)
		g.Seed = &n
	}},
	"stop":           {Done, readStop},
	"stop_token_ids": {Done, readStopTokens},
	"ignore_eos":     {Done, func(r *reader, g *Generation) { g.IgnoreEOS = r.boolean() }},
	"logit_bias":     {Done, readBias},
	"stream_options": {Done, func(r *reader, g *Generation) {
		g.streamOptions = true
		streamOptions.read(r, g)
	}},
	"temperature": {Done, func(r *reader, g *Generation) { g.Sampling.Temperature = float32(r.float(0, 2)) }},
	"top_p": {Done, func(r *reader, g *Generation) {
		g.Sampling.TopP = float32(max(r.float(0, 1), smallestTopP)) // 0 would switch it off
	}},
	"top_k": {Done, func(r *reader, g *Generation) {
		g.Sampling.TopK = int(max(r.integer(-1, maxToken), 0)) // -1 and 0: off
	}},
	"min_p":             {Done, func(r *reader, g *Generation) { g.Sampling.MinP = float32(r.float(0, 1)) }},
	"presence_penalty":  {Done, func(r *reader, g *Generation) { g.Sampling.PresencePenalty = float32(r.float(-2, 2)) }},
	"frequency_penalty": {Done, func(r *reader, g *Generation) { g.Sampling.FrequencyPenalty = float32(r.float(-2, 2)) }},
	"repetition_penalty": {Done, func(r *reader, g *Generation) {
		g.Sampling.RepetitionPenalty = float32(r.float(minRepetition, maxRepetition))
	}},
	"user": {Ignored, ignoreText[Generation]},
}

var streamOptions = table[Generation]{
	"include_usage":          {Done, func(r *reader, g *Generation) { g.IncludeUsage = r.boolean() }},
	"include_obfuscation":    {NotYet, onlyFalse[Generation]},
	"continuous_usage_stats": {Unsupported, nil},
}

func readStop(r *reader, g *Generation) {
	if r.kind() == "a string" {
		g.Stop = []string{readStopString(r)}
		return
	}
	if r.kind() != "an array" {
		r.fail(bulkhead.CodeInvalid, "`stop` must be a string or an array of strings, got %s", r.kind())
		return
	}
	r.array(MaxStops, func(int) { g.Stop = append(g.Stop, readStopString(r)) })
}

func readStopString(r *reader) string {
	s := r.text()
	if r.ref == nil && (s == "" || len(s) > MaxStopBytes) {
		r.fail(bulkhead.CodeInvalid, "`%s` has %d bytes: must have 1 to %d", r.param(), len(s), MaxStopBytes)
	}
	return s
}

func readStopTokens(r *reader, g *Generation) {
	r.array(MaxStopTokens, func(int) { g.StopIDs = append(g.StopIDs, readToken(r)) })
}

func readToken(r *reader) bulkhead.Token { return bulkhead.Token(r.integer(0, maxToken)) }

// readBias reads an object from token ids, as strings, to biases. The result is in order of tokens.
func readBias(r *reader, g *Generation) {
	var bias []bulkhead.TokenBias
	r.object(func(key string) {
		id, err := strconv.ParseUint(key, 10, 31)
		if err != nil || id > maxToken || strconv.FormatUint(id, 10) != key {
			r.fail(bulkhead.CodeInvalid, "`%s`: %q is no token id", r.param(), shorten(key, maxShown))
			return
		}
		if len(bias) == MaxBias {
			r.fail(bulkhead.CodeInvalid, "`logit_bias` has more than %d entries", MaxBias)
			return
		}
		bias = append(bias, bulkhead.TokenBias{Token: bulkhead.Token(id), Bias: float32(r.float(-100, 100))})
	})
	slices.SortFunc(bias, func(a, b bulkhead.TokenBias) int { return cmp.Compare(a.Token, b.Token) })
	g.Sampling.LogitBias = bias
}

// check looks at what no field shows alone.
func (g *Generation) check() *bulkhead.Refusal {
	a, b := g.maxTokens, g.maxCompletionTokens
	switch {
	case g.Model == "":
		return bulkhead.Refuse(bulkhead.CodeInvalid, "model", "`model` is missing: name one of GET /v1/models")
	case a != nil && b != nil && *a != *b:
		return bulkhead.Refuse(bulkhead.CodeInvalid, "max_tokens",
			"`max_tokens` is %d and `max_completion_tokens` is %d: they mean the same; give one of them", *a, *b)
	case g.streamOptions && !g.Stream:
		return bulkhead.Refuse(bulkhead.CodeInvalid, "stream_options", "`stream_options` needs `stream`: true")
	}
	if a = cmp.Or(a, b); a != nil {
		g.MaxTokens = bulkhead.Tokens(*a)
	}
	return nil
}
