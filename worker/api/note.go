package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// note is what is left of a request of /generate when it is over: a line of the log, and counts. It holds no text of anybody.
// The gateway inside notes those of the OpenAI routes.
type note struct {
	id                 bulkhead.RequestID
	tenant             string
	start              time.Time
	prompt, completion int
	left               bool // the client went before the end
}

// close notes a request.
func (a *API) close(p *reply, n *note, ref *bulkhead.Refusal) {
	status, code := p.status, ""
	if ref != nil {
		code = string(ref.Code)
		if status == 0 {
			status, _ = sglang.FailureOf(ref)
		}
	}
	if status == 0 {
		status = sglang.StatusAborted
	}
	a.requests.WithLabelValues(strconv.Itoa(status), code).Inc()
	a.cfg.Log.Info("generate", "id", string(n.id), "tenant", n.tenant, "status", status, "code", code, "left", n.left,
		"prompt", n.prompt, "completion", n.completion, "duration", time.Since(n.start))
}

// newRequests counts the requests of /generate. Its labels hold nothing that a client writes.
func newRequests(r *prometheus.Registry) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bulkhead_generate_total",
		Help: "Requests of /generate that are over, by HTTP status and by the code of their refusal."}, []string{"status", "code"})
	r.MustRegister(v)
	return v
}
