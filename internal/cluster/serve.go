package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
)

// Server is `bulkhead serve`: the whole system in one process, on loopback.
type Server struct {
	URL     string
	Process *Process
}

// Serve starts one and returns when it answers.
func Serve(ctx context.Context, binary, dir string, flags ...string) (*Server, error) {
	port, err := freePort("127.0.0.1", map[int]bool{})
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := append([]string{binary, "serve", "--listen", addr}, flags...)
	p, err := Run("serve", filepath.Join(dir, "serve.log"), args, nil)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + addr, Process: p}
	if err := AwaitHealth(ctx, p, http.DefaultClient, s.URL, "/health"); err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

// AwaitHealth waits until GET of the path gives 200, or the process behind it has ended.
func AwaitHealth(ctx context.Context, p *Process, client *http.Client, url, path string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return p.await(ctx, func() error {
		_, err := fetch(ctx, client, url+path)
		return err
	})
}

// fetch is the body of a GET that must give 200.
func fetch(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: HTTP %d: %s", url, resp.StatusCode, body)
	}
	return string(body), nil
}
