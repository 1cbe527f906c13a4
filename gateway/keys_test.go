package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bulkhead-llm/bulkhead"
)

// net/http lets a connection whose request it did not read linger for half a second, also after the server's Close.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func TestKeys(t *testing.T) {
	hash := sha256.Sum256([]byte("sk-mill-0123456789"))
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text := "- key: sk-harbor-0123456789\n  tenant: harbor\n- key_sha256: " + hex.EncodeToString(hash[:]) +
		"\n  tenant: mill\n  domain: valley\n- key: sk-ops-0123456789abc\n  tenant: ops\n  operator: true\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]identity{
		"sk-harbor-0123456789":  {bulkhead.Tenant{Name: "harbor", Domain: "harbor"}, false},
		"sk-mill-0123456789":    {bulkhead.Tenant{Name: "mill", Domain: "valley"}, false},
		"sk-ops-0123456789abc":  {bulkhead.Tenant{Name: "ops", Domain: "ops"}, true},
		"sk-harbor-0123456788":  {},
		"sk-harbor-01234567890": {},
		"":                      {},
	} {
		if got, ok := k.find(key); got != want || ok != (want != identity{}) {
			t.Errorf("%q is %+v, want %+v", key, got, want)
		}
	}
}

// What is wrong with a file is said by row, and never with a key.
func TestKeysThatAreRefused(t *testing.T) {
	const secret = "sk-secret-0123456789"
	for text, want := range map[string]string{
		"":                                   "no keys",
		"[]":                                 "no keys",
		"{}":                                 "",
		"key: " + secret:                     "",
		"- key: " + secret + "\n":            "row 1: tenant",
		"- tenant: a\n":                      "row 1: exactly one of key and key_sha256",
		"- key: short\n  tenant: a\n":        "row 1: the key has 5 bytes",
		"- key_sha256: abc\n  tenant: a\n":   "row 1: key_sha256 must be 64",
		"- key: " + secret + "\n  user: a\n": "user",
		"- key: " + secret + "\n  tenant: a\n  tenant: b\n":                                       "tenant",
		"- key: " + secret + "\n  tenant: a b\n":                                                  "row 1: tenant",
		"- key: " + secret + "\n  tenant: a\n  domain: ../b\n":                                    "row 1: domain",
		"- key: " + secret + "\n  tenant: a\n- key: " + secret + "\n  tenant: b\n":                "row 2: this key is in an earlier row",
		"- key: " + secret + "1\n  tenant: a\n- key: " + secret + "2\n  tenant: a\n  domain: d\n": "row 2: tenant a is in the domains",
		"- key: 1_000_000_000_000_000\n  tenant: a\n":                                             "row 1: key must be a text",
		"- key: " + secret + "\n  tenant: 007\n":                                                  "row 1: tenant must be a text",
		"- key: \"" + secret + " \"\n  tenant: a\n":                                               "row 1: the key has spaces",
		"- key: " + secret + "é\n  tenant: a\n":                                                   "row 1: the key has spaces",
		"- key: " + secret + "1\n  tenant: a\n- key: " + secret + "2\n  tenant: b\n  domain: a\n": "row 2: the domain a is also the tenant of row 1",
		"- key: " + secret + "2\n  tenant: b\n  domain: a\n- key: " + secret + "1\n  tenant: a\n": "row 1: the domain a is also the tenant of row 2",
		"- key: " + secret + "\n  key_sha256: " + strings.Repeat("a", 64) + "\n  tenant: a\n":     "row 1: exactly one",
	} {
		_, err := ParseKeys([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("- key: sk-harbor-0123456789\n  tenant: harbor\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := ParseKeys(data)
		if (k == nil) == (err == nil) {
			t.Fatal(k, err)
		}
		if k != nil {
			for _, id := range k.byHash {
				if !names.MatchString(id.tenant.Name) || !names.MatchString(id.tenant.Domain) {
					t.Fatalf("%+v", id)
				}
			}
		}
	})
}
