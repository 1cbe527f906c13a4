package trust

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAuthoritySaved(t *testing.T) {
	p := newPlace(t)
	ca := filepath.Join(p.dir, "ca")
	if err := p.a.Save(ca); err != nil {
		t.Fatal(err)
	}
	again, err := LoadAuthority(ca)
	if err != nil {
		t.Fatal(err)
	}
	first := p.node(Gateway, "gw")
	p.a = again
	second := p.node(Prefill, "p1")
	if first.Secret != second.Secret || first.Secret == (Secret{}) {
		t.Error("the secrets differ")
	}
	if _, serverErr, clientErr := meet(t, second.ServerTLS(Gateway), first.ClientTLS(Prefill, "p1")); serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
	if err := p.a.Save(ca); err == nil || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Error(err)
	}
	if err := p.a.Issue(ca, grant(Decode, "ca")); err == nil {
		t.Error("a directory was overwritten")
	}
	for name, mode := range map[string]os.FileMode{FileCAKey: 0o600, FileSecret: 0o600, FileCA: 0o644} {
		info, err := os.Stat(filepath.Join(ca, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Error(name, info.Mode(), err)
		}
	}
	left, err := filepath.Glob(filepath.Join(p.dir, ".new-*"))
	if len(left) > 0 || err != nil {
		t.Error(left, err)
	}
}

func TestLoadAuthorityRefuses(t *testing.T) {
	for _, name := range []string{FileCA, FileCAKey, FileSecret} {
		for _, keep := range []int{-1, 0, 40} {
			p, ca := newPlace(t), filepath.Join(t.TempDir(), "ca")
			if err := p.a.Save(ca); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(ca, name)
			if keep < 0 {
				os.Remove(path)
			} else {
				os.Truncate(path, int64(keep))
			}
			if _, err := LoadAuthority(ca); err == nil || !strings.Contains(err.Error(), name) {
				t.Error(name, keep, err)
			}
		}
	}
	p, other, ca := newPlace(t), newPlace(t), t.TempDir()
	if p.a.Save(ca+"/a") != nil || other.a.Save(ca+"/b") != nil {
		t.Fatal("not saved")
	}
	write(t, ca+"/a/"+FileCAKey, content(t, ca+"/b/"+FileCAKey), 0o600)
	if _, err := LoadAuthority(ca + "/a"); err == nil || !strings.Contains(err.Error(), "is not the key of") {
		t.Error(err)
	}
}

func TestGrantRefused(t *testing.T) {
	p := newPlace(t)
	for what, change := range map[string]func(*Grant){
		"role":   func(g *Grant) { g.Role = "root" },
		"name":   func(g *Grant) { g.Name = "../x" },
		"host":   func(g *Grant) { g.Hosts = []string{"https://x"} },
		"length": func(g *Grant) { g.NotAfter = p.a.NotAfter().Add(time.Second) },
	} {
		g := grant(Prefill, "p1")
		change(&g)
		if err := p.a.Issue(filepath.Join(p.dir, "x"), g); err == nil {
			t.Error(what)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "p1", "prefill-1.rack.example", "0", strings.Repeat("x", MaxName)} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", ".", "..", "a..b", "a/b", "A", "a b", "ä", "a\n", "a%2f", strings.Repeat("x", MaxName+1)} {
		if CheckName(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for host, ok := range map[string]bool{"a.example": true, "10.0.0.1": true, "::1": true, "a_b.c": true, "": false, "a:80": false,
		"http://a": false, "-a": false, "a-.b": false, "a..b": false, "*.a": false, strings.Repeat("a.", 127): false} {
		if (CheckHost(host) == nil) != ok {
			t.Errorf("host %q", host)
		}
	}
}

func TestSubjectOf(t *testing.T) {
	parse := func(uris ...string) (Subject, error) {
		var c x509.Certificate
		for _, s := range uris {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
		return SubjectOf(&c)
	}
	if s, err := parse("https://other", "spiffe://bulkhead/decode/d1"); err != nil || s != (Subject{Decode, "d1"}) {
		t.Error(s, err)
	}
	for _, bad := range [][]string{
		nil, {"spiffe://other/decode/d1"}, {"spiffe://bulkhead/decode"}, {"spiffe://bulkhead/decode/"}, {"spiffe://bulkhead/root/d1"},
		{"spiffe://bulkhead/decode/d1/x"}, {"spiffe://bulkhead/decode/d1?x=1"}, {"spiffe://bulkhead/decode/d1#x"}, {"spiffe://bulkhead//decode/d1"},
		{"spiffe://u@bulkhead/decode/d1"}, {"spiffe://bulkhead/decode/%64%31"}, {"spiffe://bulkhead/decode/D1"},
		{"spiffe://bulkhead/decode/d1", "spiffe://bulkhead/gateway/d1"}, {"spiffe://bulkhead/decode/d1", "spiffe://bulkhead/decode/d1"},
	} {
		if s, err := parse(bad...); err == nil {
			t.Errorf("%v is taken for %v", bad, s)
		}
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	want := NewSecret()
	for _, text := range []string{string(want.encode()), base64.StdEncoding.EncodeToString(want[:]), "  " + string(want.encode()) + "\n\n"} {
		write(t, path, []byte(text), 0o600)
		if got, err := LoadSecret(path); err != nil || got != want {
			t.Errorf("%v, %v", got, err)
		}
	}
	hexed := string(want.encode())
	for _, bad := range []string{"", "x", hexed[:62], hexed + "00", strings.Repeat("0", 64), base64.StdEncoding.EncodeToString(want[:31]),
		base64.RawStdEncoding.EncodeToString(want[:])} {
		write(t, path, []byte(bad), 0o600)
		_, err := LoadSecret(path)
		if err == nil || !strings.Contains(err.Error(), path) || len(bad) > 8 && strings.Contains(err.Error(), bad[:8]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	write(t, path, want.encode(), 0o644)
	if _, err := LoadSecret(path); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Error(err)
	}
	if text, err := json.Marshal(want); err != nil || string(text) != `"secret"` {
		t.Errorf("%s, %v", text, err)
	}
	if text := fmt.Sprintf("%v %+v %s %#v", want, want, want, want); text != "secret secret secret secret" {
		t.Error(text)
	}
}

// What is taken for a subject is written in one way only.
func FuzzSubjectOf(f *testing.F) {
	f.Add("spiffe://bulkhead/decode/d1")
	f.Add("spiffe://bulkhead/decode/%64?x#y")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		if s, err := SubjectOf(&x509.Certificate{URIs: []*url.URL{u}}); err == nil && (s.check() != nil || s.uri().String() != u.String()) {
			t.Errorf("%q is taken for %v", text, s)
		}
	})
}
