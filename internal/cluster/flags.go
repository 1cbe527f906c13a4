package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// args are the command line of a node, without the binary.
func (c *Cluster) args(n *Node) []string {
	args := []string{string(n.Role), "--listen", n.Addr()}
	switch n.Role {
	case Prefill:
		args = append(args, "--name", n.Name, "--handoff-listen", n.HandoffAddr())
	case Decode:
		args = append(args, "--name", n.Name)
	case Gateway:
		for _, w := range c.Workers {
			args = append(args, "--"+string(w.Role), w.Name+"="+c.url(w))
		}
	}
	switch {
	case c.cfg.TLS:
		args = append(args, "--tls-dir", c.certDir(n.Name))
	case n.Role != Gateway:
		args = append(args, "--secret-file", c.secretPath())
	}
	if n.Role == Gateway {
		return append(args, c.cfg.GatewayFlags...)
	}
	return append(args, c.cfg.WorkerFlags...)
}

// scheme is how a node's HTTP server is spoken to. The gateway's clients speak plain HTTP.
func (c *Cluster) scheme(n *Node) string {
	if c.cfg.TLS && n.Role != Gateway {
		return "https"
	}
	return "http"
}

// url is where a node's HTTP server is.
func (c *Cluster) url(n *Node) string { return c.scheme(n) + "://" + n.Addr() }

// observer is the name that this program has in the cluster, as an operator.
const observer = "observer"

func (c *Cluster) certDir(name string) string { return filepath.Join(c.cfg.Dir, "tls", name) }

// certify makes the CA and a certificate for every node.
func (c *Cluster) certify(ctx context.Context) error {
	args := []string{"certs", "--out", filepath.Join(c.cfg.Dir, "tls")}
	for _, n := range c.Nodes() {
		args = append(args, string(n.Role)+"/"+n.Name+"@"+n.Host)
	}
	args = append(args, "operator/"+observer)
	if out, err := exec.CommandContext(ctx, c.cfg.Binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("bulkhead certs: %w\n%s", err, out)
	}
	return nil
}

func (c *Cluster) secretPath() string { return filepath.Join(c.cfg.Dir, "secret.key") }

// share makes the secret that workers without certificates have in common.
func (c *Cluster) share() error {
	secret := make([]byte, 32)
	rand.Read(secret)
	return os.WriteFile(c.secretPath(), []byte(hex.EncodeToString(secret)+"\n"), 0o600)
}

// nodeClients ask the nodes of each role, with an operator's certificate where they want one.
func (c *Cluster) nodeClients() (map[Role]*http.Client, error) {
	clients := map[Role]*http.Client{Gateway: {Transport: &http.Transport{}}}
	var node *trust.Node
	if c.cfg.TLS {
		var err error
		if node, err = trust.Load(c.certDir(observer), slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
	}
	for _, role := range []Role{Prefill, Decode} {
		transport := &http.Transport{}
		if node != nil {
			transport.TLSClientConfig = node.ClientTLS(trust.Role(role), "")
		}
		clients[role] = &http.Client{Transport: transport}
	}
	return clients, nil
}

// goBuild builds the command into binary.
func goBuild(ctx context.Context, root, binary string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/bulkhead")
	cmd.Dir = root
	return cmd.CombinedOutput()
}
