package native

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// Timings turns what the workers' loops report into histograms. Hand it to the pair as its Observer.
type Timings struct {
	step    *prometheus.HistogramVec // by worker
	queued  prometheus.Histogram
	handoff prometheus.Histogram
}

var _ worker.Observer = (*Timings)(nil)

// NewTimings registers the histograms.
func NewTimings(r prometheus.Registerer) *Timings {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	t := &Timings{
		step: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bulkhead_step_seconds",
			Help: "One step of the engine, waiting for its turn not included.", Buckets: buckets}, []string{"worker"}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bulkhead_queue_seconds",
			Help: "From a request's arrival at the workers to its first page in prefill.", Buckets: buckets}),
		handoff: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "bulkhead_handoff_seconds",
			Help: "From the first page pulled to the commit.", Buckets: buckets}),
	}
	r.MustRegister(t.step, t.queued, t.handoff)
	return t
}

// Step counts one step of the engine.
func (t *Timings) Step(side worker.Side, _ int, d time.Duration) {
	t.step.WithLabelValues(side.String()).Observe(d.Seconds())
}

// Queued counts a request's wait in prefill's queue.
func (t *Timings) Queued(_ string, d time.Duration) { t.queued.Observe(d.Seconds()) }

// Handoff counts one committed handoff.
func (t *Timings) Handoff(_ int, _ int64, d time.Duration) { t.handoff.Observe(d.Seconds()) }

// FirstToken is counted by the gateway, where the client's time is.
func (t *Timings) FirstToken(string, time.Duration) {}

// NextToken is counted by the gateway.
func (t *Timings) NextToken(string, time.Duration) {}

// Ended is counted by the gateway.
func (t *Timings) Ended(string, bulkhead.End, time.Duration) {}

// Collect registers what a pair's snapshot says: the pages of both pools by state, what waits and runs, and its counters.
// A snapshot is taken once for each scrape, so the figures of one scrape agree.
func Collect(r prometheus.Registerer, pair *worker.Pair) {
	r.MustRegister(collector{pair, []worker.Side{worker.Prefill, worker.Decode}})
}

// CollectSide does it for one worker alone.
func CollectSide(r prometheus.Registerer, w Books, side worker.Side) {
	r.MustRegister(collector{w, []worker.Side{side}})
}

// Books is a pair, or one of its workers.
type Books interface{ Snapshot() worker.Snapshot }

type collector struct {
	books Books
	sides []worker.Side
}

var (
	descPages    = desc("bulkhead_pages", "Pages of a pool by state.", "worker", "state")
	descRequests = desc("bulkhead_requests", "Requests in the workers by state.", "state")
	descSetBacks = desc("bulkhead_set_backs_total", "Requests that were set back because the decode pool ran out.")
	descRows     = desc("bulkhead_rows_total", "Tokens that the engine computed, recomputation included.", "worker")
	descSteps    = desc("bulkhead_steps_total", "Steps of the engine.", "worker")
	descPulled   = desc("bulkhead_handoff_pages_total", "Pages that decode pulled and proved.")
	descBytes    = desc("bulkhead_handoff_bytes_total", "Bytes of those pages.")
	descEnded    = desc("bulkhead_requests_ended_total", "Requests that the workers ended, by how.", "reason")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe says nothing, which makes the collector an unchecked one: its metrics depend on nothing that is known here.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures of one snapshot.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.books.Snapshot()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	k := s.Counters
	for _, side := range c.sides {
		use, rows, steps := s.Prefill, k.PrefillRows, k.PrefillSteps
		if side == worker.Decode {
			use, rows, steps = s.Decode, k.DecodeRows, k.DecodeSteps
		}
		for state, n := range map[string]int{"free": use.Free, "cached": use.Cached, "live": use.Live,
			"quarantined": use.Quarantined, "set_aside": use.SetAside} {
			send(descPages, prometheus.GaugeValue, float64(n), side.String(), state)
		}
		send(descRows, prometheus.CounterValue, float64(rows), side.String())
		send(descSteps, prometheus.CounterValue, float64(steps), side.String())
	}
	for state, n := range map[string]int{"waiting": s.Waiting, "prefilling": s.Prefilling,
		"handing_over": s.HandingOver, "set_back": s.SetBack, "running": s.Running} {
		send(descRequests, prometheus.GaugeValue, float64(n), state)
	}
	send(descSetBacks, prometheus.CounterValue, float64(k.SetBacks))
	send(descPulled, prometheus.CounterValue, float64(k.HandoffPages))
	send(descBytes, prometheus.CounterValue, float64(k.HandoffBytes))
	for reason, n := range k.Ended {
		send(descEnded, prometheus.CounterValue, float64(n), reason.String())
	}
}
