package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Role is what a node is.
type Role string

// The roles, by the names of their commands.
const (
	Prefill Role = "prefill"
	Decode  Role = "decode"
	Gateway Role = "gateway"
)

// Config says what to start.
type Config struct {
	Binary          string // bulkhead
	Dir             string // for logs and certificates; it exists
	Prefill, Decode int    // workers; at least one of each
	NoGateway       bool   // another router stands in front
	TLS             bool   // mutual TLS between all of them, with a CA made by `bulkhead certs`

	Network *Network // nil: all on loopback

	WorkerFlags, GatewayFlags []string // beside those for addresses, certificates and each other
}

// Node is one of the cluster's places: a name and an address, and the process that is there now.
type Node struct {
	Role    Role
	Name    string // prefill-0
	Host    string
	Port    int // HTTP
	Handoff int // of a prefill worker: where decode pulls from

	place    *Place // nil: loopback
	launcher *launcher
	starts   int

	mu      sync.Mutex
	process *Process
}

// Addr is host:port of the node's HTTP server.
func (n *Node) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// HandoffAddr is host:port where a prefill worker is pulled from.
func (n *Node) HandoffAddr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Handoff)) }

// Process is what runs there, or ran last.
func (n *Node) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Place is the node's namespace; nil on loopback.
func (n *Node) Place() *Place { return n.place }

// Cluster is what was started.
type Cluster struct {
	Workers []*Node
	Gateway *Node // nil with NoGateway

	cfg     Config
	clients map[Role]*http.Client // for the nodes' HTTP servers
}

// startLimit is how long a process may take from its start until it answers.
const startLimit = 60 * time.Second

// Start starts all and returns when the gateway serves, or the workers where there is none.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if cfg.Prefill < 1 || cfg.Decode < 1 {
		return nil, fmt.Errorf("cluster: %d prefill and %d decode workers: at least one of each is needed", cfg.Prefill, cfg.Decode)
	}
	c := &Cluster{cfg: cfg}
	if err := c.plan(); err != nil {
		return nil, err
	}
	credentials := c.share
	if cfg.TLS {
		credentials = func() error { return c.certify(ctx) }
	}
	if err := credentials(); err != nil {
		return nil, err
	}
	if c.clients, err = c.nodeClients(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, n := range c.Workers {
		if err := c.launch(n); err != nil {
			return nil, err
		}
	}
	for _, n := range c.Workers {
		if err := c.Ready(ctx, n); err != nil {
			return nil, err
		}
	}
	if c.Gateway == nil {
		return c, nil
	}
	if err := c.launch(c.Gateway); err != nil {
		return nil, err
	}
	return c, c.Ready(ctx, c.Gateway)
}

// plan gives every node its name, namespace and ports.
func (c *Cluster) plan() error {
	given := make(map[int]bool)
	node := func(role Role, i int) (*Node, error) {
		n := &Node{Role: role, Name: fmt.Sprintf("%s-%d", role, i), Host: "127.0.0.1", launcher: here}
		if c.cfg.Network != nil {
			place, err := c.cfg.Network.Add(n.Name)
			if err != nil {
				return nil, err
			}
			// Nothing else is in the namespace, so any port is free.
			n.place, n.launcher, n.Host, n.Port, n.Handoff = place, place.launcher, place.IP, 8080, 9080
			return n, nil
		}
		var err error
		if n.Port, err = freePort(n.Host, given); err == nil && role == Prefill {
			n.Handoff, err = freePort(n.Host, given)
		}
		return n, err
	}
	for _, group := range []struct {
		role Role
		n    int
	}{{Prefill, c.cfg.Prefill}, {Decode, c.cfg.Decode}} {
		for i := range group.n {
			n, err := node(group.role, i)
			if err != nil {
				return err
			}
			c.Workers = append(c.Workers, n)
		}
	}
	if c.cfg.NoGateway {
		return nil
	}
	var err error
	c.Gateway, err = node(Gateway, 0)
	return err
}

// launch starts the node's process.
func (c *Cluster) launch(n *Node) error {
	p, err := n.launcher.start(n.Name, c.logPath(n), append([]string{c.cfg.Binary}, c.args(n)...), nil)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
	n.starts++
	return nil
}

func (c *Cluster) logPath(n *Node) string { return filepath.Join(c.cfg.Dir, n.Name+".log") }

// Restart starts the node's process again, once the last one has ended, and returns when it answers.
func (c *Cluster) Restart(ctx context.Context, n *Node) error {
	if p := n.Process(); p.Alive() {
		return fmt.Errorf("cluster: %s is still running", n.Name)
	}
	if err := c.launch(n); err != nil {
		return err
	}
	return c.Ready(ctx, n)
}

// Roles are the workers of a role.
func (c *Cluster) Roles(role Role) (nodes []*Node) {
	for _, n := range c.Workers {
		if n.Role == role {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Nodes are the workers and the gateway.
func (c *Cluster) Nodes() []*Node {
	if c.Gateway == nil {
		return c.Workers
	}
	return append([]*Node{c.Gateway}, c.Workers...)
}

// URL is where clients ask: the gateway's.
func (c *Cluster) URL() string { return c.url(c.Gateway) }

// Drain asks every process to end, the gateway first, and reports those that did not do so by themselves with exit code 0.
func (c *Cluster) Drain(limit time.Duration) error {
	var all []error
	for _, n := range c.Nodes() {
		if p := n.Process(); p.Alive() {
			all = append(all, p.Terminate(limit))
		} else {
			all = append(all, fmt.Errorf("%s had ended before: %w", n.Name, p.err))
		}
	}
	return errors.Join(all...)
}

// Close ends every process at once.
func (c *Cluster) Close() {
	for _, n := range c.Nodes() {
		if p := n.Process(); p != nil {
			p.Kill()
		}
	}
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}

// Build builds the command once and gives the binary's path.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "bulkhead")
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	out, err := goBuild(ctx, root, binary)
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// moduleRoot is the folder of go.mod, at or above the current one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("cluster: no go.mod here or above: run it in the checkout")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
