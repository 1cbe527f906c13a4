package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// errNotHere marks what is not installed.
var errNotHere = errors.New("not installed")

// iperf is iperf3 on loopback: one stream, one message a write, a server process and one client process a round.
type iperf struct {
	path   string
	port   int
	server *peer
	size   int
}

func newIperf(ctx context.Context, size int) (*iperf, error) {
	path, err := exec.LookPath("iperf3")
	if err != nil {
		return nil, fmt.Errorf("%w: the Debian package iperf3", errNotHere)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	// It prints a line before it listens; the first client tries until it is let in.
	server, _, err := startPeer(ctx, "iperf3", nil, path, "-s", "-B", "127.0.0.1", "-p", strconv.Itoa(port), "--forceflush")
	if err != nil {
		return nil, err
	}
	go func() {
		for range server.said {
		}
	}()
	return &iperf{path: path, port: port, server: server, size: size}, nil
}

// iperfRate is about how many bytes iperf3 moves in a second, to ask it for what takes so long: its own clock knows whole
// seconds only.
const iperfRate = 3e9

func (i *iperf) move(ctx context.Context, d time.Duration) (int64, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d+peerLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, i.path, "-c", "127.0.0.1", "-p", strconv.Itoa(i.port), "-l", strconv.Itoa(i.size),
		"-n", strconv.FormatInt(int64(d.Seconds()*iperfRate), 10), "-J").Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	var report struct {
		End struct {
			Received struct {
				Bytes   int64   `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, 0, err
	}
	r := report.End.Received
	if r.Bytes <= 0 || r.Seconds <= 0 {
		return 0, 0, fmt.Errorf("it moved nothing: %s", out)
	}
	return r.Bytes, time.Duration(r.Seconds * float64(time.Second)), nil
}

func (i *iperf) close() {
	_ = i.server.cmd.Process.Kill() // it does not look at its input
	i.server.stdin.Close()
	_ = i.server.cmd.Wait()
}

// mooncake is Mooncake's TCP transport between two Python processes: one registers pages, the other reads them.
type mooncake struct{ target, initiator *peer }

func newMooncake(ctx context.Context, dir string, pages, size int) (*mooncake, error) {
	if dir == "" {
		dir = filepath.Join(cacheDir(), "oracle-mooncake")
	}
	python, script := filepath.Join(dir, "bin", "python"), filepath.Join(dir, "peer.py")
	if _, err := os.Stat(python); err != nil {
		return nil, fmt.Errorf("%w: run scripts/fetch-mooncake", errNotHere)
	}
	env := []string{"MC_FORCE_TCP=1"}
	target, first, err := startPeer(ctx, "mooncake's target", env, python, script, "serve", strconv.Itoa(pages), strconv.Itoa(size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: scripts/fetch-mooncake says which Debian packages it needs", errNotHere, err)
	}
	var port, address uint64
	if _, err := fmt.Sscan(first, &port, &address); err != nil {
		target.close()
		return nil, fmt.Errorf("mooncake's target says %q: %w", first, err)
	}
	initiator, _, err := startPeer(ctx, "mooncake's initiator", env, python, script, "pull",
		strconv.FormatUint(port, 10), strconv.FormatUint(address, 10), strconv.Itoa(pages), strconv.Itoa(size))
	if err != nil {
		target.close()
		return nil, err
	}
	return &mooncake{target, initiator}, nil
}

func (m *mooncake) move(ctx context.Context, d time.Duration) (int64, time.Duration, error) {
	line, err := m.initiator.tell(ctx, d+peerLimit, "%f", d.Seconds())
	if err != nil {
		return 0, 0, err
	}
	var bytes int64
	var seconds float64
	if _, err := fmt.Sscan(line, &bytes, &seconds); err != nil {
		return 0, 0, fmt.Errorf("it says %q: %w", line, err)
	}
	return bytes, time.Duration(seconds * float64(time.Second)), nil
}

func (m *mooncake) close() {
	m.initiator.close()
	m.target.close()
}

// cacheDir is where the fetch scripts install.
func cacheDir() string {
	if dir := os.Getenv("BULKHEAD_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "bulkhead")
}
