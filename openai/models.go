package openai

// Model is a row of GET /v1/models. The fields after OwnedBy are extensions: MaxModelLen is vLLM's name for the window.
type Model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len"`
	Bulkhead    Pools  `json:"bulkhead"`
}

// Pools are the sizes that the window must fit, in tokens.
type Pools struct {
	Window      int `json:"window"`
	ModelWindow int `json:"model_window"`
	PrefillPool int `json:"prefill_pool"`
	DecodePool  int `json:"decode_pool"`
	PageTokens  int `json:"page_tokens"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Tokenized is the answer of POST /tokenize.
type Tokenized struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"` // null unless asked for
}

// Detokenized is the answer of POST /detokenize.
type Detokenized struct {
	Prompt string `json:"prompt"`
}
