package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// benchHandoffPeerCmd is the other process of bench handoff: where pages come from. It says on standard output where it
// listens, does what it is told on standard input, line by line, and ends with it.
type benchHandoffPeerCmd struct {
	Kind      string   `enum:"stream,pages" required:"" help:"What to send."`
	TLSDir    fileName `name:"tls-dir" required:"" help:"Certificates and secret." placeholder:"DIR"`
	Plaintext bool     `help:"No TLS all the same."`
	Shm       bool     `help:"Offer shared memory."`
}

// Run serves until standard input ends.
func (c *benchHandoffPeerCmd) Run(s *streams) error {
	if c.Kind == "stream" {
		return c.stream(os.Stdin, s.out)
	}
	return c.pages(os.Stdin, s.out)
}

// peer is such a process, or another one that keeps to the same manners.
type peer struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  chan string // lines of its output; closed at its end
	fault *strings.Builder
}

// peerLimit is how long a peer may take to answer a line.
const peerLimit = 60 * time.Second

// startPeer starts a program and gives its first line.
func startPeer(ctx context.Context, name string, env []string, args ...string) (*peer, string, error) {
	return runPeer(ctx, name, exec.Command(args[0], args[1:]...), env)
}

func runPeer(ctx context.Context, name string, cmd *exec.Cmd, env []string) (*peer, string, error) {
	p := &peer{name: name, cmd: cmd, said: make(chan string), fault: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.fault
	p.cmd.WaitDelay = time.Second
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.said <- lines.Text()
		}
		close(p.said)
	}()
	first, err := p.line(ctx, peerLimit)
	if err != nil {
		p.close()
		return nil, "", err
	}
	return p, first, nil
}

// ownPeer starts this program as a peer.
func ownPeer(ctx context.Context, kind string, flags ...string) (*peer, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, append([]string{"bench", "handoff-peer", "--kind", kind}, flags...)...)
	cmd.Args[0] = os.Args[0] // a test's binary is several commands, told apart by this
	return runPeer(ctx, "the sending process", cmd, nil)
}

// tell writes a line and gives the answer.
func (p *peer) tell(ctx context.Context, limit time.Duration, format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	return p.line(ctx, limit)
}

func (p *peer) line(ctx context.Context, limit time.Duration) (string, error) {
	select {
	case line, ok := <-p.said:
		if !ok {
			_ = p.cmd.Wait()
			return "", fmt.Errorf("%s ended: %s", p.name, strings.TrimSpace(p.fault.String()))
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(limit):
		return "", fmt.Errorf("%s does not answer within %v", p.name, limit)
	}
}

// close ends the process.
func (p *peer) close() {
	p.stdin.Close()
	kill := time.AfterFunc(3*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for range p.said {
	}
	_ = p.cmd.Wait() // how it ends does not matter any more
}
