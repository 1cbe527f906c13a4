package api

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// samplingFields are those of sampling_params. What each may say is in sglang.Generate.Request.
var samplingFields = withInert(fields[sglang.Sampling]{
	"max_new_tokens":     whole(func(s *sglang.Sampling) **int { return &s.MaxNewTokens }),
	"temperature":        real(func(s *sglang.Sampling) **float32 { return &s.Temperature }),
	"top_p":              real(func(s *sglang.Sampling) **float32 { return &s.TopP }),
	"top_k":              whole(func(s *sglang.Sampling) **int { return &s.TopK }),
	"min_p":              real(func(s *sglang.Sampling) **float32 { return &s.MinP }),
	"frequency_penalty":  real(func(s *sglang.Sampling) **float32 { return &s.FrequencyPenalty }),
	"presence_penalty":   real(func(s *sglang.Sampling) **float32 { return &s.PresencePenalty }),
	"repetition_penalty": real(func(s *sglang.Sampling) **float32 { return &s.RepetitionPenalty }),
	"n":                  whole(func(s *sglang.Sampling) **int { return &s.N }),
	"ignore_eos":         flag(func(s *sglang.Sampling) *bool { return &s.IgnoreEOS }),
	"sampling_seed": func(path string, v []byte, s *sglang.Sampling) *bulkhead.Refusal {
		return optional(path, "a whole number, 0 to 18446744073709551615", v, &s.Seed)
	},
	"stop": func(path string, v []byte, s *sglang.Sampling) (ref *bulkhead.Refusal) {
		s.Stop, ref = oneOrMany[string](path, "a string, or a list of them", v, openai.MaxStops)
		return ref
	},
	"stop_token_ids": func(path string, v []byte, s *sglang.Sampling) (ref *bulkhead.Refusal) {
		s.StopTokenIDs, ref = tokens(path, v)
		return ref
	},
	"logit_bias": readBias,
})

// withInert adds the fields that mean nothing here, for the values that mean nothing.
func withInert[T any](f fields[T]) fields[T] {
	for name := range inert {
		if f[name] != nil {
			continue
		}
		f[name] = func(path string, v []byte, _ *T) *bulkhead.Refusal {
			if isInert(openai.Member{Name: name, Value: v}) {
				return nil
			}
			return bulkhead.Refuse(bulkhead.CodeUnsupported, path, "`%s` is an extension that is not supported here; leave it out", path)
		}
	}
	return f
}

// readBias reads an object from token ids, as strings, to biases.
func readBias(path string, v []byte, s *sglang.Sampling) *bulkhead.Refusal {
	if kind(v) != "an object" {
		return wrong(path, "an object", v)
	}
	var bias map[string]json.RawMessage
	if err := json.Unmarshal(v, &bias); err != nil {
		return wrong(path, "an object", v)
	}
	s.LogitBias = make(map[string]float32, len(bias))
	for key, value := range bias {
		var b float32
		at := path + "." + short(key)
		if isNull(value) {
			return wrong(at, "a number", value)
		}
		if ref := scalar(at, "a number", value, &b); ref != nil {
			return ref
		}
		s.LogitBias[key] = b
	}
	return nil
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return binary.LittleEndian.Uint64(b[:])
}
