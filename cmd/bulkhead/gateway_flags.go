package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
)

// memberFlags say which workers there are.
type memberFlags struct {
	Prefill []string `help:"Prefill workers, as http://HOST:PORT or https://HOST:PORT; NAME=URL takes only the worker of that name." placeholder:"URL"`
	Decode  []string `help:"Decode workers, likewise." placeholder:"URL"`
	Workers fileName `help:"YAML file that lists them instead, read again whenever it changes." placeholder:"FILE"`
}

// members are those of the flags or, at the start, of the file.
func (f memberFlags) members() (cluster.Members, error) {
	if f.Workers != "" {
		if len(f.Prefill)+len(f.Decode) > 0 {
			return cluster.Members{}, fmt.Errorf("--workers %s and --prefill or --decode: list the workers in one place", f.Workers)
		}
		m, err := cluster.LoadMembers(string(f.Workers))
		if err != nil {
			return m, fmt.Errorf("--workers: %w", err)
		}
		return m, nil
	}
	if len(f.Prefill) == 0 || len(f.Decode) == 0 {
		return cluster.Members{}, fmt.Errorf("%d prefill and %d decode workers: name at least one of each with --prefill URL and --decode URL, or give --workers FILE",
			len(f.Prefill), len(f.Decode))
	}
	m := cluster.Members{Prefill: parseMembers(f.Prefill), Decode: parseMembers(f.Decode)}
	return m, m.Check()
}

func parseMembers(list []string) (out []cluster.Member) {
	for _, text := range list {
		m := cluster.Member{URL: strings.TrimSpace(text)}
		if name, url, ok := strings.Cut(m.URL, "="); ok && !strings.Contains(name, "/") {
			m.Name, m.URL = name, url
		}
		out = append(out, m)
	}
	return out
}

// gatewayBoundFlags bound what a request may take.
type gatewayBoundFlags struct {
	RequestTimeout    time.Duration `default:"0s" help:"Time that a request has from its arrival, queues included; 0: no limit."`
	FirstTokenTimeout time.Duration `default:"10m" help:"Time that a pair of workers has until the first token."`
	IdleTimeout       time.Duration `default:"1m" help:"Time that may pass between two tokens."`
	HoldTimeout       time.Duration `default:"2m" help:"Time that a worker has to be done with a request that was ended."`
	Retries           int           `default:"2" help:"Further pairs that a request is tried on when one fails before its first token, 0 to 10."`
	DrainTimeout      time.Duration `default:"30s" help:"Time that running requests have after SIGTERM."`
	MaxBody           int64         `default:"8388608" help:"Bytes that the body of a request may have."`
}

// healthFlags say how workers are looked at, and when one is left alone.
type healthFlags struct {
	DialTimeout         time.Duration `default:"1s" help:"Time that a connection to a worker may take, TLS included."`
	ProbeInterval       time.Duration `default:"1s" help:"Time between two looks at a worker."`
	ProbeTimeout        time.Duration `default:"2s" help:"Time that a worker has to answer one."`
	ProbesOut           int           `default:"3" help:"Bad looks in a row that take a worker out."`
	ProbesBack          int           `default:"2" help:"Good looks in a row that bring it back."`
	GenerateInterval    time.Duration `default:"10s" help:"Time between two trials of a worker with a request of one token."`
	GenerateTimeout     time.Duration `default:"20s" help:"Time that such a trial may take."`
	BreakerFailures     int           `default:"3" help:"Failures in a row after which a worker, or a link between two, gets no requests for a while."`
	BreakerWindow       int           `default:"20" help:"Outcomes of which half may fail before the same happens."`
	BreakerBackoff      time.Duration `default:"1s" help:"The while, doubled by each trial that fails."`
	BreakerBackoffLimit time.Duration `default:"30s" help:"The longest while."`
}

// check refuses what is out of range, by its name.
func (b gatewayBoundFlags) check() error {
	switch {
	case b.MaxBody < 1:
		return fmt.Errorf("--max-body %d: must be at least 1", b.MaxBody)
	case b.RequestTimeout < 0:
		return fmt.Errorf("--request-timeout %v: must be 0 (none) or more", b.RequestTimeout)
	case b.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout %v: must be 0 or more", b.DrainTimeout)
	case b.Retries < 0 || b.Retries > 10:
		return fmt.Errorf("--retries %d: must be 0 to 10", b.Retries)
	}
	return checkTimes([]namedTime{{"first-token-timeout", b.FirstTokenTimeout}, {"idle-timeout", b.IdleTimeout}, {"hold-timeout", b.HoldTimeout}})
}

func (h healthFlags) check() error {
	for _, c := range []struct {
		name string
		n    int
	}{{"probes-out", h.ProbesOut}, {"probes-back", h.ProbesBack}, {"breaker-failures", h.BreakerFailures}, {"breaker-window", h.BreakerWindow}} {
		if c.n < 1 || c.n > 1000 {
			return fmt.Errorf("--%s %d: must be 1 to 1000", c.name, c.n)
		}
	}
	if h.BreakerBackoff > h.BreakerBackoffLimit {
		return fmt.Errorf("--breaker-backoff %v is more than --breaker-backoff-limit %v", h.BreakerBackoff, h.BreakerBackoffLimit)
	}
	return checkTimes([]namedTime{{"dial-timeout", h.DialTimeout}, {"probe-interval", h.ProbeInterval}, {"probe-timeout", h.ProbeTimeout},
		{"generate-interval", h.GenerateInterval}, {"generate-timeout", h.GenerateTimeout}, {"breaker-backoff", h.BreakerBackoff},
		{"breaker-backoff-limit", h.BreakerBackoffLimit}})
}

type namedTime struct {
	name string
	d    time.Duration
}

// checkTimes refuses times that are too short to mean anything, or longer than anybody waits.
func checkTimes(times []namedTime) error {
	i := slices.IndexFunc(times, func(t namedTime) bool { return t.d < time.Millisecond || t.d > 24*time.Hour })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("--%s %v: must be 1ms to 24h", times[i].name, times[i].d)
}

// settings are the flags as the cluster takes them.
func (h healthFlags) settings(b gatewayBoundFlags, c *cluster.Config) {
	c.Timeouts = cluster.Timeouts{Dial: h.DialTimeout, First: b.FirstTokenTimeout, Idle: b.IdleTimeout, Hold: b.HoldTimeout}
	c.Probes = cluster.Probes{Every: h.ProbeInterval, Timeout: h.ProbeTimeout, Out: h.ProbesOut, Back: h.ProbesBack,
		GenerateEvery: h.GenerateInterval, GenerateTimeout: h.GenerateTimeout}
	c.Breaker = cluster.BreakerConfig{Failures: h.BreakerFailures, Window: h.BreakerWindow, Backoff: h.BreakerBackoff, Most: h.BreakerBackoffLimit}
	c.RequestTimeout, c.DrainTimeout, c.Retries = b.RequestTimeout, b.DrainTimeout, b.Retries
	if b.Retries == 0 {
		c.Retries = -1 // its 0 is the default
	}
}
