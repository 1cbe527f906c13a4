package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// call is one HTTP request and its answer.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	timeout time.Duration // of one write

	id     bulkhead.RequestID
	tenant bulkhead.Tenant
	start  time.Time
	events *openai.EventStream // set once a stream has begun
	row    row
}

// newCall mints the request's id. It is never taken from a client: whoever may choose an id may name another's request.
func (g *Gateway) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{w: w, r: r, control: http.NewResponseController(w), timeout: g.cfg.WriteTimeout,
		id: mintID(), start: time.Now(), row: row{Route: "none", Tenant: "none"}}
	w.Header().Set("X-Request-Id", string(c.id))
	c.control.SetReadDeadline(c.start.Add(g.cfg.BodyTimeout)) // net/http waits for the body of what is refused unread, too
	return c
}

// mintID is 96 random bits in 24 characters.
func mintID() bulkhead.RequestID {
	var b [12]byte
	rand.Read(b[:])
	return bulkhead.RequestID(hex.EncodeToString(b[:]))
}

// Write writes a part of the answer. A client that does not read has the timeout for each part, and then the connection
// ends.
func (c *call) Write(p []byte) (n int, err error) {
	const part = 64 << 10
	for {
		c.control.SetWriteDeadline(time.Now().Add(c.timeout)) // a writer that knows no deadlines has none
		k, err := c.w.Write(p[n:min(len(p), n+part)])
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// json writes a whole answer.
func (c *call) json(status int, v any) error {
	c.w.Header().Set("Content-Type", openai.ContentJSON)
	c.begin(status)
	return openai.WriteJSON(c, v)
}

// stream begins a streamed answer.
func (c *call) stream() {
	h := c.w.Header()
	h.Set("Content-Type", openai.ContentEvents)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // asks proxies to pass each event on at once
	c.begin(http.StatusOK)
	c.events = &openai.EventStream{W: flusher{c}}
}

func (c *call) begin(status int) {
	c.control.SetWriteDeadline(time.Now().Add(c.timeout))
	c.row.Status = status
	c.w.WriteHeader(status)
}

// flusher sends each write on its way at once.
type flusher struct{ c *call }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.c.Write(p)
	if err == nil {
		err = f.c.control.Flush()
	}
	return n, err
}

var _ io.Writer = flusher{}
