package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/bulkhead-llm/bulkhead/sglang"
)

// client speaks to one worker. Requests and control (probes, aborts) have connections of their own, so that no number of
// requests keeps an abort from its worker.
type client struct {
	url           string
	work, control *http.Client
	conns         *conns
}

// newClient makes one; without TLS both configurations are nil. There are no proxies, redirects or HTTP/2: one connection
// carries one request, and closing it concerns no other.
func newClient(url string, work, control *tls.Config, t Timeouts) *client {
	all := &conns{dialer: net.Dialer{Timeout: t.Dial, KeepAlive: 5 * time.Second}, open: map[*conn]struct{}{}}
	over := func(secure *tls.Config, most int) *http.Client {
		return &http.Client{
			Transport: &http.Transport{
				DialContext:            all.dial,
				TLSClientConfig:        secure,
				TLSHandshakeTimeout:    t.Dial,
				TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
				DisableCompression:     true,
				MaxConnsPerHost:        most,
				MaxIdleConns:           maxIdleConns,
				MaxIdleConnsPerHost:    maxIdleConns,
				IdleConnTimeout:        30 * time.Second,
				MaxResponseHeaderBytes: maxHeaders,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &client{url: url, work: over(work, maxConns), control: over(control, maxIdleConns), conns: all}
}

// rest closes what is not in use.
func (c *client) rest() {
	c.work.CloseIdleConnections()
	c.control.CloseIdleConnections()
}

// prefill sends a request to a prefill worker and waits for its answer.
func (c *client) prefill(ctx context.Context, body []byte) outcome {
	resp, err := c.generate(ctx, body)
	if err != nil {
		return *err
	}
	defer resp.Body.Close()
	data, o := readBody(ctx, resp)
	if o != nil {
		return *o
	}
	m, failure, perr := parseAnswer(data)
	switch {
	case perr != nil:
		return garbled(perr)
	case failure != nil:
		return errorOutcome(resp.StatusCode, resp.Header, failure)
	case m.Meta.FinishReason == nil:
		return garbled(errors.New("its answer has no finish_reason"))
	case m.Meta.FinishReason.Type == "abort":
		return outcome{kind: aborted, prompt: m.Meta.PromptTokens, cached: -1, detail: m.Meta.FinishReason.Message}
	}
	return outcome{kind: done, prompt: m.Meta.PromptTokens, cached: m.Meta.CachedTokens}
}

// decode sends a request to a decode worker and hands over each event of its answer. With the last, or after it, comes the end:
// last is the event that says how the answer ended, or nil where o says it.
func (c *client) decode(ctx context.Context, body []byte, each func(*sglang.Answer)) (last *sglang.Answer, o outcome) {
	resp, err := c.generate(ctx, body)
	if err != nil {
		return nil, *err
	}
	defer resp.Body.Close()
	events := newEventReader(resp.Body)
	for {
		data, err := events.next()
		if err != nil {
			return nil, streamError(ctx, err)
		}
		m, failure, perr := parseAnswer(data)
		switch {
		case perr != nil:
			return nil, garbled(perr)
		case failure != nil:
			return nil, errorOutcome(resp.StatusCode, resp.Header, failure)
		case m.Meta.FinishReason != nil:
			finishBody(resp.Body)
			return m, outcome{}
		}
		each(m)
	}
}

// finishBody reads what is behind the last event, so that the connection can be used again, and does not wait for it.
func finishBody(body io.ReadCloser) {
	timer := time.AfterFunc(50*time.Millisecond, func() { body.Close() })
	defer timer.Stop()
	io.CopyN(io.Discard, body, 1<<10)
}

// streamError is the end of a stream that had no last event.
func streamError(ctx context.Context, err error) outcome {
	switch {
	case errors.Is(err, errLine):
		return garbled(err)
	case ctx.Err() != nil:
		return outcome{kind: dropped, detail: err.Error(), prompt: -1, cached: -1}
	}
	return outcome{kind: cut, detail: "the stream ended before its last event: " + err.Error(), prompt: -1, cached: -1}
}

// generate sends a request; the error is how it ended where there is no answer to be read.
func (c *client) generate(ctx context.Context, body []byte) (*http.Response, *outcome) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	resp, err := post(ctx, c.work, c.url+"/generate", body)
	if err != nil {
		o := outcome{kind: unreached, detail: err.Error(), prompt: -1, cached: -1}
		if ctx.Err() != nil {
			o.kind = dropped
		} else if sent.Load() {
			o.kind = cut
		}
		return nil, &o
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, o := readBody(ctx, resp)
	if o != nil {
		return nil, o
	}
	failure := &sglang.Failure{}
	if json.Unmarshal(data, failure) != nil {
		failure = &sglang.Failure{}
	}
	out := errorOutcome(resp.StatusCode, resp.Header, failure)
	return nil, &out
}

func post(ctx context.Context, c *http.Client, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.Do(req)
}

func readBody(ctx context.Context, resp *http.Response) ([]byte, *outcome) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &outcome{kind: dropped, detail: err.Error(), prompt: -1, cached: -1}
	case err != nil:
		return nil, &outcome{kind: cut, detail: err.Error(), prompt: -1, cached: -1}
	case len(data) > maxAnswer:
		o := garbled(fmt.Errorf("its answer has more than %d bytes", maxAnswer))
		return nil, &o
	}
	return data, nil
}

// abort tells the worker to stop the request of this whole id.
func (c *client) abort(ctx context.Context, rid string) error {
	body, err := json.Marshal(sglang.Abort{Rid: rid})
	if err != nil {
		return err
	}
	resp, err := post(ctx, c.control, c.url+"/abort_request", body)
	if err != nil {
		return err
	}
	return drained(resp)
}

// drained reads a small answer and says whether it is a success.
func drained(resp *http.Response) error {
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, maxInfo); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// info asks the worker what it is.
func (c *client) info(ctx context.Context) (*sglang.ServerInfo, *tls.ConnectionState, error) {
	resp, err := c.get(ctx, "/server_info")
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxInfo+1))
	switch {
	case err != nil:
		return nil, nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("GET /server_info: status %d", resp.StatusCode)
	case len(data) > maxInfo:
		return nil, nil, fmt.Errorf("GET /server_info: more than %d bytes", maxInfo)
	}
	var info sglang.ServerInfo
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, nil, fmt.Errorf("GET /server_info: %w", err)
	}
	return &info, resp.TLS, nil
}

// health has the worker compute something.
func (c *client) health(ctx context.Context) error {
	resp, err := c.get(ctx, "/health_generate")
	if err != nil {
		return err
	}
	if err := drained(resp); err != nil {
		return fmt.Errorf("GET /health_generate: %w", err)
	}
	return nil
}

func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	return c.control.Do(req)
}
