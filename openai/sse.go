package openai

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/bulkhead-llm/bulkhead"
)

// ContentEvents and ContentJSON are the types of the two kinds of answer.
const (
	ContentEvents = "text/event-stream"
	ContentJSON   = "application/json"
)

// EventStream writes server-sent events as OpenAI's clients read them: "data: " and one JSON object, an empty line, and
// "data: [DONE]" at the end. A failure after the first event is an event of its own, {"error": ...}, and the end: no
// [DONE] follows, so that a client which does not look for errors does not take the answer for a whole one.
//
// Every event is one Write.
type EventStream struct {
	W   io.Writer
	buf bytes.Buffer
}

// Send writes one event.
func (s *EventStream) Send(v any) error {
	s.buf.Reset()
	s.buf.WriteString("data: ")
	if err := encode(&s.buf, v); err != nil {
		return err
	}
	s.buf.WriteByte('\n')
	_, err := s.W.Write(s.buf.Bytes())
	return err
}

// Done writes the end of a whole answer.
func (s *EventStream) Done() error {
	_, err := io.WriteString(s.W, "data: [DONE]\n\n")
	return err
}

// Fail writes the end of an answer that failed.
func (s *EventStream) Fail(ref *bulkhead.Refusal) error {
	_, body := Failure(ref)
	return s.Send(body)
}

// WriteJSON writes a body.
func WriteJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	if err := encode(&buf, v); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// encode writes JSON and a newline, text as it is: no escapes for HTML.
func encode(buf *bytes.Buffer, v any) error {
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
