package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// routersMetrics are the few that routers made for SGLang read, by its names.
type routersMetrics struct{ a *API }

var (
	sglTotal   = prometheus.NewDesc("sglang:max_total_num_tokens", "Tokens that the pool holds.", nil, nil)
	sglRunning = prometheus.NewDesc("sglang:num_running_reqs", "Requests that are computed.", nil, nil)
	sglQueue   = prometheus.NewDesc("sglang:num_queue_reqs", "Requests that wait.", nil, nil)
	sglUsage   = prometheus.NewDesc("sglang:token_usage", "Share of the pool that requests hold, 0 to 1.", nil, nil)
	sglUsed    = prometheus.NewDesc("sglang:num_used_tokens", "Tokens of the pool that requests hold.", nil, nil)
	sglPage    = prometheus.NewDesc("sglang:page_size", "Tokens of a page.", nil, nil)
	violations = prometheus.NewDesc("bulkhead_worker_violations_total", "Pages that were not what their reader expected, by what was wrong.", []string{"part"}, nil)
	refusals   = prometheus.NewDesc("bulkhead_worker_refusals_total", "Requests that this worker refused, by code.", []string{"code"}, nil)
	rooms      = prometheus.NewDesc("bulkhead_rooms", "Rooms that the carrier of handoffs has open.", nil, nil)
	inside     = prometheus.NewDesc("bulkhead_generate_in_flight", "Requests for tokens inside the HTTP API.", nil, nil)
)

var _ prometheus.Collector = routersMetrics{}

// Describe lists them.
func (m routersMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sglTotal, sglRunning, sglQueue, sglUsage, sglUsed, sglPage, violations, refusals, rooms, inside} {
		out <- d
	}
}

// Collect sends the figures of one snapshot.
func (m routersMetrics) Collect(out chan<- prometheus.Metric) {
	s := m.a.cfg.Worker.Snapshot()
	l := m.a.load(s)
	running := l.Running
	if m.a.cfg.Role == worker.Prefill {
		running += l.Disaggregation.Inflight
	}
	for d, v := range map[*prometheus.Desc]float64{
		sglTotal: float64(l.MaxTokens), sglRunning: float64(running), sglQueue: float64(l.Waiting), sglUsage: l.TokenUsage,
		sglUsed: float64(l.UsedTokens), sglPage: float64(s.Limits.PageTokens), inside: float64(m.a.inside.Load()),
	} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	if m.a.cfg.Rooms != nil {
		out <- prometheus.MustNewConstMetric(rooms, prometheus.GaugeValue, float64(m.a.cfg.Rooms()))
	}
	for _, part := range []bulkhead.Part{bulkhead.PartIdentity, bulkhead.PartFilled, bulkhead.PartK, bulkhead.PartV} {
		out <- prometheus.MustNewConstMetric(violations, prometheus.CounterValue, float64(s.Counters.Violations[part]), string(part))
	}
	for code, n := range s.Counters.Refusals {
		out <- prometheus.MustNewConstMetric(refusals, prometheus.CounterValue, float64(n), string(code))
	}
}
