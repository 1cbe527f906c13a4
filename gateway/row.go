package gateway

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// row is hop 10: what is left of a request when it is over. It is one line of the log and feeds the metrics. It holds no
// text of anybody.
type row struct {
	Route      string
	Tenant     string
	Status     int           // HTTP status; 0: nothing was written
	Code       bulkhead.Code // of the refusal, if there was one
	Left       bool          // the client went before the end
	Prompt     bulkhead.Tokens
	Cached     bulkhead.Tokens
	Completion bulkhead.Tokens
	Choices    int
	FirstToken time.Duration // from the request to its first token
}

// failed notes that an answer could not be written to its end.
func (r *row) failed(err error) {
	if err != nil {
		r.Left = true
	}
}

// statusLeft stands in metrics and logs for clients that went before there was a status, as nginx has it.
const statusLeft = 499

// finish closes a call: metrics and the line in the log.
func (g *Gateway) finish(c *call) {
	r := &c.row
	if r.Status == 0 {
		r.Status = statusLeft
	}
	d := time.Since(c.start)
	m := g.metrics
	m.requests.WithLabelValues(r.Route, strconv.Itoa(r.Status), r.Tenant).Inc()
	m.seconds.WithLabelValues(r.Route).Observe(d.Seconds())
	if r.Choices > 0 { // the workers took it
		m.tokens.WithLabelValues("prompt", r.Tenant).Add(float64(r.Prompt))
		m.tokens.WithLabelValues("cached", r.Tenant).Add(float64(r.Cached))
		m.tokens.WithLabelValues("completion", r.Tenant).Add(float64(r.Completion))
	}
	if r.Left {
		m.left.Inc()
	}
	level := slog.LevelInfo
	if r.Route == "health" || r.Route == "metrics" {
		level = slog.LevelDebug
	}
	g.log.Log(c.r.Context(), level, "request", "id", string(c.id), "tenant", r.Tenant, "route", r.Route, "status", r.Status,
		"code", string(r.Code), "left", r.Left, "prompt", int(r.Prompt), "cached", int(r.Cached), "completion", int(r.Completion),
		"choices", r.Choices, "first_token", r.FirstToken, "duration", d)
}

// errLeft says that the client has gone: there is nobody to tell.
var errLeft = errors.New("the client left")
