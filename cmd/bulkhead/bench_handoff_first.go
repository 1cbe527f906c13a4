package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

// firstTokenPrompt is the length of the prompt, in tokens.
const firstTokenPrompt = 1000

// firstTokenAim is what the split may cost.
const firstTokenAim = 1.10

// firstTokenResult compares the time to the first token: gateway, prefill and decode as three processes, over serve.
type firstTokenResult struct {
	Model  string  `json:"model"`
	Prompt int     `json:"prompt_tokens"`
	Rounds int     `json:"rounds"`
	Split  spread  `json:"split_s"`
	Serve  spread  `json:"serve_s"`
	Ratio  spread  `json:"ratio"`
	AtMost float64 `json:"at_most"`
	Met    bool    `json:"met"`
}

func (r *firstTokenResult) print(w io.Writer) {
	fmt.Fprintf(w, "time to the first token of %d, %s, %d rounds: three processes %v s, serve %v s, ratio %v%s\n",
		r.Prompt, r.Model, r.Rounds, r.Split, r.Serve, r.Ratio, aim(&r.Met, fmt.Sprintf("at most %g", r.AtMost)))
}

// firstToken asks both systems in turn, each time with a prompt that no cache has. Both are idle while the other is asked.
func (c *benchHandoffCmd) firstToken(ctx context.Context, dir string, progress io.Writer) (*firstTokenResult, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	flags := []string{"--threads", strconv.Itoa(c.threads()), "--window", "2048"}
	var gatewayFlags []string // it takes only workers of its own model
	if c.Model != "" {
		model, err := filepath.Abs(string(c.Model))
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--model", model)
		gatewayFlags = []string{"--model", model}
	}
	if c.Kernels != "" {
		flags = append(flags, "--kernels", c.Kernels)
	}
	serve, err := cluster.Serve(ctx, binary, dir, append(slices.Clone(flags), "--prefill-pool", "8192", "--decode-pool", "8192")...)
	if err != nil {
		return nil, err
	}
	defer serve.Process.Kill()
	split, err := cluster.Start(ctx, cluster.Config{Binary: binary, Dir: dir, Prefill: 1, Decode: 1,
		WorkerFlags: append(slices.Clone(flags), "--pool", "8192"), GatewayFlags: gatewayFlags})
	if err != nil {
		return nil, err
	}
	defer split.Close()
	result := &firstTokenResult{Model: c.name(), Prompt: firstTokenPrompt, Rounds: c.rounds(40, 20), AtMost: firstTokenAim}
	var splitTook, serveTook []float64
	for round := -1; round < result.Rounds; round++ {
		ask := func(url string, took *[]float64) func() error {
			return func() error {
				d, err := timeFirstToken(ctx, url, uint64(round+1)) // the same prompt for both
				if round >= 0 {
					*took = append(*took, d.Seconds())
				}
				return err
			}
		}
		if err := inTurn(round, ask(split.URL(), &splitTook), ask(serve.URL, &serveTook)); err != nil {
			return nil, fmt.Errorf("time to the first token: %w", err)
		}
	}
	fmt.Fprintln(progress, "time to the first token done")
	result.Split, result.Serve, result.Ratio = spreadOf(splitTook), spreadOf(serveTook), ratios(splitTook, serveTook)
	result.Met = result.Ratio.Median <= firstTokenAim
	return result, nil
}

// timeFirstToken asks for two tokens after a prompt of random ids and times the first event that has text or the end.
func timeFirstToken(ctx context.Context, url string, seed uint64) (time.Duration, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	prompt := make([]int, firstTokenPrompt)
	for i := range prompt {
		prompt[i] = 300 + rng.IntN(200) // ordinary tokens in every vocabulary
	}
	body, err := json.Marshal(map[string]any{"model": "bulkhead", "prompt": prompt, "max_tokens": 2, "temperature": 0,
		"ignore_eos": true, "stream": true})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var first time.Duration
	done := false
	for events := bufio.NewScanner(resp.Body); events.Scan(); {
		data, ok := bytes.CutPrefix(events.Bytes(), []byte("data: "))
		switch {
		case resp.StatusCode != http.StatusOK || bytes.HasPrefix(data, []byte(`{"error"`)):
			return 0, fmt.Errorf("HTTP %d: %s", resp.StatusCode, events.Bytes())
		case ok && first == 0:
			first = time.Since(start)
		}
		done = done || bytes.Equal(data, []byte("[DONE]"))
	}
	if !done {
		return 0, fmt.Errorf("the stream ended early")
	}
	return first, nil
}
