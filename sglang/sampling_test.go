package sglang

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"pgregory.net/rapid"
)

// drawRequest is any request that an admission can have let through.
func drawRequest(t *rapid.T) bulkhead.Request {
	float := func(low, high float32, name string) float32 { return rapid.Float32Range(low, high).Draw(t, name) }
	token := rapid.Int32Range(0, 1<<20)
	r := bulkhead.Request{
		ID:        bulkhead.RequestID(rapid.StringMatching(`[0-9a-f]{24}-[0-9]{3}`).Draw(t, "id")),
		Tenant:    bulkhead.Tenant{Name: rapid.String().Draw(t, "tenant"), Domain: rapid.String().Draw(t, "domain")},
		MaxTokens: bulkhead.Tokens(rapid.IntRange(1, 1<<30).Draw(t, "max")),
		IgnoreEOS: rapid.Bool().Draw(t, "ignore"),
		Sampling: bulkhead.Sampling{
			Temperature: float(0, 2, "temperature"), TopP: float(0, 1, "top_p"), TopK: rapid.IntRange(0, 1<<20).Draw(t, "top_k"),
			MinP: float(0, 1, "min_p"), Seed: rapid.Uint64().Draw(t, "seed"), PresencePenalty: float(-2, 2, "presence"),
			FrequencyPenalty: float(-2, 2, "frequency"), Logprobs: rapid.Bool().Draw(t, "logprobs"), TopLogprobs: rapid.IntRange(0, 20).Draw(t, "top"),
		},
	}
	if rapid.Bool().Draw(t, "repetition?") {
		r.Sampling.RepetitionPenalty = float(0.01, 10, "repetition")
	}
	for _, id := range rapid.SliceOfN(token, 1, 8).Draw(t, "prompt") {
		r.Prompt = append(r.Prompt, bulkhead.Token(id))
	}
	for _, id := range rapid.SliceOfN(token, 0, 4).Draw(t, "stops") {
		r.StopIDs = append(r.StopIDs, bulkhead.Token(id))
	}
	last := bulkhead.Token(-1)
	for range rapid.IntRange(0, 5).Draw(t, "biases") {
		last += bulkhead.Token(rapid.IntRange(1, 1000).Draw(t, "gap"))
		r.Sampling.LogitBias = append(r.Sampling.LogitBias, bulkhead.TokenBias{Token: last, Bias: float(-100, 100, "bias")})
	}
	return r
}

// What a gateway asks for is what a worker understands, to the last bit, through JSON and back.
func TestRequestSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		body, err := json.Marshal(FromRequest(want))
		if err != nil {
			t.Fatal(err)
		}
		var g Generate
		if err := json.Unmarshal(body, &g); err != nil {
			t.Fatal(err)
		}
		got, ref := g.Request()
		if ref != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %+v\nwant %+v\n%v", body, got, want, ref)
		}
	})
}

// A refusal keeps its code, message and numbers.
func TestRefusalSurvivesTheWire(t *testing.T) {
	want := &bulkhead.Refusal{Code: bulkhead.CodeContextLength, Param: "messages", Message: "too long", Limit: 100, Count: 103}
	status, f := FailureOf(want)
	body, _ := json.Marshal(f)
	var back Failure
	if err := json.Unmarshal(body, &back); err != nil || status != 400 || !reflect.DeepEqual(back.Refusal(), want) {
		t.Errorf("%d %s: %v", status, body, err)
	}
}

// Each value has a range, on both sides of which it is refused by name.
func TestRanges(t *testing.T) {
	num := func(v int) *int { return &v }
	float := func(v float32) *float32 { return &v }
	for want, g := range map[string]Generate{
		"max_new_tokens":                       {Sampling: Sampling{MaxNewTokens: num(0)}},
		"temperature":                          {Sampling: Sampling{Temperature: float(2.1)}},
		"top_p":                                {Sampling: Sampling{TopP: float(-0.1)}},
		"top_k":                                {Sampling: Sampling{TopK: num(-2)}},
		"min_p":                                {Sampling: Sampling{MinP: float(float32(math.NaN()))}},
		"frequency_penalty":                    {Sampling: Sampling{FrequencyPenalty: float(2.5)}},
		"presence_penalty":                     {Sampling: Sampling{PresencePenalty: float(-2.5)}},
		"repetition_penalty":                   {Sampling: Sampling{RepetitionPenalty: float(0)}},
		"params.n`":                            {Sampling: Sampling{N: num(0)}},
		"stop_token_ids[0]":                    {Sampling: Sampling{StopTokenIDs: []bulkhead.Token{-1}}},
		"`sampling_params.stop_token_ids` has": {Sampling: Sampling{StopTokenIDs: make([]bulkhead.Token, 65)}},
		"stop[0]":                              {Sampling: Sampling{Stop: []string{""}}},
		"`sampling_params.stop` has":           {Sampling: Sampling{Stop: strings.Split(strings.Repeat("x", 17), "")}},
		"logit_bias.5":                         {Sampling: Sampling{LogitBias: map[string]float32{"5": 101}}},
		"\"05\" is no token":                   {Sampling: Sampling{LogitBias: map[string]float32{"05": 1}}},
		"\"-1\" is no token":                   {Sampling: Sampling{LogitBias: map[string]float32{"-1": 1}}},
		"top_logprobs_num":                     {TopLogprobsNum: 21},
	} {
		if _, ref := g.Request(); ref == nil || ref.Code != bulkhead.CodeInvalid || !strings.Contains(ref.Message, want) {
			t.Errorf("%s: %v", want, ref)
		}
	}
	r, ref := (&Generate{Sampling: Sampling{TopP: float(0), TopK: num(-1), MaxNewTokens: num(1)}}).Request()
	if ref != nil || r.Sampling.TopP <= 0 || r.Sampling.TopK != 0 || r.Sampling.Temperature != 1 {
		t.Errorf("%+v %v", r, ref)
	}
}

// Finish says which token or text ended an answer in one field, as SGLang has it.
func TestFinish(t *testing.T) {
	token := bulkhead.Token(2)
	for want, f := range map[string]Finish{
		`{"type":"stop","matched":2}`:                      {Type: "stop", Matched: &token},
		`{"type":"stop","matched":"\n\n"}`:                 {Type: "stop", MatchedText: "\n\n"},
		`{"type":"length","length":0}`:                     {Type: "length"},
		`{"type":"length","length":7}`:                     {Type: "length", Length: 7},
		`{"type":"abort","message":"x","status_code":499}`: {Type: "abort", Message: "x", Status: 499},
	} {
		got, err := json.Marshal(f)
		if err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
		var back Finish
		if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, f) {
			t.Errorf("%s read as %+v: %v", got, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"type":"stop","matched":[1]}`), &Finish{}); err == nil {
		t.Error("a list matched")
	}
}
