package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a directory can have wrong keeps the node from starting, and the message names the file and the cause.
func TestLoadRefuses(t *testing.T) {
	foreign := newPlace(t).issue(grant(Prefill, "p1"))
	cut := func(name string, keep float64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			data := content(t, filepath.Join(dir, name))
			write(t, filepath.Join(dir, name), data[:int(float64(len(data))*keep)], 0o600)
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, name)) }
	}
	mode := func(name string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) { os.Chmod(filepath.Join(dir, name), mode) }
	}
	swap := func(name, from string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { write(t, filepath.Join(dir, name), content(t, from), 0o600) }
	}
	for _, c := range []struct {
		what   string
		damage func(t *testing.T, dir string)
		says   []string
	}{
		{"no authority", remove(FileCA), []string{FileCA}},
		{"no certificate", remove(FileCert), []string{FileCert}},
		{"no key", remove(FileKey), []string{FileKey}},
		{"no secret", remove(FileSecret), []string{FileSecret}},
		{"half an authority", cut(FileCA, 0.5), []string{FileCA, "cut off"}},
		{"half a certificate", cut(FileCert, 0.5), []string{FileCert}},
		{"half a key", cut(FileKey, 0.5), []string{FileKey}},
		{"half a secret", cut(FileSecret, 0.5), []string{FileSecret, "32 random bytes"}},
		{"an empty authority", cut(FileCA, 0), []string{FileCA, "no certificate"}},
		{"an empty certificate", cut(FileCert, 0), []string{FileCert}},
		{"an empty key", cut(FileKey, 0), []string{FileKey}},
		{"an empty secret", cut(FileSecret, 0), []string{FileSecret}},
		{"a key for the world", mode(FileKey, 0o604), []string{FileKey, "0604", "chmod 600"}},
		{"a secret for the world", mode(FileSecret, 0o644), []string{FileSecret, "0644"}},
		{"a key that the group writes", mode(FileKey, 0o660), []string{FileKey, "0660"}},
		{"another authority", swap(FileCA, filepath.Join(foreign, FileCA)), []string{FileCert, "unknown authority"}},
		{"another key", swap(FileKey, filepath.Join(foreign, FileKey)), []string{FileKey, "does not match"}},
		{"a node as authority", func(t *testing.T, dir string) { swap(FileCA, filepath.Join(dir, FileCert))(t, dir) }, []string{FileCA, "may not issue"}},
		{"half of a second authority", func(t *testing.T, dir string) {
			ca := content(t, filepath.Join(dir, FileCA))
			write(t, filepath.Join(dir, FileCA), append(ca, ca[:len(ca)/2]...), 0o600)
		}, []string{FileCA, "block 2"}},
		{"a directory as secret", func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, FileSecret))
			os.Mkdir(filepath.Join(dir, FileSecret), 0o700)
		}, []string{FileSecret, "no regular file"}},
		{"an endless authority", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, FileCA), bytes.Repeat([]byte("x\n"), maxFile), 0o600)
		}, []string{FileCA, "more than"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := newPlace(t).issue(grant(Prefill, "p1"))
			c.damage(t, dir)
			_, err := Load(dir, nil)
			if err == nil {
				t.Fatal("loaded")
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

// A node that no peer would take does not start.
func TestLoadRefusesTimes(t *testing.T) {
	p := newPlace(t)
	past, future := grant(Prefill, "late"), grant(Prefill, "early")
	past.NotAfter = time.Now().Add(-time.Second)
	future.NotBefore = time.Now().Add(time.Minute)
	if _, err := Load(p.issue(past), nil); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
	if _, err := Load(p.issue(future), nil); err == nil || !strings.Contains(err.Error(), "not yet valid") {
		t.Error(err)
	}
}

func TestKeysByGroupAreTaken(t *testing.T) {
	p := newPlace(t)
	dir := p.issue(grant(Prefill, "p1"))
	os.Chmod(filepath.Join(dir, FileKey), 0o440)
	os.Chmod(filepath.Join(dir, FileSecret), 0o640)
	p.load(dir, nil)
}

func TestNearEndIsLoggedOnce(t *testing.T) {
	p := newPlace(t)
	soon := grant(Prefill, "soon")
	soon.NotAfter = time.Now().Add(48 * time.Hour)
	soon.NotBefore = time.Now().Add(-88 * 24 * time.Hour)
	var log lines
	n := p.load(p.issue(soon), log.logger())
	for range 3 {
		n.current()
	}
	if c := strings.Count(log.String(), "ends soon"); c != 1 {
		t.Errorf("%d warnings\n%s", c, log.String())
	}
	// one that lives for a day only is not near its end after an hour
	short := grant(Prefill, "short")
	short.NotAfter = time.Now().Add(23 * time.Hour)
	log = lines{}
	p.load(p.issue(short), log.logger()).current()
	if strings.Contains(log.String(), "ends soon") {
		t.Error(log.String())
	}
}

func TestKeysOfOtherKindsRefused(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkKey(&x509.Certificate{PublicKey: key.Public()}); err == nil || !strings.Contains(err.Error(), "P-256 or Ed25519") {
		t.Error(err)
	}
	if err := checkKey(&x509.Certificate{PublicKeyAlgorithm: x509.RSA}); err == nil || !strings.Contains(err.Error(), "RSA") {
		t.Error(err)
	}
}
