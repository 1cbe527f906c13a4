package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates. It is small on purpose: one key in a file, no revocation (certificates end, and an
// authority can be replaced).
//
//	DIR/ca/      ca.pem, ca-key.pem, secret.key: to be kept where no worker runs
//	DIR/NAME/    a node's whole directory, to be copied to its host
type Authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	Secret Secret
}

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	skew          = time.Hour // certificates are valid from that long ago, for clocks that are behind
)

// NewAuthority makes one, in memory.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Bulkhead CA"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, Secret: NewSecret()}, nil
}

// NotAfter is when the authority ends.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// LoadAuthority reads a directory that Save has written.
func LoadAuthority(dir string) (*Authority, error) {
	certPath, keyPath := filepath.Join(dir, FileCA), filepath.Join(dir, FileCAKey)
	certPEM, err := readPublic(certPath)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPrivate(keyPath)
	if err != nil {
		return nil, err
	}
	cert, err := parseBlock(certPEM, "CERTIFICATE", x509.ParseCertificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	parsed, err := parseBlock(keyPEM, "PRIVATE KEY", x509.ParsePKCS8PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", keyPath, certPath)
	}
	secret, err := LoadSecret(filepath.Join(dir, FileSecret))
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, Secret: secret}, nil
}

func parseBlock[T any](data []byte, kind string, parse func([]byte) (T, error)) (T, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		var none T
		return none, errors.New("no PEM block of type " + kind)
	}
	return parse(block.Bytes)
}

// Save writes the authority into a directory that is not there yet.
func (a *Authority) Save(dir string) error {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return err
	}
	return writeDir(dir, []file{
		{FileCA, block("CERTIFICATE", a.cert.Raw), 0o644},
		{FileCAKey, block("PRIVATE KEY", key), 0o600},
		{FileSecret, a.Secret.encode(), 0o600},
	})
}

// Grant is a certificate to be issued.
type Grant struct {
	Subject
	Hosts               []string // DNS names and IP addresses, for clients that check those
	NotBefore, NotAfter time.Time
}

// Issue writes a node's directory, which must not be there yet, with a key of its own.
func (a *Authority) Issue(dir string, g Grant) error {
	if err := g.Check(); err != nil {
		return err
	}
	if g.NotAfter.After(a.cert.NotAfter) {
		return fmt.Errorf("a certificate until %s would outlive its authority, which ends at %s: ask for fewer days, or make a new authority",
			g.NotAfter.Format(time.DateOnly), a.cert.NotAfter.Format(time.DateOnly))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, g.template(), a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writeDir(dir, []file{
		{FileCA, block("CERTIFICATE", a.cert.Raw), 0o644},
		{FileCert, block("CERTIFICATE", der), 0o644},
		{FileKey, block("PRIVATE KEY", pkcs8), 0o600},
		{FileSecret, a.Secret.encode(), 0o600},
	})
}

// Check refuses roles, names and hosts that are none.
func (g Grant) Check() error {
	if err := g.Subject.check(); err != nil {
		return err
	}
	for _, h := range g.Hosts {
		if err := CheckHost(h); err != nil {
			return err
		}
	}
	return nil
}

func (g Grant) template() *x509.Certificate {
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: g.Subject.String()},
		NotBefore: g.NotBefore, NotAfter: g.NotAfter, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	t.URIs = append(t.URIs, g.Subject.uri())
	for _, h := range g.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return t
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n.Add(n, big.NewInt(1))
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

type file struct {
	name string
	data []byte
	mode os.FileMode
}

// writeDir makes a directory that is there as a whole or not at all, and never replaces one.
func writeDir(dir string, files []file) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s is there already, and nothing is overwritten: move it away to have it made anew", dir)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, f := range files {
		if err := writeNew(filepath.Join(tmp, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}
