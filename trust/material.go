package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"time"
)

// material is what a node shows and believes: one consistent reading of its files.
type material struct {
	cert    tls.Certificate
	roots   *x509.CertPool
	subject Subject
	warned  bool // its end is near, and the log says so
}

// loadMaterial reads a directory. Everything is checked that a peer would check, so that a node which nobody would take does
// not start: chain, role, name, both usages and time.
func loadMaterial(dir string, now time.Time) (*material, error) {
	roots, err := loadRoots(filepath.Join(dir, FileCA))
	if err != nil {
		return nil, err
	}
	certPath, keyPath := filepath.Join(dir, FileCert), filepath.Join(dir, FileKey)
	certPEM, err := readPublic(certPath)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPrivate(keyPath)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", certPath, keyPath, err)
	}
	if err := checkKey(cert.Leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	m := &material{cert: cert, roots: roots}
	if m.subject, err = SubjectOf(cert.Leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	chain, err := parseChain(cert.Certificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if err := verify(chain, roots, usage, now); err != nil {
			return nil, fmt.Errorf("%s: no peer would take it: %w", certPath, err)
		}
	}
	return m, nil
}

// loadRoots reads the authorities. Every block must be a certificate: one that is left out would be missed only when a peer
// is refused.
func loadRoots(path string) (*x509.CertPool, error) {
	data, err := readPublic(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	n := 0
	for rest := data; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if bytes.Contains(rest, []byte("-----")) {
				return nil, fmt.Errorf("%s: block %d is cut off or damaged", path, n+1)
			}
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && !c.IsCA {
			err = fmt.Errorf("%s may not issue certificates", c.Subject)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: block %d of type %s: %w", path, n+1, block.Type, err)
		}
		roots.AddCert(c)
	}
	if n == 0 {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return roots, nil
}

func parseChain(der [][]byte) ([]*x509.Certificate, error) {
	chain := make([]*x509.Certificate, len(der))
	for i, d := range der {
		c, err := x509.ParseCertificate(d)
		if err != nil {
			return nil, err
		}
		chain[i] = c
	}
	return chain, nil
}

// checkKey refuses keys that are slow or of another strength than the rest of the protocol.
func checkKey(c *x509.Certificate) error {
	switch key := c.PublicKey.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return nil
		}
		return fmt.Errorf("the key is ECDSA on %s: P-256 or Ed25519 is needed", key.Curve.Params().Name)
	}
	return fmt.Errorf("the key is %v: ECDSA P-256 or Ed25519 is needed", c.PublicKeyAlgorithm)
}

// verify checks that an authority of roots has issued the first certificate, for this usage, and that it is valid now.
func verify(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now,
	})
	return err
}

// ending says how long the certificate is still good, and whether it is time to replace it: a fifth of its life is left, or
// two weeks if that is less.
func (m *material) ending(now time.Time) (left time.Duration, near bool) {
	c := m.cert.Leaf
	left = c.NotAfter.Sub(now)
	return left, left < min(c.NotAfter.Sub(c.NotBefore)/5, 14*24*time.Hour)
}
