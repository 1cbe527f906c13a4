package sglang

import (
	"encoding/json"

	"github.com/bulkhead-llm/bulkhead"
)

// finishWire is a finish reason as it is written. Matched is a token's number or a stop string; a length is written even
// where it is 0.
type finishWire struct {
	Type    string          `json:"type"`
	Matched json.RawMessage `json:"matched,omitempty"`
	Length  *int            `json:"length,omitempty"`
	Message string          `json:"message,omitempty"`
	Status  int             `json:"status_code,omitempty"`
}

// MarshalJSON writes the finish reason.
func (f Finish) MarshalJSON() ([]byte, error) {
	w := finishWire{Type: f.Type, Message: f.Message, Status: f.Status}
	var err error
	switch {
	case f.MatchedText != "":
		w.Matched, err = json.Marshal(f.MatchedText)
	case f.Matched != nil:
		w.Matched, err = json.Marshal(*f.Matched)
	}
	if err != nil {
		return nil, err
	}
	if f.Type == "length" {
		w.Length = &f.Length
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads it.
func (f *Finish) UnmarshalJSON(data []byte) error {
	var w finishWire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*f = Finish{Type: w.Type, Message: w.Message, Status: w.Status}
	if w.Length != nil {
		f.Length = *w.Length
	}
	if len(w.Matched) == 0 || string(w.Matched) == "null" {
		return nil
	}
	if w.Matched[0] == '"' {
		return json.Unmarshal(w.Matched, &f.MatchedText)
	}
	f.Matched = new(bulkhead.Token)
	return json.Unmarshal(w.Matched, f.Matched)
}
