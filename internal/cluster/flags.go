package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
			args = append(args, "--"+string(w.Role), c.scheme(w)+"://"+w.Addr())
		}
	}
	if c.cfg.TLS {
		args = append(args, "--tls-dir", c.certDir(n.Name))
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

func (c *Cluster) certDir(name string) string { return filepath.Join(c.cfg.Dir, "tls", name) }

// certify makes the CA and a certificate for every node.
func (c *Cluster) certify(ctx context.Context) error {
	args := []string{"certs", "--dir", filepath.Join(c.cfg.Dir, "tls")}
	for _, n := range c.Nodes() {
		args = append(args, n.Name)
	}
	if out, err := exec.CommandContext(ctx, c.cfg.Binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("bulkhead certs: %w\n%s", err, out)
	}
	return nil
}

// workerClient asks the workers what a gateway asks them, with a gateway's certificate where they want one.
func (c *Cluster) workerClient() (*http.Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 2}
	if c.cfg.TLS {
		dir := c.certDir(c.Gateway.Name)
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("cluster: ca.crt holds no certificate")
		}
		transport.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13}
	}
	return &http.Client{Transport: transport}, nil
}

// goBuild builds the command into binary.
func goBuild(ctx context.Context, root, binary string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/bulkhead")
	cmd.Dir = root
	return cmd.CombinedOutput()
}
