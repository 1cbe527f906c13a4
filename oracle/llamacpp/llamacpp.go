// Package llamacpp asks llama.cpp what it would answer, and how fast: an engine that nobody here wrote, as the judge of ours.
//
// It runs oracle.mjs under Node with the prebuilt llama.cpp of the npm package node-llama-cpp, which
// scripts/fetch-llamacpp installs outside the checkout. It is for tests and benchmarks; nothing that serves imports it.
package llamacpp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// ErrMissing says that Node or the oracle's folder is not there.
var ErrMissing = errors.New("llama.cpp is not installed: run scripts/fetch-llamacpp (it needs Node and npm)")

// Oracle is one running llama.cpp with one model. It is for one caller at a time.
type Oracle struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Open starts llama.cpp from the folder that scripts/fetch-llamacpp printed and loads a model.
func Open(dir, model string, threads int, context bulkhead.Tokens) (*Oracle, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, ErrMissing
	}
	script := filepath.Join(dir, "oracle.mjs")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "node-llama-cpp")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	cmd := exec.Command(node, script)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	o := &Oracle{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	model, err = filepath.Abs(model)
	if err == nil {
		err = o.ask(map[string]any{"op": "open", "model": model, "threads": threads, "context": context}, &struct{}{})
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Close ends llama.cpp.
func (o *Oracle) Close() error {
	_ = o.ask(map[string]any{"op": "close"}, &struct{}{})
	o.in.Close()
	return o.cmd.Wait()
}

// Logprob is the log-probability of one token.
type Logprob struct {
	ID      bulkhead.Token `json:"id"`
	Logprob float64        `json:"logprob"`
}

// Greedy is the n likeliest next tokens, one after the other.
func (o *Oracle) Greedy(prompt []bulkhead.Token, n int) ([]bulkhead.Token, error) {
	var answer struct {
		IDs []bulkhead.Token `json:"ids"`
	}
	err := o.ask(map[string]any{"op": "greedy", "prompt": prompt, "n": n}, &answer)
	return answer.IDs, err
}

// Top is the k likeliest tokens to follow a prompt, best first.
func (o *Oracle) Top(prompt []bulkhead.Token, k int) ([]Logprob, error) {
	var answer struct {
		Top []Logprob `json:"top"`
	}
	err := o.ask(map[string]any{"op": "top", "prompt": prompt, "k": k}, &answer)
	return answer.Top, err
}

// Tokenize is the tokens of a text; with special, marks of control tokens in it become control tokens.
func (o *Oracle) Tokenize(text string, special bool) ([]bulkhead.Token, error) {
	var answer struct {
		IDs []bulkhead.Token `json:"ids"`
	}
	err := o.ask(map[string]any{"op": "tokenize", "text": text, "special": special}, &answer)
	return answer.IDs, err
}

// Speed is what one timed run took.
type Speed struct {
	Prefill, Decode time.Duration
	Decoded         int // tokens that Decode made
}

// Bench times the prompt without its last token, then n tokens of greedy decoding.
func (o *Oracle) Bench(prompt []bulkhead.Token, n int) (Speed, error) {
	var answer struct {
		Prefill float64 `json:"prefill_s"`
		Decode  float64 `json:"decode_s"`
		Decoded int     `json:"decoded"`
	}
	err := o.ask(map[string]any{"op": "bench", "prompt": prompt, "n": n}, &answer)
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return Speed{Prefill: seconds(answer.Prefill), Decode: seconds(answer.Decode), Decoded: answer.Decoded}, err
}

func (o *Oracle) ask(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := o.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("llama.cpp: %w", err)
	}
	line, err = o.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("llama.cpp ended: %w", err)
	}
	var failed struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(line, &failed) == nil && failed.Error != "" {
		return fmt.Errorf("llama.cpp: %s", failed.Error)
	}
	return json.Unmarshal(line, answer)
}
