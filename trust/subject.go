package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Role is what a node of the cluster does.
type Role string

// The roles. An operator reads what workers say of themselves and does not speak for tenants.
const (
	Gateway  Role = "gateway"
	Prefill  Role = "prefill"
	Decode   Role = "decode"
	Operator Role = "operator"
)

// Roles are all of them.
var Roles = []Role{Gateway, Prefill, Decode, Operator}

func (r Role) check() error {
	for _, known := range Roles {
		if r == known {
			return nil
		}
	}
	return fmt.Errorf("role %q: must be gateway, prefill, decode or operator", string(r))
}

// MaxName is the length of the longest name, in bytes.
const MaxName = 63

// CheckName refuses what is no name of a node: 1 to 63 of a-z, 0-9, "-" and ".", beginning and ending with a letter or a
// digit. A name is a directory, a part of a URI and a word in logs, and must need no quotes in any of them.
func CheckName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789"
	ok := len(name) >= 1 && len(name) <= MaxName &&
		strings.Trim(name, allowed+"-.") == "" &&
		strings.Contains(allowed, name[:1]) && strings.Contains(allowed, name[len(name)-1:]) &&
		!strings.Contains(name, "..")
	if !ok {
		return fmt.Errorf("%q is no name of a node: 1 to %d of a-z, 0-9, \"-\" and \".\", beginning and ending with a letter or a digit",
			name, MaxName)
	}
	return nil
}

// Subject is whom a certificate is for.
type Subject struct {
	Role Role
	Name string
}

func (s Subject) String() string { return string(s.Role) + " " + s.Name }

func (s Subject) check() error {
	if err := s.Role.check(); err != nil {
		return err
	}
	return CheckName(s.Name)
}

const (
	scheme = "spiffe"
	domain = "bulkhead"
)

// uri is how a certificate names the subject.
func (s Subject) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: domain, Path: "/" + string(s.Role) + "/" + s.Name}
}

// ErrPeer marks what keeps a peer out: no certificate, one that no authority of ours has issued, one of another role or name,
// or one that is not valid now.
var ErrPeer = errors.New("trust: peer refused")

// SubjectOf reads whom a certificate is for. Exactly one URI of ours must stand in it: a certificate is for one role.
func SubjectOf(c *x509.Certificate) (Subject, error) {
	var found []Subject
	for _, u := range c.URIs {
		if u.Scheme != scheme || u.Host != domain {
			continue
		}
		role, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		s := Subject{Role(role), name}
		if err := s.check(); err != nil {
			return Subject{}, fmt.Errorf("the URI %s: %w", u, err)
		}
		if *s.uri() != *u {
			return Subject{}, fmt.Errorf("the URI %s is not %s", u, s.uri())
		}
		found = append(found, s)
	}
	if len(found) != 1 {
		return Subject{}, fmt.Errorf("the certificate has %d URIs of the form spiffe://bulkhead/ROLE/NAME, and must have one", len(found))
	}
	return found[0], nil
}

// PeerOf says who is at the other end of a connection that was let in by a [Node]'s configuration. The error is an [ErrPeer]: the
// connection has no certificate, or one that names nobody.
func PeerOf(state tls.ConnectionState) (Role, string, error) {
	if len(state.PeerCertificates) == 0 {
		return "", "", fmt.Errorf("%w: it shows no certificate", ErrPeer)
	}
	s, err := SubjectOf(state.PeerCertificates[0])
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return s.Role, s.Name, nil
}
