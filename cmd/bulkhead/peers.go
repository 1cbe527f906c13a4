package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// peerFlags say how the nodes of a cluster know each other.
type peerFlags struct {
	TLSDir            fileName `name:"tls-dir" help:"Directory with ca.pem, node.pem, node-key.pem and secret.key, as made by bulkhead certs: mutual TLS with every other node." placeholder:"DIR"`
	SecretFile        fileName `help:"File with the cluster's secret, 32 bytes in hexadecimal or base64, where there is no --tls-dir." placeholder:"FILE"`
	InsecurePlaintext bool     `help:"Speak to other hosts without TLS. Whoever can listen or connect there reads and writes what tenants say."`
}

// peers is what a node is known by and knows others by.
type peers struct {
	name   string
	secret trust.Secret
	node   *trust.Node // nil: plaintext
}

// address is where a flag says to listen or to connect.
type address struct{ flag, host string }

// open reads the flags of a node. Plaintext that could leave this host is refused unless the operator says so.
func (f peerFlags) open(role trust.Role, where []address, log *slog.Logger) (*peers, error) {
	p, err := f.load(role, where, log)
	if err != nil {
		return nil, refused{err}
	}
	return p, nil
}

func (f peerFlags) load(role trust.Role, where []address, log *slog.Logger) (*peers, error) {
	switch {
	case f.TLSDir != "" && f.SecretFile != "":
		return nil, errors.New("--tls-dir and --secret-file: the directory has the secret in secret.key; give one of them")
	case f.TLSDir != "" && f.InsecurePlaintext:
		return nil, errors.New("--tls-dir and --insecure-plaintext contradict each other; give one of them")
	case f.TLSDir != "":
		return f.loadTLS(role, log)
	case f.SecretFile == "" && role == trust.Gateway:
		return &peers{}, f.checkPlaintext(where, log) // it keys nothing that anybody else must know
	case f.SecretFile == "":
		return nil, fmt.Errorf("no secret: give --tls-dir DIR (bulkhead certs --out tls %s/NAME makes one), or on one host --secret-file FILE (openssl rand -hex 32 makes one)", role)
	}
	secret, err := trust.LoadSecret(string(f.SecretFile))
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	if err := f.checkPlaintext(where, log); err != nil {
		return nil, err
	}
	return &peers{secret: secret}, nil
}

func (f peerFlags) loadTLS(role trust.Role, log *slog.Logger) (*peers, error) {
	node, err := trust.Load(string(f.TLSDir), log)
	if err != nil {
		return nil, fmt.Errorf("--tls-dir: %w", err)
	}
	if node.Role != role {
		return nil, fmt.Errorf("--tls-dir %s: the certificate is for %s, and this is a %s", f.TLSDir, node.Subject, role)
	}
	return &peers{name: node.Name, secret: node.Secret, node: node}, nil
}

// checkPlaintext refuses addresses that other hosts can reach, or that are on other hosts.
func (f peerFlags) checkPlaintext(where []address, log *slog.Logger) error {
	if f.InsecurePlaintext {
		log.Warn("plaintext: other nodes are believed without certificates, and what tenants say can be read and changed on the way")
		return nil
	}
	for _, a := range where {
		if !isLoopback(a.host) {
			return fmt.Errorf("--%s %s can be reached from other hosts, and without TLS whoever is in between reads and changes what tenants say: "+
				"give --tls-dir DIR, or an address of loopback, or --insecure-plaintext if the network itself is secured", a.flag, a.host)
		}
	}
	return nil
}

// announce logs what the node is to others.
func (p *peers) announce(log *slog.Logger) {
	if p.node == nil {
		log.Info("trust", "tls", false, "name", p.name)
		return
	}
	log.Info("trust", "tls", true, "name", p.name, "role", string(p.node.Role), "not_after", p.node.NotAfter())
}

// isLoopback says that a host, or the host of host:port, is this one and no other. A name is only believed where it is localhost.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// named settles the node's name: the certificate's, which a flag may repeat and not change, or the flag's, or one of its own.
func (p *peers) named(flag string, role trust.Role, listen string) error {
	switch {
	case p.node != nil && flag != "" && flag != p.node.Name:
		return refused{fmt.Errorf("--name %s: the certificate is for %s; leave --name out", flag, p.node.Subject)}
	case p.node != nil:
		return nil
	case flag == "":
		p.name = ownName(role, listen)
		return nil
	}
	if err := trust.CheckName(flag); err != nil {
		return refused{fmt.Errorf("--name: %w", err)}
	}
	p.name = flag
	return nil
}

// ownName is one that no other node has: role, host and port.
func ownName(role trust.Role, listen string) string {
	_, port, _ := net.SplitHostPort(listen)
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := fmt.Sprintf("%s-%.30s-%s", role, host, port)
	if trust.CheckName(name) != nil {
		return fmt.Sprintf("%s-%s", role, port)
	}
	return name
}
