package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/trust"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// decodeCmd runs a decode worker: it pulls the pages of prompts from prefill workers, proves them, and computes answers.
type decodeCmd struct {
	Listen string `default:"127.0.0.1:8082" help:"Address and port of the HTTP API, for gateways."`

	sideFlags `embed:""`
	Handoff   targetFlags `embed:"" group:"Handoff"`
}

// Run serves until SIGTERM or SIGINT, then drains.
func (c *decodeCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := c.Log.logger(s.err)
	n, err := c.open(worker.Decode, []address{{"listen", c.Listen}}, log)
	if err != nil {
		return err
	}
	defer n.loaded.engine.Close()
	if err := errors.Join(c.Handoff.check(n.layout.PageBytes()), c.Handoff.holds(c.Bound)); err != nil {
		return refused{err}
	}
	listener, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	config := n.carrier(c.Handoff.limits(), c.Handoff.SharedMemory)
	if node := n.peers.node; node != nil {
		config.TLS = node.ClientTLS(trust.Prefill, "") // the name is the gateway's to say, and compared by the handoff
	}
	inlet, err := tcp.NewInlet(config)
	if err != nil {
		return refused{err}
	}
	defer inlet.Shutdown()
	w, err := worker.NewDecode(n.config(), inlet)
	if err != nil {
		return refused{err}
	}
	defer w.Close()
	n.registry.MustRegister(carried{inlet.Stats})
	log.Info("handoff", "tls", config.TLS != nil, "shared_memory", config.SharedMemory)
	return n.serve(ctx, stop, w, "", listener)
}
