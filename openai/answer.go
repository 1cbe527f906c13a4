package openai

import (
	"encoding/json"
	"math"
)

// Objects and finish reasons.
const (
	objectChat      = "chat.completion"
	objectChatChunk = "chat.completion.chunk"
	objectText      = "text_completion"

	FinishStop   = "stop"   // the model's end, a stop string or a stop token
	FinishLength = "length" // max_tokens, or what the window left
)

// Head is what all answers and chunks of one request share.
type Head struct {
	ID                string  `json:"id"`
	Object            string  `json:"object"`
	Created           int64   `json:"created"`
	Model             string  `json:"model"`
	SystemFingerprint string  `json:"system_fingerprint"`
	ServiceTier       *string `json:"service_tier"`
}

// ChatCompletion is the answer of POST /v1/chat/completions.
type ChatCompletion struct {
	Head
	Choices []ChatChoice `json:"choices"`
	Usage   Usage        `json:"usage"`
}

// NewChatCompletion has its object set.
func NewChatCompletion(head Head, choices []ChatChoice, usage Usage) ChatCompletion {
	head.Object = objectChat
	return ChatCompletion{head, choices, usage}
}

// ChatChoice is one of n answers.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      Answer        `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

// Answer is the message that the model wrote. Refusal is OpenAI's word for a model that declines; models here only write
// content, so it is null.
type Answer struct {
	Role        string     `json:"role"`
	Content     string     `json:"content"`
	Refusal     *string    `json:"refusal"`
	Annotations []struct{} `json:"annotations"`
}

// NewAnswer is the assistant's message.
func NewAnswer(content string) Answer {
	return Answer{Role: "assistant", Content: content, Annotations: []struct{}{}}
}

// ChatChunk is one event of a streamed chat. Choices is empty in the last chunk, which has the usage.
type ChatChunk struct {
	Head
	Choices []ChatDelta `json:"choices"`
	Usage   ChunkUsage  `json:"usage,omitzero"`
}

// NewChatChunk has its object set.
func NewChatChunk(head Head, usage ChunkUsage, choices ...ChatDelta) ChatChunk {
	head.Object = objectChatChunk
	return ChatChunk{head, append([]ChatDelta{}, choices...), usage}
}

// ChatDelta is what a chunk adds to a choice.
type ChatDelta struct {
	Index        int           `json:"index"`
	Delta        Delta         `json:"delta"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// Delta is the part of a message that a chunk adds: the role in the first, text in the others, nothing in the last.
type Delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *Null   `json:"refusal,omitempty"`
}

// Null is written as null.
type Null struct{}

// MarshalJSON writes null.
func (Null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// ChunkUsage is the usage in a chunk: absent where the client did not ask, null but in the last chunk where it did.
type ChunkUsage struct {
	Asked bool
	Usage *Usage
}

// IsZero leaves it out.
func (u ChunkUsage) IsZero() bool { return !u.Asked }

// ChatLogprobs are the log-probabilities of an answer's tokens.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal *Null          `json:"refusal"`
}

// TokenLogprob is one token of an answer.
type TokenLogprob struct {
	Alternative
	Top []Alternative `json:"top_logprobs"`
}

// Alternative is a token with its log-probability.
type Alternative struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// NewAlternative has the token's bytes, which need not be whole characters.
func NewAlternative(piece []byte, logprob float32) Alternative {
	bytes := make([]int, len(piece))
	for i, b := range piece {
		bytes[i] = int(b)
	}
	return Alternative{Token: string(piece), Logprob: Logprob(logprob), Bytes: bytes}
}

// Logprob is a log-probability as JSON can hold it: -9999 stands for tokens that cannot come.
func Logprob(x float32) float64 {
	if y := float64(x); !math.IsNaN(y) && y > -9999 {
		return y
	}
	return -9999
}

// Completion is the answer of POST /v1/completions and each event of its stream.
type Completion struct {
	Head
	Choices []TextChoice `json:"choices"`
	Usage   ChunkUsage   `json:"usage,omitzero"`
}

// NewCompletion has its object set.
func NewCompletion(head Head, usage ChunkUsage, choices ...TextChoice) Completion {
	head.Object = objectText
	return Completion{head, append([]TextChoice{}, choices...), usage}
}

// TextChoice is one answer, or what a chunk adds to it.
type TextChoice struct {
	Index        int           `json:"index"`
	Text         string        `json:"text"`
	Logprobs     *TextLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// TextLogprobs are the log-probabilities of a completion, in four lists of equal length.
type TextLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"` // in characters, from the start of the choice's text
}

// Usage counts tokens.
type Usage struct {
	PromptTokens            int               `json:"prompt_tokens"`
	CompletionTokens        int               `json:"completion_tokens"`
	TotalTokens             int               `json:"total_tokens"`
	PromptTokensDetails     PromptDetails     `json:"prompt_tokens_details"`
	CompletionTokensDetails CompletionDetails `json:"completion_tokens_details"`
}

// PromptDetails says how many of the prompt's tokens were found in the cache.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
	AudioTokens  int `json:"audio_tokens"`
}

// CompletionDetails are all 0 here.
type CompletionDetails struct {
	ReasoningTokens          int `json:"reasoning_tokens"`
	AudioTokens              int `json:"audio_tokens"`
	AcceptedPredictionTokens int `json:"accepted_prediction_tokens"`
	RejectedPredictionTokens int `json:"rejected_prediction_tokens"`
}

// NewUsage adds up.
func NewUsage(prompt, cached, completion int) Usage {
	return Usage{
		PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion,
		PromptTokensDetails: PromptDetails{CachedTokens: cached},
	}
}

// MarshalJSON writes the usage or null.
func (u ChunkUsage) MarshalJSON() ([]byte, error) { return json.Marshal(u.Usage) }
