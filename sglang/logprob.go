package sglang

import (
	"encoding/json"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// TokenLogprob is a token with its log-probability. On the wire it is [logprob, token, text or null].
type TokenLogprob struct {
	Logprob float32
	Token   bulkhead.Token
	Text    *string
}

// MarshalJSON writes the triple.
func (t TokenLogprob) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]any{t.Logprob, t.Token, t.Text})
}

// UnmarshalJSON reads the triple.
func (t *TokenLogprob) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 3 {
		return fmt.Errorf("sglang: a log-probability has %d parts, not 3", len(parts))
	}
	for i, v := range []any{&t.Logprob, &t.Token, &t.Text} {
		if err := json.Unmarshal(parts[i], v); err != nil {
			return err
		}
	}
	return nil
}
