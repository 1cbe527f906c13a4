package trust

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// ServerTLS lets in peers that show a certificate of our authorities for one of the allowed roles, and nobody else. With no
// role it lets nobody in.
func (n *Node) ServerTLS(allowed ...Role) *tls.Config {
	c := n.config()
	c.ClientAuth = tls.RequireAnyClientCert // the chain is checked in VerifyConnection, against the authorities of that moment
	c.VerifyConnection = func(s tls.ConnectionState) error {
		peer, err := n.verified(s, x509.ExtKeyUsageClientAuth)
		if err == nil && !slices.Contains(allowed, peer.Role) {
			err = fmt.Errorf("%w: %s may not connect here, only %v", ErrPeer, peer, allowed)
		}
		return err
	}
	return c
}

// ClientTLS speaks only to a node of this role and, unless name is "", of this name. Where the name is known it is to be said:
// without it any node of the role can stand in for another.
func (n *Node) ClientTLS(role Role, name string) *tls.Config {
	c := n.config()
	c.InsecureSkipVerify = true // of the library's own checks, which are by host name; VerifyConnection makes all of ours
	c.VerifyConnection = func(s tls.ConnectionState) error {
		peer, err := n.verified(s, x509.ExtKeyUsageServerAuth)
		switch {
		case err != nil:
			return err
		case peer.Role != role:
			return fmt.Errorf("%w: it is %s, and a %s is wanted", ErrPeer, peer, role)
		case name != "" && peer.Name != name:
			return fmt.Errorf("%w: it is %s, and %s is wanted", ErrPeer, peer, Subject{role, name})
		}
		return nil
	}
	return c
}

// config is what both ends have in common. Certificates are asked for at every handshake, so that replaced ones are shown.
func (n *Node) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &n.current().cert, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &n.current().cert, nil
		},
		SessionTicketsDisabled: true,
	}
}

// verified is who the peer is, after its chain was checked. The handshake has shown already that it holds the key.
func (n *Node) verified(s tls.ConnectionState, usage x509.ExtKeyUsage) (Subject, error) {
	role, name, err := PeerOf(s)
	if err != nil {
		return Subject{}, err
	}
	peer := Subject{role, name}
	if err := verify(s.PeerCertificates, n.current().roots, usage, time.Now()); err != nil {
		return Subject{}, fmt.Errorf("%w: it says that it is %s: %w", ErrPeer, peer, err)
	}
	return peer, nil
}
