// Package conformance runs OpenAI's official Go client against a server of Bulkhead: BULKHEAD_URL is its address, as
// http://127.0.0.1:8080, and BULKHEAD_KEY a key, where the server has keys.
package conformance

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const model = "bulkhead"

func newClient(t *testing.T, options ...option.RequestOption) (openai.Client, context.Context) {
	t.Helper()
	url := os.Getenv("BULKHEAD_URL")
	if url == "" {
		t.Skip("BULKHEAD_URL is not set: no server to test")
	}
	key := os.Getenv("BULKHEAD_KEY")
	if key == "" {
		key = "none"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	all := append([]option.RequestOption{option.WithBaseURL(url + "/v1"), option.WithAPIKey(key), option.WithMaxRetries(0)}, options...)
	return openai.NewClient(all...), ctx
}

func hello() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               model,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage("Hello there")},
		MaxCompletionTokens: openai.Int(8),
		Temperature:         openai.Float(0),
		Seed:                openai.Int(1),
	}
}

func TestCreate(t *testing.T) {
	client, ctx := newClient(t)
	params := hello()
	params.N = openai.Int(2)
	params.Logprobs = openai.Bool(true)
	params.TopLogprobs = openai.Int(3)
	params.User = openai.String("somebody")
	got, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.ID, "chatcmpl-") || got.Object != "chat.completion" || len(got.Choices) != 2 || got.Created == 0 {
		t.Errorf("got %s", got.RawJSON())
	}
	for i, c := range got.Choices {
		if c.Index != int64(i) || c.Message.Role != "assistant" || c.FinishReason != "stop" && c.FinishReason != "length" {
			t.Errorf("choice %s", c.RawJSON())
		}
		if len(c.Logprobs.Content) == 0 || len(c.Logprobs.Content[0].TopLogprobs) != 3 {
			t.Errorf("log-probabilities %s", c.Logprobs.RawJSON())
		}
		for _, l := range c.Logprobs.Content {
			if l.Logprob > 0 || len(l.Bytes) == 0 {
				t.Errorf("log-probability %s", l.RawJSON())
			}
		}
	}
	if got.Choices[0].Message.Content != got.Choices[1].Message.Content {
		t.Errorf("two greedy answers differ: %q and %q", got.Choices[0].Message.Content, got.Choices[1].Message.Content)
	}
	u := got.Usage
	if u.PromptTokens == 0 || u.CompletionTokens < 2 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %s", u.RawJSON())
	}
}

// The same request streamed gives the same text and usage.
func TestStream(t *testing.T) {
	client, ctx := newClient(t)
	whole, err := client.Chat.Completions.New(ctx, hello())
	if err != nil {
		t.Fatal(err)
	}
	params := hello()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Fatalf("a chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	if got, want := all.Choices[0], whole.Choices[0]; got.Message.Content != want.Message.Content ||
		got.FinishReason != want.FinishReason || got.Message.Role != "assistant" {
		t.Errorf("streamed %+v, whole %+v", got, want)
	}
	if all.Usage.CompletionTokens != whole.Usage.CompletionTokens || all.Usage.PromptTokens != whole.Usage.PromptTokens {
		t.Errorf("usage streamed %+v, whole %+v", all.Usage, whole.Usage)
	}
}

func TestStop(t *testing.T) {
	client, ctx := newClient(t)
	whole, err := client.Chat.Completions.New(ctx, hello())
	if err != nil {
		t.Fatal(err)
	}
	text := whole.Choices[0].Message.Content
	if len(text) < 4 {
		t.Skipf("the model says only %q", text)
	}
	params := hello()
	params.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{text[1:3]}}
	cut, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(text, text[1:3])
	if c := cut.Choices[0]; c.Message.Content != want || c.FinishReason != "stop" {
		t.Errorf("stopped at %q: %q (%s), want %q", text[1:3], c.Message.Content, c.FinishReason, want)
	}
}

func TestCompletion(t *testing.T) {
	client, ctx := newClient(t)
	got, err := client.Completions.New(ctx, openai.CompletionNewParams{Model: model, MaxTokens: openai.Int(4), Echo: openai.Bool(true),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"The river", "The mill"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 2 || !strings.HasPrefix(got.Choices[1].Text, "The mill") || got.Usage.CompletionTokens == 0 {
		t.Errorf("got %s", got.RawJSON())
	}
}

func TestModels(t *testing.T) {
	client, ctx := newClient(t)
	list, err := client.Models.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	one, err := client.Models.Get(ctx, list.Data[0].ID)
	if err != nil || one.ID != list.Data[0].ID || one.Object != "model" {
		t.Errorf("%v %v", one, err)
	}
}

func TestErrors(t *testing.T) {
	client, ctx := newClient(t)
	for _, c := range []struct {
		name        string
		change      func(*openai.ChatCompletionNewParams)
		options     []option.RequestOption
		status      int
		code, param string
	}{
		{"over the window", func(p *openai.ChatCompletionNewParams) { p.MaxCompletionTokens = openai.Int(1 << 30) }, nil, 400, "context_length_exceeded", "messages"},
		{"another model", func(p *openai.ChatCompletionNewParams) { p.Model = "gpt-4o" }, nil, 404, "model_not_found", "model"},
		{"out of range", func(p *openai.ChatCompletionNewParams) { p.Temperature = openai.Float(3) }, nil, 400, "invalid_request", "temperature"},
		{"not yet", func(p *openai.ChatCompletionNewParams) {
			p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "f"})}
		}, nil, 400, "unsupported_parameter", "tools"},
		{"a control field", nil, []option.RequestOption{option.WithJSONSet("bootstrap_room", 7)}, 400, "forbidden_parameter", "bootstrap_room"},
		{"an unknown field", nil, []option.RequestOption{option.WithJSONSet("temprature", 7)}, 400, "invalid_request", "temprature"},
	} {
		for _, stream := range []bool{false, true} {
			params := hello()
			if c.change != nil {
				c.change(&params)
			}
			var err error
			if stream {
				s := client.Chat.Completions.NewStreaming(ctx, params, c.options...)
				s.Next()
				err = s.Err()
			} else {
				_, err = client.Chat.Completions.New(ctx, params, c.options...)
			}
			var e *openai.Error
			if !errors.As(err, &e) || e.StatusCode != c.status || e.Code != c.code || e.Param != c.param || e.Message == "" {
				t.Errorf("%s, stream %v: %v", c.name, stream, err)
			}
		}
	}
	_, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")}})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "unknown_url" {
		t.Errorf("a route that is not there: %v", err)
	}
}

func TestAuthentication(t *testing.T) {
	if os.Getenv("BULKHEAD_KEY") == "" {
		t.Skip("BULKHEAD_KEY is not set: a server without keys takes any")
	}
	client, ctx := newClient(t, option.WithAPIKey("sk-not-a-key-of-anybody"))
	_, err := client.Chat.Completions.New(ctx, hello())
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 401 || e.Code != "invalid_api_key" {
		t.Errorf("got %v", err)
	}
}

// A client that leaves in mid-stream disturbs nobody: the next request is answered.
func TestAbort(t *testing.T) {
	client, ctx := newClient(t)
	for range 3 {
		leaving, leave := context.WithCancel(ctx)
		params := hello()
		params.MaxCompletionTokens = openai.Int(500)
		stream := client.Chat.Completions.NewStreaming(leaving, params, option.WithJSONSet("ignore_eos", true))
		for range 3 {
			if !stream.Next() {
				t.Fatalf("the stream ended early: %v", stream.Err())
			}
		}
		leave()
		for stream.Next() { // what had arrived already
		}
		if !errors.Is(stream.Err(), context.Canceled) {
			t.Errorf("an aborted stream ends with %v", stream.Err())
		}
	}
	if _, err := client.Chat.Completions.New(ctx, hello()); err != nil {
		t.Error(err)
	}
}
