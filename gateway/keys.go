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

// headerable are keys that a header can carry: visible ASCII. A space would be trimmed off on the way, and the key never be found.
var headerable = regexp.MustCompile(`^[!-~]+$`)

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
	Key       word `yaml:"key"`
	KeySHA256 word `yaml:"key_sha256"`
	Tenant    word `yaml:"tenant"`
	Domain    word `yaml:"domain"`
	Operator  bool `yaml:"operator"`
}

// word is a text. What YAML reads as a number or a date is none: it would be another text than the one in the file.
type word struct {
	text string
	kind string // of what is no text
}

// UnmarshalYAML notes what is no text, for check to name the row.
func (w *word) UnmarshalYAML(read func(any) error) error {
	var v any
	if err := read(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
	case string:
		w.text = v
	default:
		w.kind = fmt.Sprintf("%T", v)
	}
	return nil
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
	if err := checkDomains(rows); err != nil {
		return nil, err
	}
	return k, nil
}

// checkDomains refuses a domain that is the name of a tenant which names none: that tenant would share its cached prefixes
// with others without anybody having said so of it.
func checkDomains(rows []keyRow) error {
	alone := map[string]int{}
	for i, r := range rows {
		if r.Domain.text == "" {
			alone[r.Tenant.text] = i + 1
		}
	}
	for i, r := range rows {
		if j, taken := alone[r.Domain.text]; taken && r.Tenant.text != r.Domain.text {
			return fmt.Errorf("row %d: the domain %s is also the tenant of row %d, which names no domain: if they are to share cached "+
				"prefixes, give row %d \"domain: %s\" too, else rename the domain", i+1, r.Domain.text, j, j, r.Domain.text)
		}
	}
	return nil
}

func (r keyRow) check() (hash [sha256.Size]byte, id identity, err error) {
	for _, w := range []struct {
		name string
		word
	}{{"key", r.Key}, {"key_sha256", r.KeySHA256}, {"tenant", r.Tenant}, {"domain", r.Domain}} {
		if w.kind != "" {
			return hash, id, fmt.Errorf("%s must be a text and reads as %s: put it into quotes", w.name, w.kind)
		}
	}
	switch {
	case (r.Key.text == "") == (r.KeySHA256.text == ""):
		return hash, id, fmt.Errorf("exactly one of key and key_sha256 is needed")
	case r.Key.text != "" && (len(r.Key.text) < minKey || len(r.Key.text) > maxKey):
		return hash, id, fmt.Errorf("the key has %d bytes: must have %d to %d", len(r.Key.text), minKey, maxKey)
	case r.Key.text != "" && !headerable.MatchString(r.Key.text):
		return hash, id, fmt.Errorf("the key has spaces or characters that are not ASCII: no header carries it as it is")
	case !names.MatchString(r.Tenant.text):
		return hash, id, fmt.Errorf("tenant %q: must be 1 to 64 letters, digits, '.', '_' and '-'", r.Tenant.text)
	case r.Domain.text != "" && !names.MatchString(r.Domain.text):
		return hash, id, fmt.Errorf("domain %q: must be 1 to 64 letters, digits, '.', '_' and '-'", r.Domain.text)
	}
	if r.KeySHA256.text != "" {
		b, err := hex.DecodeString(r.KeySHA256.text)
		if err != nil || len(b) != len(hash) {
			return hash, id, fmt.Errorf("key_sha256 must be 64 hexadecimal digits")
		}
		copy(hash[:], b)
	} else {
		hash = sha256.Sum256([]byte(r.Key.text))
	}
	id = identity{bulkhead.Tenant{Name: r.Tenant.text, Domain: r.Domain.text}, r.Operator}
	if r.Domain.text == "" {
		id.tenant.Domain = r.Tenant.text
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
