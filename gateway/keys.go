package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/strictyaml"
)

const defaultTenant = "default"

const (
	minKey = 16 // bytes: shorter ones can be guessed
	maxKey = 512
)

// names are safe as labels of metrics and as words of logs.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Keys says whose key is whose. A file of keys is a YAML list, read strictly:
//
//   - key: sk-harbor-5f3a9b...       # or its hash, so that the file holds no key
//     tenant: harbor
//   - key_sha256: 9f86d081884c7d65...
//     tenant: mill
//     domain: valley                 # tenants of one trust domain share cached prefixes; by default its own name
//   - key: sk-operator-77c1...
//     tenant: ops
//     operator: true                 # may read /metrics, which speaks of all tenants
//
// Keys are found by their SHA-256, so the time that a look-up takes says nothing about a key.
type Keys struct {
	byHash map[[sha256.Size]byte]identity
}

// identity is whom a key belongs to.
type identity struct {
	tenant   bulkhead.Tenant
	operator bool
}

type keyRow struct {
	Key       string `yaml:"key"`
	KeySHA256 string `yaml:"key_sha256"`
	Tenant    string `yaml:"tenant"`
	Domain    string `yaml:"domain"`
	Operator  bool   `yaml:"operator"`
}

// LoadKeys reads a file of keys.
func LoadKeys(path string) (*Keys, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	k, err := ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	return k, nil
}

// ParseKeys reads the text of a file of keys. Errors name a row by its number and never show a key.
func ParseKeys(data []byte) (*Keys, error) {
	var rows []keyRow
	if err := strictyaml.Unmarshal(data, &rows); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no keys: at least one is needed, or leave --keys out")
	}
	k := &Keys{byHash: map[[sha256.Size]byte]identity{}}
	domains := map[string]string{}
	for i, r := range rows {
		hash, id, err := r.check()
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		if _, twice := k.byHash[hash]; twice {
			return nil, fmt.Errorf("row %d: this key is in an earlier row already", i+1)
		}
		if d, seen := domains[id.tenant.Name]; seen && d != id.tenant.Domain {
			return nil, fmt.Errorf("row %d: tenant %s is in the domains %s and %s; it can be in one", i+1, id.tenant.Name, d, id.tenant.Domain)
		}
		domains[id.tenant.Name] = id.tenant.Domain
		k.byHash[hash] = id
	}
	return k, nil
}

func (r keyRow) check() (hash [sha256.Size]byte, id identity, err error) {
	switch {
	case (r.Key == "") == (r.KeySHA256 == ""):
		return hash, id, fmt.Errorf("exactly one of key and key_sha256 is needed")
	case r.Key != "" && (len(r.Key) < minKey || len(r.Key) > maxKey):
		return hash, id, fmt.Errorf("the key has %d bytes: must have %d to %d", len(r.Key), minKey, maxKey)
	case !names.MatchString(r.Tenant):
		return hash, id, fmt.Errorf("tenant %q: must be 1 to 64 letters, digits, '.', '_' and '-'", r.Tenant)
	case r.Domain != "" && !names.MatchString(r.Domain):
		return hash, id, fmt.Errorf("domain %q: must be 1 to 64 letters, digits, '.', '_' and '-'", r.Domain)
	}
	if r.KeySHA256 != "" {
		b, err := hex.DecodeString(r.KeySHA256)
		if err != nil || len(b) != len(hash) {
			return hash, id, fmt.Errorf("key_sha256 must be 64 hexadecimal digits")
		}
		copy(hash[:], b)
	} else {
		hash = sha256.Sum256([]byte(r.Key))
	}
	id = identity{bulkhead.Tenant{Name: r.Tenant, Domain: r.Domain}, r.Operator}
	if r.Domain == "" {
		id.tenant.Domain = r.Tenant
	}
	return hash, id, nil
}

// find is whose a key is.
func (k *Keys) find(key string) (identity, bool) {
	id, ok := k.byHash[sha256.Sum256([]byte(key))]
	return id, ok
}

// Len is how many keys there are.
func (k *Keys) Len() int { return len(k.byHash) }
