package gateway

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bulkhead-llm/bulkhead"
)

// metrics are the gateway's own. Labels hold routes, codes, and tenants of the keys file: nothing that a client writes, so
// their number is bounded.
type metrics struct {
	requests   *prometheus.CounterVec // by route, status, tenant
	refusals   *prometheus.CounterVec // by code
	violations *prometheus.CounterVec // by part of the page
	tokens     *prometheus.CounterVec // by kind, tenant
	left       prometheus.Counter
	seconds    *prometheus.HistogramVec // by route
	firstToken prometheus.Histogram
	interToken prometheus.Histogram
	registry   *prometheus.Registry
}

func newMetrics(registry *prometheus.Registry, backend Backend, g *Gateway) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(v)
		return v
	}
	m := &metrics{
		requests:   counter("bulkhead_requests_total", "HTTP requests that are over.", "route", "status", "tenant"),
		refusals:   counter("bulkhead_refusals_total", "Refused requests by code.", "code"),
		violations: counter("bulkhead_violations_total", "Requests that ended by a KV integrity violation, by what was wrong.", "part"),
		tokens:     counter("bulkhead_tokens_total", "Tokens of prompts, of these found in the cache, and of answers.", "kind", "tenant"),
		left:       counter("bulkhead_clients_left_total", "Clients that went before the end of their answer.").WithLabelValues(),
		seconds: histogram("bulkhead_request_seconds", "From a request to the end of its answer.",
			prometheus.ExponentialBuckets(0.001, 2, 18), "route"),
		firstToken: histogram("bulkhead_first_token_seconds", "From a request to its first token at the gateway.",
			prometheus.ExponentialBuckets(0.001, 1.5, 28)).WithLabelValues().(prometheus.Histogram),
		interToken: histogram("bulkhead_inter_token_seconds", "Between two tokens of a choice at the gateway.",
			prometheus.ExponentialBuckets(0.0005, 1.5, 24)).WithLabelValues().(prometheus.Histogram),
		registry: registry,
	}
	for _, code := range []bulkhead.Code{bulkhead.CodeContextLength, bulkhead.CodeBusy, bulkhead.CodeDeadline} {
		m.refusals.WithLabelValues(string(code)) // shown as 0 from the start
	}
	for _, part := range []bulkhead.Part{bulkhead.PartIdentity, bulkhead.PartFilled, bulkhead.PartK, bulkhead.PartV} {
		m.violations.WithLabelValues(string(part))
	}
	m.gauges(backend, g)
	return m
}

// gauges read what others hold at the moment they are asked.
func (m *metrics) gauges(backend Backend, g *Gateway) {
	for _, f := range []struct {
		name, help string
		value      func(bulkhead.Limits) float64
	}{
		{"bulkhead_window_tokens", "The window that clients are told.", func(l bulkhead.Limits) float64 { return float64(l.Window) }},
		{"bulkhead_model_window_tokens", "What the model was trained for.", func(l bulkhead.Limits) float64 { return float64(l.ModelWindow) }},
		{"bulkhead_prefill_pool_tokens", "Slots of the prefill pool.", func(l bulkhead.Limits) float64 { return float64(l.PrefillPool) }},
		{"bulkhead_decode_pool_tokens", "Slots of the decode pool.", func(l bulkhead.Limits) float64 { return float64(l.DecodePool) }},
		{"bulkhead_requests_in_flight", "Requests inside the gateway.", func(bulkhead.Limits) float64 { return float64(g.gate.count()) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: f.name, Help: f.help},
			func() float64 { return f.value(backend.Limits()) }))
	}
}

// showMetrics is GET /metrics.
func (g *Gateway) showMetrics(c *call) *bulkhead.Refusal {
	c.row.Status = http.StatusOK
	c.control.SetWriteDeadline(time.Now().Add(c.timeout))
	promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(c.w, c.r)
	return nil
}
