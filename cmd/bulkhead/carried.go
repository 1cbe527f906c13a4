package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
)

// carried shows what a worker's carrier counts: of an outlet what it gave, of an inlet what it took.
type carried struct{ stats func() tcp.Stats }

var (
	descRooms       = carrierDesc("bulkhead_rooms", "Rooms that are open at prefill, or entered at decode.")
	descWaiting     = carrierDesc("bulkhead_carrier_rooms_waiting", "Rooms that decode has asked for and that are not open at prefill.")
	descConnections = carrierDesc("bulkhead_carrier_connections", "Peers that are connected.")
	descInFlight    = carrierDesc("bulkhead_carrier_bytes_in_flight", "Bytes of pages that were asked for and have not come.")
	descConnected   = carrierDesc("bulkhead_carrier_connections_total", "Connections on which both sides have proven themselves.")
	descUnreachable = carrierDesc("bulkhead_carrier_unreachable_total", "Attempts that found no prefill worker.")
	descRefused     = carrierDesc("bulkhead_carrier_refused_total", "Peers that were refused, or refused this worker, by why.", "cause")
	descClosed      = carrierDesc("bulkhead_carrier_closed_total", "Connections that ended, by why.", "cause")
	descEnds        = carrierDesc("bulkhead_carrier_rooms_total", "Rooms by what became of them.", "end")
	descMoved       = carrierDesc("bulkhead_carrier_pages_total", "Pages that moved, by the way they took.", "way")
	descMovedBytes  = carrierDesc("bulkhead_carrier_bytes_total", "Bytes of those pages.")
)

func carrierDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe says nothing: which causes there are depends on what happens.
func (carried) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures of one moment.
func (c carried) Collect(out chan<- prometheus.Metric) {
	s := c.stats()
	gauge := func(d *prometheus.Desc, v float64) { out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(descRooms, float64(s.Rooms))
	gauge(descWaiting, float64(s.Waiting))
	gauge(descConnections, float64(s.Connections))
	gauge(descInFlight, float64(s.InFlight))
	count(descConnected, s.Connected)
	count(descUnreachable, s.Unreachable)
	for code, n := range s.Refused {
		count(descRefused, n, code.String())
	}
	for code, n := range s.Closed {
		count(descClosed, n, code.String())
	}
	for end, n := range map[string]uint64{"entered": s.Entered, "denied": s.Denied, "committed": s.Committed, "abandoned": s.Abandoned, "lost": s.Lost} {
		count(descEnds, n, end)
	}
	count(descMoved, s.Pages-s.RingPages, "network")
	count(descMoved, s.RingPages, "memory")
	count(descMovedBytes, s.Bytes)
}
