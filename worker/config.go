package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// Config is what a pair, or one worker of it, is made of. One worker uses the limits and the arena of its own pool only.
type Config struct {
	Runner engine.Runner   // in a pair shared by both loops, which take turns
	Layout bulkhead.Layout // of the pages of both pools
	Limits bulkhead.Limits // PrefillPool and DecodePool are rounded down to whole pages; Role is filled in
	Secret [32]byte        // under which the identities of all tenants are keyed; the same at every worker that is to hand over to another
	EOS    []bulkhead.Token

	Summer     kv.Summer // the kernels' sums, for proofs at landing; nil: the reference in plain Go
	KeepOnFree bool      // clear pages when they are handed out, and not when they are freed

	Log      *slog.Logger // nil: nothing is logged
	Observer Observer     // nil: nobody is told

	// Arenas for the two pools, zero and of exactly the pools' size; nil: allocated outside the Go heap, and given back by
	// Close.
	PrefillArena, DecodeArena []byte
}

// defaultHandoffTimeout is Limits.HandoffTimeout where it is zero. Both workers of a pair are told of a request at once, so
// a target that has not come by then will not.
const defaultHandoffTimeout = 30 * time.Second

// ArenaBytes is how large the arena of a pool of n tokens is.
func ArenaBytes(l bulkhead.Layout, n bulkhead.Tokens) int {
	return int(n) / l.PageTokens * l.PageBytes()
}

func (c *Config) check(role bulkhead.Role) error {
	if c.Runner == nil {
		return errors.New("worker: no runner")
	}
	if err := c.Layout.Check(); err != nil {
		return err
	}
	if c.Limits.PageTokens != c.Layout.PageTokens {
		return fmt.Errorf("worker: pages of %d tokens in the limits and of %d in the layout", c.Limits.PageTokens, c.Layout.PageTokens)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	if c.Limits.HandoffTimeout == 0 {
		c.Limits.HandoffTimeout = defaultHandoffTimeout
	}
	c.Limits.Role = role
	return c.Limits.Check()
}

// pool makes one pool, in the arena or in memory of its own.
func (c *Config) pool(arena []byte, n bulkhead.Tokens) (_ *kv.Pool, release func(), err error) {
	release = func() {}
	size := ArenaBytes(c.Layout, n)
	if arena == nil {
		if arena, release, err = mem.Alloc(size); err != nil {
			return nil, nil, err
		}
	}
	if len(arena) != size {
		return nil, nil, fmt.Errorf("worker: an arena of %d bytes for %v, which take %d", len(arena), n, size)
	}
	p, err := kv.New(kv.Options{Layout: c.Layout, Arena: arena, Summer: c.Summer, KeepOnFree: c.KeepOnFree})
	if err != nil {
		release()
		return nil, nil, err
	}
	return p, release, nil
}

// keys keeps the derivers of identities of one loop, by trust domain. Each loop has its own: one is not for concurrent use.
type keys struct {
	c     *Config
	print [32]byte
	ids   map[string]*kv.Identities
}

// maxKeys bounds the derivers that a loop keeps; a domain that is forgotten is derived again.
const maxKeys = 4096

func newKeys(c *Config) *keys {
	return &keys{c: c, print: c.Runner.Info().Fingerprint, ids: make(map[string]*kv.Identities)}
}

func (k *keys) of(t bulkhead.Tenant) *kv.Identities {
	domain := t.Domain
	if domain == "" {
		domain = t.Name
	}
	ids := k.ids[domain]
	if ids == nil {
		if len(k.ids) >= maxKeys {
			clear(k.ids)
		}
		ids = kv.NewIdentities(k.c.Secret, domain, k.print, k.c.Layout)
		k.ids[domain] = ids
	}
	return ids
}

// claims are derivers for whoever submits: from any goroutine, so under a lock, and each gets a copy.
type claims struct {
	mu   sync.Mutex
	keys *keys
}

func (c *claims) of(r *bulkhead.Request, room bulkhead.Room) handoff.Claim {
	c.mu.Lock()
	ids := c.keys.of(r.Tenant).Clone()
	c.mu.Unlock()
	return ids.Claim(room, r.Prompt)
}

// quiet is an Observer that is not told of ends: in a pair only decode's count.
type quiet struct{ Observer }

func (quiet) Ended(string, bulkhead.End, time.Duration) {}

// nobody is the Observer of a worker that has none.
type nobody struct{}

func (nobody) Step(Side, int, time.Duration)             {}
func (nobody) Queued(string, time.Duration)              {}
func (nobody) Handoff(int, int64, time.Duration)         {}
func (nobody) FirstToken(string, time.Duration)          {}
func (nobody) NextToken(string, time.Duration)           {}
func (nobody) Ended(string, bulkhead.End, time.Duration) {}
