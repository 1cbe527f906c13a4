package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a cluster is made of. Vocab is needed; the rest has defaults.
type Config struct {
	// TLS is how a worker of this role and name is spoken to; name "" is any of the role. nil: plaintext.
	TLS func(role Role, name string) *tls.Config
	// PeerName says who is at the other end, of the certificate that it shows. It is needed with TLS.
	PeerName func(tls.ConnectionState) (role Role, name string, err error)
	// Plaintext allows workers on other hosts without TLS.
	Plaintext bool

	Vocab       int      // one more than the largest token
	Fingerprint [32]byte // of the model; zero: that of the first worker that is seen
	Key         [32]byte // under which beginnings of prompts are named. Gateways with the same key choose alike; zero: a random one

	Retries        int           // of a request whose attempt failed before its first token; -1: none; 0: 2
	RequestTimeout time.Duration // deadline of a request that names none; 0: none
	DrainTimeout   time.Duration // what clients are told while the gateway drains
	Timeouts       Timeouts
	Probes         Probes
	Breaker        BreakerConfig

	Log      *slog.Logger
	Registry prometheus.Registerer // nil: no metrics
}

// Timeouts bound what is waited for. Zero is the default.
type Timeouts struct {
	Dial   time.Duration // TCP and TLS to a worker; 0: 1 s
	First  time.Duration // from dispatch to the first token; 0: 10 min
	Idle   time.Duration // between two tokens; 0: 60 s
	Settle time.Duration // for the other side, once one has failed; 0: 300 ms
	Abort  time.Duration // one POST /abort_request, and between two of them; 0: 1 s
	Hold   time.Duration // for a worker to be done with what was aborted; 0: 2 min
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Dial: orDefault(t.Dial, time.Second), First: orDefault(t.First, 10*time.Minute), Idle: orDefault(t.Idle, time.Minute),
		Settle: orDefault(t.Settle, 300*time.Millisecond), Abort: orDefault(t.Abort, time.Second), Hold: orDefault(t.Hold, 2*time.Minute),
	}
}

// Probes say how workers are looked at. Zero is the default.
type Probes struct {
	Every   time.Duration // GET /server_info; 0: 1 s
	Timeout time.Duration // of one; 0: 2 s
	Out     int           // bad probes in a row that take a worker out; 0: 3
	Back    int           // good ones in a row that bring it back; 0: 2

	GenerateEvery   time.Duration // GET /health_generate; 0: 10 s
	GenerateTimeout time.Duration // 0: 20 s
}

func (p Probes) withDefaults() Probes {
	return Probes{
		Every: orDefault(p.Every, time.Second), Timeout: orDefault(p.Timeout, 2*time.Second),
		Out: orDefault(p.Out, 3), Back: orDefault(p.Back, 2),
		GenerateEvery: orDefault(p.GenerateEvery, 10*time.Second), GenerateTimeout: orDefault(p.GenerateTimeout, 20*time.Second),
	}
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// complete fills in defaults and refuses what makes no sense.
func (c Config) complete() (Config, error) {
	c.Timeouts, c.Probes, c.Breaker = c.Timeouts.withDefaults(), c.Probes.withDefaults(), c.Breaker.withDefaults()
	if c.Retries == 0 {
		c.Retries = 2
	}
	c.Retries = max(c.Retries, 0)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.TLS != nil && c.PeerName == nil {
		return c, errors.New("cluster: with TLS, PeerName is needed")
	}
	if c.Vocab < 1 {
		return c, fmt.Errorf("cluster: a vocabulary of %d tokens", c.Vocab)
	}
	if c.Retries > maxRetries {
		return c, fmt.Errorf("--retries %d: must be at most %d", c.Retries, maxRetries)
	}
	for _, n := range []int{c.Breaker.Failures, c.Breaker.Window, c.Probes.Out, c.Probes.Back} {
		if n < 1 {
			return c, fmt.Errorf("cluster: a number of probes or failures is %d, must be at least 1", n)
		}
	}
	t, p := c.Timeouts, c.Probes
	for _, d := range []time.Duration{t.Dial, t.First, t.Idle, t.Settle, t.Abort, t.Hold, p.Every, p.Timeout, p.GenerateEvery,
		p.GenerateTimeout, c.Breaker.Backoff, c.Breaker.Most} {
		if d < time.Millisecond {
			return c, fmt.Errorf("cluster: a timeout or interval is %v, must be at least 1ms", d)
		}
	}
	if c.RequestTimeout < 0 || c.DrainTimeout < 0 {
		return c, fmt.Errorf("cluster: timeouts of %v and %v must not be negative", c.RequestTimeout, c.DrainTimeout)
	}
	return c, nil
}
