package tcp

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// Config is what a worker is to its peers. Both ends of a pair have the same secret, model and layout.
type Config struct {
	Name        string // this worker's; with TLS the one that its certificate proves
	Fingerprint [32]byte
	Layout      bulkhead.Layout
	Kernels     string   // named to peers for their logs
	Secret      [32]byte // the cluster's; never zero

	// TLS, of version 1.3 and with certificates of both sides, or nil for plaintext: then whoever is on the way reads
	// and changes what he likes, and a name is whatever a holder of the secret says that it is.
	TLS      *tls.Config
	PeerName func(tls.ConnectionState) (string, error) // with TLS: the name that the peer's certificate proves

	// Plaintext allows other hosts without TLS. Without either, pages stay on this one: a source listens on loopback only,
	// and a target dials nobody else, whatever it is told.
	Plaintext bool

	Limits       Limits
	SharedMemory bool // offer pages through memory to peers of the same host
	Log          *slog.Logger

	boot [16]byte // of this host, where shared memory is offered
}

// check refuses what cannot work or would not be safe, and fills in what has a default.
func (c Config) check() (*Config, error) {
	switch {
	case c.Name == "" || len(c.Name) > wire.MaxName:
		return nil, fmt.Errorf("handoff: a name of %d bytes, must be 1 to %d", len(c.Name), wire.MaxName)
	case c.Secret == [32]byte{}:
		return nil, errors.New("handoff: no secret: give every worker of the cluster the same one")
	case c.TLS != nil && c.PeerName == nil:
		return nil, errors.New("handoff: TLS without PeerName: nothing says which peer a certificate is of")
	}
	if err := c.Layout.Check(); err != nil {
		return nil, fmt.Errorf("handoff: %w", err)
	}
	if err := c.Limits.Check(c.Layout.PageBytes()); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.TLS != nil {
		c.TLS = c.TLS.Clone()
		c.TLS.MinVersion = tls.VersionTLS13 // its key material binds the proofs to the session
	}
	if two := 2 * slotBytes(c.Layout.PageBytes()); c.SharedMemory && c.Limits.RingBytes < two {
		return nil, fmt.Errorf("handoff limits: RingBytes is %d, must be %d for two pages, or SharedMemory off", c.Limits.RingBytes, two)
	}
	if c.SharedMemory {
		boot, err := bootID()
		if err != nil {
			c.Log.Warn("handoff: no shared memory with peers of this host", "err", err)
		}
		c.SharedMemory, c.boot = err == nil, boot
	}
	return &c, nil
}

// hello is what this worker says of itself on a new connection.
func (c *Config) hello(role wire.Role, socket string) *wire.Hello {
	h := &wire.Hello{
		Min: wire.Version, Max: wire.Version, Role: role, KVType: wire.KVF16, Fingerprint: c.Fingerprint,
		Layout: c.Layout, PageBytes: c.Layout.PageBytes(),
		Rooms: c.Limits.ConnRooms, Pulls: c.Limits.Pulls, PullRun: c.Limits.PullRun, InFlight: uint64(c.Limits.InFlight),
		Ping: uint32(max(1, c.Limits.PingInterval.Milliseconds())),
		Boot: c.boot, Name: c.Name, Kernels: c.Kernels, Socket: socket,
	}
	_, _ = rand.Read(h.Nonce[:]) // never fails: crypto/rand ends the program where it would
	return h
}
