package gateway

import (
	"context"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// Backend is the workers behind the gateway. It is safe for concurrent use. It writes to the log what ends a request as
// Violated or Failed, under the request's id: the gateway tells the client no more than that.
type Backend interface {
	// Submit takes an admitted request, or refuses it: a queue is full, the workers are draining, or they hold to other
	// limits than the gateway knew. ctx carries what a worker put in front of the gateway; its end means nothing here: a
	// client that leaves is told of by Leave.
	Submit(context.Context, bulkhead.Admitted) (Stream, *bulkhead.Refusal)
	// Limits are those of the workers now. The gateway admits by them.
	Limits() bulkhead.Limits
}

// Readier is a Backend whose workers can be out of reach as a whole.
type Readier interface {
	// Ready is nil where requests can be answered, and else what each of them is told. /health says it too.
	Ready() *bulkhead.Refusal
}

// Stream is the answer to one submitted request. It has one reader.
type Stream interface {
	// Next waits for the next event; false when ctx is done, or after the End.
	Next(ctx context.Context) (bulkhead.Event, bool)
	// Leave says that nobody wants more; the End still comes. It may be called at any time and more than once.
	Leave()
}

// Text is the model's tokenizer and chat template. It is safe for concurrent use.
type Text interface {
	// Chat is the prompt for the assistant's next message. Nothing that a message says becomes a control token. The
	// error is fit for clients: the template refuses these messages, or the model has none.
	Chat([]openai.Message) ([]bulkhead.Token, error)
	// Prompt is the tokens of a plain text, behind the token that starts texts where the model wants one.
	Prompt(text string) []bulkhead.Token
	// Size is one more than the largest token.
	Size() int
	// Ends says that a token ends an answer.
	Ends(bulkhead.Token) bool
	// Piece is the bytes of a token, be they whole characters or not.
	Piece(bulkhead.Token) []byte
	// Decode is the text of tokens.
	Decode([]bulkhead.Token) string
	// Decoder turns the tokens of one answer into text as they come.
	Decoder() Decoder
}

// Decoder gives out whole characters only. It has one user.
type Decoder interface {
	Next(bulkhead.Token) string
	Flush() string // what was held back and will not be completed
}
