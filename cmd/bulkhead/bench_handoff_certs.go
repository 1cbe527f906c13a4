package main

import (
	"path/filepath"
	"time"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// The two nodes of the benchmark.
const (
	benchSender   = "bench-prefill"
	benchReceiver = "bench-decode"
)

// benchCerts are their directories.
type benchCerts struct{ sender, receiver string }

func newBenchCerts(dir string) (*benchCerts, error) {
	now := time.Now()
	authority, err := trust.NewAuthority(now)
	if err != nil {
		return nil, err
	}
	c := &benchCerts{filepath.Join(dir, benchSender), filepath.Join(dir, benchReceiver)}
	for path, subject := range map[string]trust.Subject{
		c.sender: {Role: trust.Prefill, Name: benchSender}, c.receiver: {Role: trust.Decode, Name: benchReceiver},
	} {
		grant := trust.Grant{Subject: subject, Hosts: loopbackHosts, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
		if err := authority.Issue(path, grant); err != nil {
			return nil, err
		}
	}
	return c, nil
}
