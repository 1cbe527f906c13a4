package cluster

import (
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"

	"github.com/bulkhead-llm/bulkhead/internal/strictyaml"
)

// Members are the workers that may be used. Their order means nothing.
type Members struct {
	Prefill []Member `yaml:"prefill"`
	Decode  []Member `yaml:"decode"`
}

// Member is one worker.
type Member struct {
	URL  string `yaml:"url"`  // http://host:port, or https:// with TLS
	Name string `yaml:"name"` // as its certificate says; "": whoever has a certificate of its role, and from then on nobody else
}

// LoadMembers reads a list from a YAML file:
//
//	prefill:
//	  - url: https://10.0.0.1:30000
//	    name: prefill-0
//	decode:
//	  - url: https://10.0.0.2:30000
//
// Unknown and duplicate keys are errors, and so is a list that Check refuses.
func LoadMembers(file string) (Members, error) {
	data, err := readMembers(file)
	if err != nil {
		return Members{}, err
	}
	return parseMembers(file, data)
}

func readMembers(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: a list of workers has at most %d bytes", file, maxFile)
	}
	return data, nil
}

func parseMembers(file string, data []byte) (Members, error) {
	var m Members
	if err := strictyaml.Unmarshal(data, &m); err != nil {
		return Members{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := m.Check(); err != nil {
		return Members{}, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// Check refuses a list without a worker of either role, with too many, or with an address or a name twice, or malformed. Whether the
// addresses fit the gateway's TLS is asked by SetMembers.
func (m Members) Check() error {
	seen := map[string]bool{}
	for _, g := range m.groups() {
		if len(g.members) < 1 || len(g.members) > maxMembers {
			return fmt.Errorf("%d %s workers: must be 1 to %d", len(g.members), g.role, maxMembers)
		}
		for _, member := range g.members {
			u, err := parseURL(member.URL)
			if err != nil {
				return err
			}
			if seen[u.Host] {
				return fmt.Errorf("%s is in the list twice", u.Host)
			}
			seen[u.Host] = true
			name := string(g.role) + " worker " + member.Name // a host name cannot be that
			if member.Name != "" && seen[name] {
				return fmt.Errorf("the %s is in the list twice: rooms are opened for names, so each needs its own", name)
			}
			seen[name] = true
		}
	}
	return nil
}

type group struct {
	role    Role
	members []Member
}

func (m Members) groups() []group { return []group{{Prefill, m.Prefill}, {Decode, m.Decode}} }

// parseURL takes scheme, host and port and nothing else: a path, a user or a query would be lost without a word.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Port() == "" ||
		u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%.200q is no address of a worker: http://HOST:PORT or https://HOST:PORT is wanted, and nothing behind it", s)
	}
	u.Path = ""
	return u, nil
}

// checkTransport refuses what would send prompts in the clear, or could not speak TLS.
func checkTransport(u *url.URL, tls, plaintext bool) error {
	switch {
	case tls && u.Scheme != "https":
		return fmt.Errorf("%s: this gateway speaks TLS to workers: write https://%s", u, u.Host)
	case !tls && u.Scheme == "https":
		return fmt.Errorf("%s: this gateway has no certificates: give it a TLS directory, or write http://%s", u, u.Host)
	case !tls && !plaintext && !isLoopback(u.Hostname()):
		return fmt.Errorf("%s: prompts would travel unencrypted and workers could not tell who sends them: "+
			"give the gateway a TLS directory, or allow plaintext explicitly", u)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
