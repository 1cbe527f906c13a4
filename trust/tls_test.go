package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestMutual(t *testing.T) {
	p := newPlace(t)
	gateway, worker := p.node(Gateway, "gw"), p.node(Prefill, "p1")
	s, serverErr, clientErr := meet(t, worker.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p1"))
	if serverErr != nil || clientErr != nil {
		t.Fatal(serverErr, clientErr)
	}
	if s.Version != tls.VersionTLS13 {
		t.Errorf("version %x", s.Version)
	}
	if role, name, err := PeerOf(s); role != Gateway || name != "gw" || err != nil {
		t.Error(role, name, err)
	}
	if _, serverErr, clientErr = meet(t, worker.ServerTLS(Decode, Gateway), gateway.ClientTLS(Prefill, "")); serverErr != nil || clientErr != nil {
		t.Error("any name, second role:", serverErr, clientErr)
	}
}

// Every peer that is not the one that is meant is refused, by whichever end is to refuse it.
func TestPeersRefused(t *testing.T) {
	p, foreign := newPlace(t), newPlace(t)
	gateway, worker, other := p.node(Gateway, "gw"), p.node(Prefill, "p1"), p.node(Decode, "d1")
	stranger, fake := foreign.node(Gateway, "gw"), foreign.node(Prefill, "p1")
	past, future := grant(Gateway, "late"), grant(Gateway, "early")
	past.NotAfter = time.Now().Add(-time.Second)
	future.NotBefore = time.Now().Add(time.Hour)

	naked := gateway.ClientTLS(Prefill, "p1")
	naked.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	old := gateway.ClientTLS(Prefill, "p1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12

	for _, c := range []struct {
		what           string
		server, client *tls.Config
		by             string // which end refuses
		says           string
	}{
		{"the client's authority is another", worker.ServerTLS(Gateway), unchecked(stranger.ClientTLS(Prefill, "p1")), "server", "unknown authority"},
		{"the server's authority is another", fake.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p1"), "client", "unknown authority"},
		{"the client's role is another", worker.ServerTLS(Gateway), other.ClientTLS(Prefill, "p1"), "server", "decode d1 may not connect here"},
		{"nobody is allowed", worker.ServerTLS(), gateway.ClientTLS(Prefill, "p1"), "server", "may not connect here"},
		{"the server's role is another", other.ServerTLS(Gateway), gateway.ClientTLS(Prefill, ""), "client", "it is decode d1, and a prefill is wanted"},
		{"the server's name is another", worker.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p2"), "client", "prefill p2 is wanted"},
		{"the client has expired", worker.ServerTLS(Gateway), forced(p, past, gateway.ClientTLS(Prefill, "p1")), "server", "expired"},
		{"the client is not valid yet", worker.ServerTLS(Gateway), forced(p, future, gateway.ClientTLS(Prefill, "p1")), "server", "not yet valid"},
		{"the client has no certificate", worker.ServerTLS(Gateway), naked, "server", "didn't provide a certificate"},
		{"the client speaks TLS 1.2", worker.ServerTLS(Gateway), old, "server", "version"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, serverErr, clientErr := meet(t, c.server, c.client)
			if serverErr == nil || clientErr == nil {
				t.Fatal("they met:", serverErr, clientErr)
			}
			err := serverErr
			if c.by == "client" {
				err = clientErr
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the %s says %q, and should say %q", c.by, err, c.says)
			}
			if library := c.says == "didn't provide a certificate" || c.says == "version"; errors.Is(err, ErrPeer) == library {
				t.Errorf("%q: ErrPeer is %v", err, !library)
			}
		})
	}
}

// unchecked is a client that takes any server.
func unchecked(c *tls.Config) *tls.Config {
	c.VerifyConnection = nil
	return c
}

// forced is a client that shows the certificate of g, which Load would refuse.
func forced(p *place, g Grant, c *tls.Config) *tls.Config {
	dir := p.issue(g)
	cert, err := tls.LoadX509KeyPair(dir+"/"+FileCert, dir+"/"+FileKey)
	if err != nil {
		p.t.Fatal(err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return c
}

func TestPlaintextClientRefused(t *testing.T) {
	worker := newPlace(t).node(Prefill, "p1")
	_, serverErr, _ := join(t,
		func(c net.Conn) (tls.ConnectionState, error) {
			return exchange(tls.Server(c, worker.ServerTLS(Gateway)))
		},
		func(c net.Conn) error { _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); return err })
	if serverErr == nil || !strings.Contains(serverErr.Error(), "first record does not look like a TLS handshake") {
		t.Fatal(serverErr)
	}
}

// A client that knows nothing of roles finds the host in the certificate.
func TestHostNamesForOthers(t *testing.T) {
	p := newPlace(t)
	worker, gateway := p.node(Prefill, "p1"), p.node(Gateway, "gw")
	c := gateway.ClientTLS(Prefill, "p1")
	c.VerifyConnection, c.InsecureSkipVerify, c.RootCAs = nil, false, gateway.current().roots
	for host, ok := range map[string]bool{"localhost": true, "127.0.0.1": true, "elsewhere": false} {
		c := c.Clone()
		c.ServerName = host
		_, _, err := meet(t, worker.ServerTLS(Gateway), c)
		if (err == nil) != ok {
			t.Error(host, err)
		}
	}
}

func TestPeerOfNobody(t *testing.T) {
	if _, _, err := PeerOf(tls.ConnectionState{}); !errors.Is(err, ErrPeer) {
		t.Error(err)
	}
	if _, _, err := PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}); !errors.Is(err, ErrPeer) {
		t.Error(err)
	}
}

// No ticket lets a peer come back without a proof.
func TestNoResumption(t *testing.T) {
	p := newPlace(t)
	worker, gateway := p.node(Prefill, "p1"), p.node(Gateway, "gw")
	c := gateway.ClientTLS(Prefill, "p1")
	c.ClientSessionCache, c.ServerName = tls.NewLRUClientSessionCache(4), "p1"
	for range 3 {
		s, serverErr, clientErr := meet(t, worker.ServerTLS(Gateway), c)
		if serverErr != nil || clientErr != nil || s.DidResume {
			t.Fatal(serverErr, clientErr, s.DidResume)
		}
	}
}
