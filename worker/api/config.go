package api

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// Worker is one side of a pair. It is safe for concurrent use.
type Worker interface {
	// Submit takes an order, or refuses it. A prefill worker's stream has no tokens: its End is HandedOver when decode has
	// committed.
	Submit(worker.Order) (gateway.Stream, *bulkhead.Refusal)
	// Limits are those of this worker now.
	Limits() bulkhead.Limits
	Snapshot() worker.Snapshot
}

// Of is a worker.Prefill or worker.Decode as this package sees it.
func Of(w interface {
	Submit(worker.Order) (*worker.Stream, *bulkhead.Refusal)
	Limits() bulkhead.Limits
	Snapshot() worker.Snapshot
}) Worker {
	return adapter{w, w.Submit}
}

type adapter struct {
	state
	submit func(worker.Order) (*worker.Stream, *bulkhead.Refusal)
}

type state interface {
	Limits() bulkhead.Limits
	Snapshot() worker.Snapshot
}

// Submit keeps a stream that is nil from becoming one that is not.
func (a adapter) Submit(o worker.Order) (gateway.Stream, *bulkhead.Refusal) {
	s, ref := a.submit(o)
	if ref != nil {
		return nil, ref
	}
	return s, nil
}

// Roles that a peer can have.
const (
	roleGateway  = "gateway"
	roleOperator = "operator"
)

// Config says what an API serves. Worker, Text, Model.Name, Layout, Name and Start are needed, and Handoff at prefill.
type Config struct {
	Role    worker.Side
	Worker  Worker
	Text    gateway.Text
	Model   gateway.Model
	Layout  bulkhead.Layout
	Version string

	Name    string // of this worker, as its certificate says
	Start   string // random, new at every start
	Handoff string // at prefill: host:port where decode pulls

	// Peer says who is at the other end of a request: by its certificate, or, without TLS, that whoever reaches this worker's
	// loopback is a gateway. nil, or ok false: nobody in particular.
	Peer func(*http.Request) (role, name string, ok bool)
	// Flush drops cached pages that nobody reads and says how many. nil: /flush_cache is refused.
	Flush func() int
	// Rooms says how many rooms the carrier has open, for /metrics; nil: that is not shown.
	Rooms func() int

	Log      *slog.Logger
	Registry *prometheus.Registry // what /metrics shows; the API adds its own. nil: a new one

	MaxBody      int64         // as gateway.Config's
	BodyTimeout  time.Duration // likewise
	WriteTimeout time.Duration // likewise
	Stall        time.Duration // how long a loop with work may go without a step before /health says so; 0: 30 s
	ProbeTimeout time.Duration // how long /health_generate waits; 0: 20 s
}

func (c *Config) check() error {
	switch {
	case c.Worker == nil || c.Text == nil || c.Model.Name == "" || c.Name == "" || c.Start == "":
		return errors.New("worker/api: Worker, Text, Model.Name, Name and Start are needed")
	case c.Role != worker.Prefill && c.Role != worker.Decode:
		return errors.New("worker/api: the role is neither prefill nor decode")
	}
	if c.Role == worker.Prefill {
		if _, err := c.handoffPort(); err != nil {
			return err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	for _, d := range []struct {
		value *time.Duration
		none  time.Duration
	}{{&c.BodyTimeout, 30 * time.Second}, {&c.WriteTimeout, 30 * time.Second}, {&c.Stall, 30 * time.Second}, {&c.ProbeTimeout, 20 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.none
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = 8 << 20
	}
	return c.Layout.Check()
}

// handoffPort is the port of Handoff; 0 at decode.
func (c *Config) handoffPort() (int, error) {
	if c.Role == worker.Decode {
		return 0, nil
	}
	_, port, err := net.SplitHostPort(c.Handoff)
	if err != nil {
		return 0, errors.New("worker/api: Handoff must be host:port: " + err.Error())
	}
	return strconv.Atoi(port)
}

// peer says who sent a request.
type peer struct {
	role, name string
	known      bool
}

func (a *API) peer(r *http.Request) peer {
	if a.cfg.Peer == nil {
		return peer{}
	}
	role, name, ok := a.cfg.Peer(r)
	return peer{role, name, ok}
}

func (p peer) is(role string) bool { return p.known && p.role == role }

// mayGenerate says whether requests for tokens are taken from it: not from those who are known to be something else than a
// gateway.
func (p peer) mayGenerate() *bulkhead.Refusal {
	if !p.known || p.role == roleGateway {
		return nil
	}
	return bulkhead.Refuse(bulkhead.CodeUnauthorized, "", "a peer of the role %s asks a worker for no tokens: only a gateway does", p.role)
}
