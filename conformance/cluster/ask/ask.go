// Package ask asks an OpenAI server questions and says exactly what came back: for programs that compare one server with
// another, or hold a server that is being damaged to answers that are known.
package ask

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// Question is one request.
type Question struct {
	Name string // for messages
	Path string // of the route
	Body map[string]any
	Key  string // API key; "" sends none
}

// Streamed is the same question, asked for a stream with usage.
func (q Question) Streamed() Question {
	body := maps.Clone(q.Body)
	body["stream"] = true
	body["stream_options"] = map[string]any{"include_usage": true}
	return Question{Name: q.Name + ", streamed", Path: q.Path, Body: body, Key: q.Key}
}

// With is the same question with a field more, or another value of it; name is added to the question's.
func (q Question) With(name, field string, value any) Question {
	body := maps.Clone(q.Body)
	body[field] = value
	if name != "" {
		q.Name += ", " + name
	}
	q.Body = body
	return q
}

// mostBody is the most that is read of one answer.
const mostBody = 64 << 20

// Ask asks. The error says that the server did not keep to the protocol, or that ctx ended first; what had come until then is
// in the answer.
func (q Question) Ask(ctx context.Context, client *http.Client, url string) (*Answer, error) {
	a := &Answer{Choices: map[int]*Choice{}, Prompt: -1, Completion: -1}
	body, err := json.Marshal(q.Body)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url+q.Path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	if q.Key != "" {
		req.Header.Set("Authorization", "Bearer "+q.Key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Status, a.RetryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/event-stream") {
		return a, a.stream(io.LimitReader(resp.Body, mostBody))
	}
	return a, a.whole(io.LimitReader(resp.Body, mostBody))
}

// whole reads a body that is one answer or one error.
func (a *Answer) whole(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := a.add(data); err != nil {
		return fmt.Errorf("HTTP %d: %w", a.Status, err)
	}
	if (a.Status == http.StatusOK) != (a.Failure == nil) {
		return fmt.Errorf("HTTP %d with %s", a.Status, data)
	}
	for i, c := range a.Choices {
		if c.Finish == "" {
			return fmt.Errorf("choice %d has no finish_reason: %s", i, data)
		}
	}
	a.Done = true
	return nil
}

// stream reads events until the end of the body, which must come right after [DONE] or an error event.
func (a *Answer) stream(r io.Reader) error {
	if a.Status != http.StatusOK {
		return fmt.Errorf("a stream with HTTP %d", a.Status)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), mostBody)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == ':' {
			continue // between events; a comment
		}
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
			return fmt.Errorf("%q is no event", line)
		case a.Done:
			return fmt.Errorf("%q after the end", line)
		case data == "[DONE]":
			a.Done = true
			continue
		}
		if err := a.add([]byte(data)); err != nil {
			return err
		}
		a.Done = a.Failure != nil
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return a.ended()
}

// errCut is a stream that ends without saying why.
var errCut = errors.New("the stream ends without [DONE] and without an error")

func (a *Answer) ended() error {
	if !a.Done {
		return errCut
	}
	if a.Failure != nil {
		return nil
	}
	for i, c := range a.Choices {
		if c.Finish == "" {
			return fmt.Errorf("[DONE], and choice %d has no finish_reason", i)
		}
	}
	return nil
}
