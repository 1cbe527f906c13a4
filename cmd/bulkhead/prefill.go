package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/trust"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// prefillCmd runs a prefill worker: it computes prompts and hands their pages over to decode workers.
type prefillCmd struct {
	Listen        string `default:"127.0.0.1:8081" help:"Address and port of the HTTP API, for gateways."`
	HandoffListen string `default:"127.0.0.1:8998" help:"Address and port where decode workers pull pages."`
	Advertise     string `help:"Host and port that decode workers are told instead of --handoff-listen." placeholder:"HOST:PORT"`

	sideFlags `embed:""`
	Handoff   sourceFlags `embed:"" group:"Handoff"`
}

// Run serves until SIGTERM or SIGINT, then drains.
func (c *prefillCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := c.Log.logger(s.err)
	if err := checkAdvertise(c.Advertise); err != nil {
		return refused{err}
	}
	n, err := c.open(worker.Prefill, []address{{"listen", c.Listen}, {"handoff-listen", c.HandoffListen}}, log)
	if err != nil {
		return err
	}
	defer n.loaded.engine.Close()
	if err := errors.Join(c.Handoff.check(n.layout.PageBytes()), c.Handoff.holds(c.Bound)); err != nil {
		return refused{err}
	}
	n.limits.HandoffTimeout = c.Handoff.HandoffTimeout
	listener, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	pulls, err := listen("handoff-listen", c.HandoffListen)
	if err != nil {
		return err
	}
	defer pulls.Close()
	config := n.carrier(c.Handoff.limits(), c.Handoff.SharedMemory)
	if node := n.peers.node; node != nil {
		config.TLS = node.ServerTLS(trust.Decode)
	}
	return c.run(ctx, stop, n, config, listener, pulls)
}

// run joins the worker to its handoff.
func (c *prefillCmd) run(ctx context.Context, stop func(), n *workerNode, config tcp.Config, listener, pulls net.Listener) error {
	outlet, err := tcp.NewOutlet(config)
	if err != nil {
		return refused{err}
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer outlet.Shutdown()
	w, err := worker.NewPrefill(n.config(), outlet)
	if err != nil {
		return refused{err}
	}
	defer w.Close()
	n.registry.MustRegister(carried{outlet.Stats})
	serving.Go(func() {
		if err := outlet.Serve(pulls); err != nil {
			n.log.Error("decode workers cannot connect any more", "err", err)
		}
	})
	at := c.Advertise
	if at == "" {
		at = pulls.Addr().String()
	}
	if isLoopback(at) && !isLoopback(c.Listen) {
		n.log.Warn("only decode workers of this host can pull: --handoff-listen or --advertise is an address of loopback", "handoff", at)
	}
	n.log.Info("handoff", "listen", pulls.Addr().String(), "advertise", at, "tls", config.TLS != nil, "shared_memory", config.SharedMemory)
	return n.serve(ctx, stop, w, at, listener)
}

// checkAdvertise refuses what others could not dial.
func checkAdvertise(addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if p, bad := strconv.Atoi(port); err != nil || bad != nil || p < 1 || p > 65535 || trust.CheckHost(host) != nil || net.ParseIP(host).IsUnspecified() {
		return fmt.Errorf("--advertise %s: must be HOST:PORT that decode workers can dial, with a port of 1 to 65535", addr)
	}
	return nil
}
