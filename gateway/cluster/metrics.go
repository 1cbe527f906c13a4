package cluster

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
)

type metrics struct {
	outcomes *prometheus.CounterVec
	ended    *prometheus.CounterVec
	aborts   *prometheus.CounterVec
	held     *prometheus.CounterVec
	shed     *prometheus.CounterVec
	affinity *prometheus.CounterVec
	opened   *prometheus.CounterVec
	retries  prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, c *Cluster) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		if registry != nil {
			registry.MustRegister(v)
		}
		return v
	}
	m := &metrics{
		outcomes: counter("bulkhead_cluster_outcomes_total", "Attempts at workers by how they ended there.", "role", "worker", "outcome"),
		ended:    counter("bulkhead_cluster_requests_total", "Requests by how they ended.", "reason"),
		aborts:   counter("bulkhead_cluster_aborts_total", "Workers told to stop a request, by whether they were reached.", "role", "result"),
		held:     counter("bulkhead_cluster_held_total", "Workers held after they were told to stop, by whether they were done in time.", "outcome"),
		shed:     counter("bulkhead_cluster_shed_total", "Requests refused before any worker heard of them, by code.", "code"),
		affinity: counter("bulkhead_cluster_affinity_tokens_total", "Tokens of prompts thought to be in the cache of the worker that was picked.", "role"),
		opened:   counter("bulkhead_cluster_breaker_opened_total", "Breakers that opened.", "of"),
		retries:  counter("bulkhead_cluster_retries_total", "Attempts after the first.").WithLabelValues(),
	}
	if registry != nil {
		registry.MustRegister(collector{c})
	}
	return m
}

// WorkerState is one worker as the gateway sees it.
type WorkerState struct {
	Role     Role
	Name     string // as it calls itself; its URL where it has not said
	URL      string
	In       bool // its probes are good and it takes requests
	Known    bool // it said what it is, and can be used
	Draining bool
	Breaker  string // closed, open or half_open
	Window   bulkhead.Tokens
	Pool     bulkhead.Tokens
	Requests int             // in flight from here
	Tokens   bulkhead.Tokens // in flight from here, at most
	Problem  string          // what is wrong with it, for an operator
}

// Snapshot is the cluster at one moment.
type Snapshot struct {
	Limits  bulkhead.Limits
	Ready   bool
	Workers []WorkerState // prefill first, each by URL
	Flights int           // attempts that are not over
}

// Snapshot says what the gateway knows of its workers. It is for operators: it holds addresses.
func (c *Cluster) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Snapshot{Limits: c.limits, Ready: c.ready, Flights: c.attempts}
	for _, n := range c.nodes {
		w := WorkerState{Role: n.id.role, Name: n.name(), URL: n.id.url, In: n.in() && !n.resting, Known: n.facts != nil,
			Breaker: n.breaker.state.String(), Requests: n.requests, Tokens: n.tokens, Problem: n.told}
		if n.facts != nil {
			w.Draining, w.Window, w.Pool = n.facts.draining, n.facts.window, n.facts.pool
		}
		s.Workers = append(s.Workers, w)
	}
	slices.SortFunc(s.Workers, func(a, b WorkerState) int {
		return cmp.Or(-cmp.Compare(a.Role, b.Role), cmp.Compare(a.URL, b.URL))
	})
	return s
}

// collector shows a snapshot, one for each scrape.
type collector struct{ c *Cluster }

var (
	descWorker   = desc("bulkhead_cluster_worker_in", "1: the worker is in rotation.", "role", "worker")
	descBreaker  = desc("bulkhead_cluster_breaker_state", "Of the worker: 0 closed, 1 open, 2 half open.", "role", "worker")
	descRequests = desc("bulkhead_cluster_requests_in_flight", "Requests in flight at the worker from this gateway.", "role", "worker")
	descTokens   = desc("bulkhead_cluster_tokens_in_flight", "Their tokens, answers counted as long as they may become.", "role", "worker")
	descAttempts = desc("bulkhead_cluster_attempts_in_flight", "Attempts with which a worker is not done, what clients have left included.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe says nothing: what there is depends on the members.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends one snapshot.
func (k collector) Collect(out chan<- prometheus.Metric) {
	s := k.c.Snapshot()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descAttempts, float64(s.Flights))
	states := map[string]float64{closed.String(): 0, open.String(): 1, halfOpen.String(): 2}
	for _, w := range s.Workers {
		in := 0.0
		if w.In {
			in = 1
		}
		// by address, which is unique; a name can be that of two while one is being replaced
		labels := []string{string(w.Role), w.URL}
		gauge(descWorker, in, labels...)
		gauge(descBreaker, states[w.Breaker], labels...)
		gauge(descRequests, float64(w.Requests), labels...)
		gauge(descTokens, float64(w.Tokens), labels...)
	}
}
