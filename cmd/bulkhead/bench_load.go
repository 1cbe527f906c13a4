package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

const (
	answerPerRound = 48               // tokens of each client's answer
	ownTokens      = 16               // of each prompt that no other client's has
	requestLimit   = 10 * time.Minute // of one request, so that no benchmark hangs
)

// server times streaming clients over HTTP on loopback, on two whole systems that share nothing but the weights. Prompts have
// a common beginning, which is in the cache after the first round, so that decoding is most of the time: that is where
// guards could cost.
func (c *benchGuardsCmd) server(l *loaded, tokens, rounds int) (guardRatios, error) {
	on, err := newLoad(l, guarded(l.engine), c.PageTokens, c.Clients, tokens)
	if err != nil {
		return guardRatios{}, err
	}
	defer on.close()
	shared, err := l.engine.Share(c.options(nil))
	if err != nil {
		return guardRatios{}, err
	}
	defer shared.Close()
	other := *l
	other.engine = shared
	off, err := newLoad(&other, unguarded(shared), c.PageTokens, c.Clients, tokens)
	if err != nil {
		return guardRatios{}, err
	}
	defer off.close()
	return inRounds(rounds, on, off)
}

// load is a system that listens, and its clients.
type load struct {
	measured
	system *system
	server *http.Server
	served chan error
	url    string
	bodies [][]byte
}

func newLoad(l *loaded, g guards, pageTokens, clients, tokens int) (*load, error) {
	layout := l.engine.Layout(pageTokens)
	window := bulkhead.Tokens(tokens + answerPerRound)
	pool := bulkhead.Tokens(layout.Pages(window)*(clients+1)) * bulkhead.Tokens(layout.PageTokens)
	limits := bulkhead.Limits{Window: window, ModelWindow: window, PrefillPool: pool, DecodePool: pool, PageTokens: layout.PageTokens,
		Queue: clients, QueueTenant: clients, Running: clients, Chunk: 512, DrainTimeout: time.Second}
	sys, err := newSystem(l, g, limits, layout, systemOptions{log: slog.New(slog.DiscardHandler), maxBody: 64 << 20})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		sys.pair.Close()
		return nil, err
	}
	b := &load{system: sys, server: sys.gateway.Server(), served: make(chan error, 1), url: "http://" + listener.Addr().String()}
	go func() { b.served <- b.server.Serve(listener) }()
	for i := range clients {
		b.bodies = append(b.bodies, completionBody(sys.model, l.engine.Info().Vocab, tokens, i))
	}
	return b, nil
}

func (b *load) close() {
	b.server.Close()
	<-b.served
	b.system.pair.Close()
}

// completionBody asks for an answer of fixed length to a prompt of tokens.
func completionBody(model string, vocab, tokens, client int) []byte {
	prompt := make([]int, tokens)
	for i := range prompt {
		prompt[i] = (i*7919 + 13) % vocab
		if i >= tokens-ownTokens {
			prompt[i] = (prompt[i] + client + 1) % vocab
		}
	}
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "max_tokens": answerPerRound,
		"temperature": 0, "ignore_eos": true, "stream": true})
	if err != nil {
		panic(err) // plain values
	}
	return body
}

// round lets every client ask once, all at the same time.
func (b *load) round() error {
	var wg sync.WaitGroup
	gaps, errs := make([][]time.Duration, len(b.bodies)), make([]error, len(b.bodies))
	start := time.Now()
	for i, body := range b.bodies {
		wg.Go(func() { gaps[i], errs[i] = ask(b.url, body) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	var all []time.Duration
	for i, err := range errs {
		if err != nil {
			return err
		}
		all = append(all, gaps[i]...)
	}
	b.perSecond = append(b.perSecond, float64(answerPerRound*len(b.bodies))/elapsed.Seconds())
	b.gaps = append(b.gaps, all)
	return nil
}

// ask sends a streaming request and times the gaps between its events, the wait for the first one left out.
func ask(url string, body []byte) (gaps []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	if resp.StatusCode != http.StatusOK {
		events.Scan()
		return nil, fmt.Errorf("HTTP %d: %s", resp.StatusCode, events.Text())
	}
	var last time.Time
	done := false
	for events.Scan() {
		data, ok := bytes.CutPrefix(events.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if bytes.HasPrefix(data, []byte(`{"error"`)) {
			return nil, fmt.Errorf("in the stream: %s", data)
		}
		done = done || bytes.Equal(data, []byte("[DONE]"))
		now := time.Now()
		if !last.IsZero() && !done {
			gaps = append(gaps, now.Sub(last))
		}
		last = now
	}
	if err := events.Err(); err != nil {
		return nil, err
	}
	if !done || len(gaps) == 0 {
		return nil, fmt.Errorf("the stream ended early, after %d gaps", len(gaps))
	}
	return gaps, nil
}
