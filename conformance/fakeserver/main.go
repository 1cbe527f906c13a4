// Command fakeserver serves the gateway over workers that only repeat what they are told. It is for writing conformance
// tests without a model, and no part of the product: scripts/conformance runs them against `bulkhead serve`.
//
//	go run ./conformance/fakeserver &
//	BULKHEAD_URL=http://127.0.0.1:8088 go -C conformance/go test ./...
package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	backend := gatewaytest.NewBackend(bulkhead.Limits{Window: 2048, PrefillPool: 4096, DecodePool: 4096, ModelWindow: 4096,
		PageTokens: 32, Queue: 64, QueueTenant: 32, Running: 8, Chunk: 128, DrainTimeout: 5 * time.Second})
	backend.Pace = 2 * time.Millisecond
	backend.Answer = func(r bulkhead.Request) []bulkhead.Token {
		answer := gatewaytest.Repeat(r)
		for r.IgnoreEOS && bulkhead.Tokens(len(answer)) < r.MaxTokens {
			answer = append(answer, gatewaytest.Bytes(" and on")...)
		}
		return answer
	}
	var keys *gateway.Keys
	if key := os.Getenv("BULKHEAD_KEY"); key != "" {
		var err error
		if keys, err = gateway.ParseKeys([]byte("- key: " + key + "\n  tenant: conformance\n")); err != nil {
			return err
		}
	}
	g, err := gateway.New(gateway.Config{Backend: backend, Text: gatewaytest.Text{}, Keys: keys,
		Model: gateway.Model{Name: "fake", Created: time.Now()}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:8088")
	if err != nil {
		return err
	}
	return g.Server().Serve(gateway.Listener(listener))
}
