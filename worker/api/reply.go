package api

import (
	"net/http"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// retryLater is when a request that a draining or busy worker refused may come again.
const retryLater = time.Second

// reply is the answer to one HTTP request.
type reply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // of one write
	status  int           // 0: nothing has been written
	events  *openai.EventStream
}

func newReply(a *API, w http.ResponseWriter) *reply {
	p := &reply{w: w, control: http.NewResponseController(w), timeout: a.cfg.WriteTimeout}
	p.control.SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout)) // net/http waits for the body of what is refused unread, too
	return p
}

// Write writes a part of the answer and sends it on its way. A client that does not read has the timeout for each.
func (p *reply) Write(b []byte) (n int, err error) {
	const part = 64 << 10
	for n < len(b) && err == nil {
		p.control.SetWriteDeadline(time.Now().Add(p.timeout)) // a writer that knows no deadlines has none
		var k int
		k, err = p.w.Write(b[n:min(len(b), n+part)])
		n += k
	}
	if err == nil && p.events != nil {
		err = p.control.Flush()
	}
	return n, err
}

// json writes a whole answer.
func (p *reply) json(status int, v any) error {
	p.begin(status, openai.ContentJSON)
	return openai.WriteJSON(p, v)
}

// stream begins a streamed answer, if it has not begun.
func (p *reply) stream() *openai.EventStream {
	if p.events == nil {
		p.w.Header().Set("Cache-Control", "no-cache")
		p.w.Header().Set("X-Accel-Buffering", "no") // asks proxies to pass each event on at once
		p.events = &openai.EventStream{W: p}
		p.begin(http.StatusOK, openai.ContentEvents)
	}
	return p.events
}

func (p *reply) begin(status int, kind string) {
	p.w.Header().Set("Content-Type", kind)
	p.control.SetWriteDeadline(time.Now().Add(p.timeout))
	p.status = status
	p.w.WriteHeader(status)
}

// refuse writes a refusal: as the answer, or as the last event of a stream that has begun.
func (p *reply) refuse(ref *bulkhead.Refusal) {
	status, body := sglang.FailureOf(ref)
	switch {
	case p.events != nil:
		p.events.Send(body) // an error means that nobody is there to be told
	case p.status != 0:
		panic(http.ErrAbortHandler) // a body is on its way; all that is left is to break it off
	default:
		sglang.Headers(p.w.Header(), ref)
		p.json(status, body)
	}
}
