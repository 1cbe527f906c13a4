package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// query is what a script asks a server.
type query struct {
	header       http.Header
	tls          string     // directory of the node that asks
	role         trust.Role // of the node that is asked
	method, path string
	body         string
	hasBody      bool
}

func parseQuery(ts *testscript.TestScript, args []string) (q query) {
	q.header = http.Header{}
	for len(args) > 1 && (args[0] == "-H" || args[0] == "-T") {
		if args[0] == "-T" && len(args) > 2 {
			q.tls, q.role = filepath.Join(ts.Getenv("WORK"), args[1]), trust.Role(args[2])
			args = args[1:]
		} else {
			key, value, _ := strings.Cut(args[1], ":")
			q.header.Add(key, strings.TrimSpace(value))
		}
		args = args[2:]
	}
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: http [-H LINE]... [-T DIR ROLE] METHOD PATH|URL [BODY]")
	}
	q.method, q.path = args[0], args[1]
	if !strings.Contains(q.path, "://") {
		q.path = ts.Getenv("URL") + q.path
	}
	if len(args) == 3 {
		q.body, q.hasBody = args[2], true
		q.header.Set("Content-Type", "application/json")
	}
	return q
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	answer, err := parseQuery(ts, args).send(ts)
	switch {
	case neg && err == nil:
		ts.Fatalf("it was answered:\n%s", answer)
	case neg:
		fmt.Fprintln(ts.Stderr(), err)
		return
	}
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), answer)
}

// cmdAwait asks until the answer is 200.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	q := parseQuery(ts, args)
	var answer string
	var err error
	for start := time.Now(); !neg && time.Since(start) < startLimit; time.Sleep(50 * time.Millisecond) {
		if answer, err = q.send(ts); err == nil && strings.HasPrefix(answer, "HTTP 200") {
			return
		}
	}
	ts.Fatalf("no 200 after %v: %v\n%s", startLimit, err, answer)
}

// send gives status line, headers and body.
func (q query) send(ts *testscript.TestScript) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if q.tls != "" {
		node, err := trust.Load(q.tls, nil)
		ts.Check(err)
		transport.TLSClientConfig = node.ClientTLS(q.role, "")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var body io.Reader
	if q.hasBody {
		body = strings.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.path, body)
	ts.Check(err)
	req.Header = q.header
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP %d\n", resp.StatusCode)
	ts.Check(resp.Header.Write(&out))
	fmt.Fprintln(&out)
	_, err = io.Copy(&out, resp.Body)
	return out.String(), err
}
