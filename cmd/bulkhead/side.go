package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/native"
	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/trust"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// workerNode is a prefill or a decode worker, put together step by step: opened, joined to its handoff, and served.
type workerNode struct {
	role     worker.Side
	flags    *sideFlags
	log      *slog.Logger
	peers    *peers
	loaded   *loaded
	layout   bulkhead.Layout
	limits   bulkhead.Limits
	registry *prometheus.Registry
	model    string
}

// half is what both kinds of worker are to whoever serves them.
type half interface {
	Submit(worker.Order) (*worker.Stream, *bulkhead.Refusal)
	Limits() bulkhead.Limits
	Snapshot() worker.Snapshot
	Drain(context.Context) error
	Flush() int
	Close()
}

// trustRole is the side as certificates name it.
func trustRole(s worker.Side) trust.Role {
	if s == worker.Prefill {
		return trust.Prefill
	}
	return trust.Decode
}

// open settles name, secret and limits, and loads the model. Everything that can be refused without it is refused before.
func (f *sideFlags) open(role worker.Side, where []address, log *slog.Logger) (_ *workerNode, err error) {
	s := &workerNode{role: role, flags: f, log: log, registry: newRegistry()}
	if err := f.Bound.check(); err != nil {
		return nil, refused{err}
	}
	if s.peers, err = f.Peers.open(trustRole(role), where, log); err != nil {
		return nil, err
	}
	if err := s.peers.named(f.Name, trustRole(role), where[0].host); err != nil {
		return nil, err
	}
	if s.loaded, err = f.Model.open(log); err != nil {
		return nil, err
	}
	s.layout = s.loaded.engine.Layout(f.Pool.PageTokens)
	if s.limits, err = f.limits(role, s.loaded.engine.Info(), s.layout); err != nil {
		s.loaded.engine.Close()
		return nil, refused{err}
	}
	if s.model = f.ModelName; s.model == "" {
		s.model = s.loaded.name
	}
	return s, nil
}

// worker is the configuration of the loops.
func (s *workerNode) config() worker.Config {
	g := guarded(s.loaded.engine)
	return worker.Config{
		Runner: g.runner, Summer: g.summer, Layout: s.layout, Limits: s.limits, EOS: s.loaded.text.ends(),
		KeepOnFree: !s.flags.Pool.ClearOnFree, Log: s.log, Observer: native.NewTimings(s.registry), Secret: s.peers.secret,
	}
}

// carrier is the configuration of the handoff.
func (s *workerNode) carrier(limits tcp.Limits, sharedMemory bool) tcp.Config {
	info := s.loaded.engine.Info()
	return tcp.Config{
		Name: s.peers.name, Fingerprint: info.Fingerprint, Layout: s.layout, Kernels: info.Kernels, Secret: s.peers.secret,
		Plaintext: s.flags.Peers.InsecurePlaintext, Limits: limits, SharedMemory: sharedMemory, Log: s.log,
		PeerName: func(state tls.ConnectionState) (string, error) {
			_, name, err := trust.PeerOf(state)
			return name, err
		},
	}
}

// serve answers HTTP for a worker until it is told to end.
func (s *workerNode) serve(ctx context.Context, stop func(), w half, handoff string, listener net.Listener) error {
	var start [16]byte
	rand.Read(start[:])
	a, err := api.New(api.Config{
		Role: s.role, Worker: api.Of(w), Text: s.loaded.text, Model: describe(s.model, s.loaded.engine.Info()), Layout: s.layout,
		Version: version, Name: s.peers.name, Start: hex.EncodeToString(start[:]), Handoff: handoff,
		Peer: s.peers.who(s.flags.Peers.InsecurePlaintext), Flush: w.Flush, Log: s.log, Registry: s.registry, MaxBody: s.flags.Bound.MaxBody,
	})
	if err != nil {
		return refused{err}
	}
	server := a.Server()
	scheme := "http://"
	if node := s.peers.node; node != nil {
		server.TLSConfig = node.ServerTLS(trust.Gateway, trust.Operator)
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true) // what gateways speak
		scheme = "https://"
	}
	s.announce()
	s.log.Info("serving", "url", scheme+listener.Addr().String())
	return service{
		server: server, listener: gateway.Listener(listener), log: s.log, limit: s.flags.Bound.DrainTimeout,
		drain: func(ctx context.Context) error { a.Drain(); return w.Drain(ctx) },
	}.run(ctx, stop)
}

// who says who is at the other end of a request. Without TLS whoever reaches loopback is believed to be a gateway, and whoever
// reaches the worker at all where the operator has said that the network is secured.
func (p *peers) who(everybody bool) func(*http.Request) (role, name string, ok bool) {
	return func(r *http.Request) (string, string, bool) {
		switch {
		case p.node == nil:
			return string(trust.Gateway), "", everybody || isLoopback(r.RemoteAddr)
		case r.TLS == nil:
			return "", "", false
		}
		role, name, err := trust.PeerOf(*r.TLS)
		return string(role), name, err == nil
	}
}

func (s *workerNode) announce() {
	announceModel(s.log, s.model, s.loaded.engine.Info())
	pool := s.limits.PrefillPool
	if s.role == worker.Decode {
		pool = s.limits.DecodePool
	}
	s.log.Info("pool", "role", s.role.String(), "window", int(s.limits.Window), "model_window", int(s.limits.ModelWindow), "pool", int(pool),
		"page_tokens", s.layout.PageTokens, "page_bytes", s.layout.PageBytes())
	s.peers.announce(s.log)
}
