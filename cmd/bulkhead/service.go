package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// listen takes the address of a flag.
func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, refused{fmt.Errorf("--%s %s: %w", flag, addr, err)}
	}
	return l, nil
}

// service answers HTTP until it is told to end, and then lets what runs end within the limit.
type service struct {
	server   *http.Server
	listener net.Listener
	log      *slog.Logger
	limit    time.Duration
	drain    func(context.Context) error // takes no new requests; returns when all have ended, and ends those left when its context is done
}

// shutdownGrace is how long answers whose last event is there may take to reach their clients.
const shutdownGrace = 2 * time.Second

// run serves until ctx is done. stop is called when it is, so that a second signal ends the process at once.
func (s service) run(ctx context.Context, stop func()) error {
	failed := make(chan error, 1)
	go func() { failed <- s.serve() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop()
	s.log.Info("draining: no new requests", "limit", s.limit)
	drain, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	drained := s.drain(drain)
	shut, cancelShut := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancelShut()
	if err := s.server.Shutdown(shut); err != nil {
		s.server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if drained != nil {
		s.log.Warn("drained: requests that were still running were ended", "limit", s.limit)
	} else {
		s.log.Info("drained: every request ended by itself")
	}
	return nil
}

func (s service) serve() error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(s.listener, "", "")
	}
	return s.server.Serve(s.listener)
}
