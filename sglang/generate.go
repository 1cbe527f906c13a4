// Package sglang is the HTTP API that SGLang's prefill and decode workers speak, as far as Bulkhead's own workers speak it
// too: the types of its requests and answers, for both ends. A router that was made for SGLang can stand in front of
// Bulkhead's workers, and Bulkhead's gateway speaks the same API to them.
//
// A router sends one request to both workers of a pair at once, with the same room; prefill's answer comes when decode has
// committed, decode's is the answer to the client.
package sglang

import "github.com/bulkhead-llm/bulkhead"

// Generate is the body of POST /generate.
type Generate struct {
	Rid      string           `json:"rid,omitempty"`
	Text     string           `json:"text,omitempty"` // one of Text and InputIDs
	InputIDs []bulkhead.Token `json:"input_ids,omitempty"`
	Sampling Sampling         `json:"sampling_params"`
	Stream   bool             `json:"stream,omitempty"`

	ReturnLogprob  bool `json:"return_logprob,omitempty"`
	TopLogprobsNum int  `json:"top_logprobs_num,omitempty"`

	Bootstrap
	Native *Native `json:"bulkhead,omitempty"`
}

// Bootstrap are the control fields that a router puts into every body, of /generate and of the OpenAI routes: where prefill
// listens for decode, and the room.
type Bootstrap struct {
	Host string        `json:"bootstrap_host,omitempty"`
	Port int           `json:"bootstrap_port,omitempty"`
	Room bulkhead.Room `json:"bootstrap_room,omitempty"` // 1 to 2^63-1
}

// Native is what Bulkhead's gateway says beside SGLang's fields. A worker takes it from a gateway only: with mutual TLS from
// whoever shows a gateway's certificate, else on its loopback.
type Native struct {
	Tenant      string  `json:"tenant"`
	Domain      string  `json:"domain"`
	Decode      string  `json:"decode,omitempty"`          // name of the decode worker that may pull; "": whoever shows the claim first
	Prefill     string  `json:"prefill,omitempty"`         // name of the prefill worker to pull from; "": whoever answers there
	Seconds     float64 `json:"timeout_seconds,omitempty"` // what is left until the request's deadline; 0: none
	Incremental bool    `json:"incremental,omitempty"`     // each event holds only what is new, and no text
}

// Sampling are SGLang's sampling_params. A nil pointer is SGLang's default.
type Sampling struct {
	MaxNewTokens      *int               `json:"max_new_tokens,omitempty"` // default 128
	Temperature       *float32           `json:"temperature,omitempty"`    // default 1
	TopP              *float32           `json:"top_p,omitempty"`
	TopK              *int               `json:"top_k,omitempty"` // -1: off
	MinP              *float32           `json:"min_p,omitempty"`
	FrequencyPenalty  *float32           `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float32           `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float32           `json:"repetition_penalty,omitempty"`
	Seed              *uint64            `json:"sampling_seed,omitempty"`
	LogitBias         map[string]float32 `json:"logit_bias,omitempty"` // by token id
	StopTokenIDs      []bulkhead.Token   `json:"stop_token_ids,omitempty"`
	Stop              []string           `json:"stop,omitempty"` // a string or a list of them
	IgnoreEOS         bool               `json:"ignore_eos,omitempty"`
	N                 *int               `json:"n,omitempty"`
}

// Answer is the body of /generate's answer, and each event of a stream. In a stream text and ids are all that there are so
// far, unless the request says incremental.
type Answer struct {
	Text      string           `json:"text"`
	OutputIDs []bulkhead.Token `json:"output_ids"`
	Meta      Meta             `json:"meta_info"`
}

// Meta is meta_info.
type Meta struct {
	ID               string           `json:"id"`
	FinishReason     *Finish          `json:"finish_reason"` // null until the end
	PromptTokens     int              `json:"prompt_tokens"`
	CompletionTokens int              `json:"completion_tokens"`
	CachedTokens     int              `json:"cached_tokens"`
	Latency          float64          `json:"e2e_latency,omitempty"`
	OutputLogprobs   []TokenLogprob   `json:"output_token_logprobs,omitempty"`
	OutputTop        [][]TokenLogprob `json:"output_top_logprobs,omitempty"`
}

// Finish is how an answer ended.
type Finish struct {
	Type    string          `json:"type"`              // stop, length or abort
	Matched *bulkhead.Token `json:"matched,omitempty"` // with stop: the token
	// MatchedText is the stop string that ended the answer, where no token did. On the wire it is matched too.
	MatchedText string `json:"-"`
	Length      int    `json:"length,omitempty"`  // with length
	Message     string `json:"message,omitempty"` // with abort
	Status      int    `json:"status_code,omitempty"`
}

// Failure is the error of an answer, in a body of its own or as an event of a stream: OpenAI's error object, and the numbers
// of a refusal.
type Failure struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"` // a bulkhead.Code, or kv_integrity_violation
		Limit   int     `json:"limit,omitempty"`
		Count   int     `json:"count,omitempty"`
	} `json:"error"`
}

// Abort is the body of POST /abort_request. A rid is a whole one: nothing matches by its beginning.
type Abort struct {
	Rid      string `json:"rid"`
	AbortAll bool   `json:"abort_all,omitempty"`
}
