package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/trust"
)

// roomPages is how many pages one room hands over: 47 MB, more than a CPU's cache holds.
const roomPages = 64

// handoffPool is the pool of one of the two processes, and the sequences that rooms are about: each process knows their tokens.
type handoffPool struct {
	pool *kv.Pool
	ids  *kv.Identities
	free func()
}

// newHandoffPool holds arenaPagesCount pages.
func newHandoffPool() (*handoffPool, error) {
	arena, free, err := mem.Alloc(arenaPagesCount * handoffLayout.PageBytes())
	if err != nil {
		return nil, err
	}
	pool, err := kv.New(kv.Options{Layout: handoffLayout, Arena: arena, Summer: kernel.Best()})
	if err != nil {
		free()
		return nil, err
	}
	return &handoffPool{pool: pool, ids: kv.NewIdentities([32]byte{1}, "bench", handoffFingerprint, handoffLayout), free: free}, nil
}

// handoffFingerprint is that of a model which is not there.
var handoffFingerprint = [32]byte{1}

// sequenceCount is how many sequences fill the source's pool.
const sequenceCount = arenaPagesCount / roomPages

// handoffTokens are those of one of the sequences.
func handoffTokens(sequence int) []bulkhead.Token {
	tokens := make([]bulkhead.Token, roomPages*handoffLayout.PageTokens)
	for i := range tokens {
		tokens[i] = bulkhead.Token(sequence*len(tokens) + i)
	}
	return tokens
}

// write fills a sequence with random K and V under valid seals.
func (p *handoffPool) write(sequence int) (*kv.Sequence, error) {
	seq := p.pool.Begin(p.ids, nil)
	tokens := handoffTokens(sequence)
	if !p.pool.Grow(seq, bulkhead.Tokens(len(tokens))) {
		return nil, errors.New("the pool is too small")
	}
	rng := rand.New(rand.NewPCG(uint64(sequence), 1))
	noise := make([]float32, 4096)
	for i := range noise {
		noise[i] = float32(rng.NormFloat64())
	}
	l, set := handoffLayout, kernel.Best()
	for _, token := range tokens {
		app := seq.Append([]bulkhead.Token{token})
		page, slot := app.Slot(0)
		for layer := range l.Layers {
			var k, v bulkhead.Sum
			for head := range l.KVHeads {
				at := rng.IntN(len(noise) - l.HeadSize)
				k += set.StoreK(&l, page, layer, head, slot, noise[at:at+l.HeadSize])
				v += set.StoreV(&l, page, layer, head, slot, noise[at:at+l.HeadSize])
			}
			app.ExtendK(layer, 0, k)
			app.ExtendV(layer, 0, v)
		}
		app.Done()
	}
	return seq, nil
}

// carrierConfig is what both ends of the carrier have in common.
func carrierConfig(dir string, plaintext, shm bool) (tcp.Config, error) {
	node, err := trust.Load(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return tcp.Config{}, err
	}
	c := tcp.Config{Name: node.Name, Fingerprint: handoffFingerprint, Layout: handoffLayout, Kernels: kernel.Best().Name,
		Secret: node.Secret, Limits: tcp.DefaultLimits(), SharedMemory: shm}
	if !plaintext {
		return withTLS(c, node), nil
	}
	return c, nil
}

// chill empties the caches of what a round before has left: pages that a decode worker takes for a handoff were written long
// ago.
type chill struct{ from, to []byte }

func newChill() *chill {
	const size = 64 << 20
	return &chill{make([]byte, size), make([]byte, size)}
}

func (c *chill) empty() { copy(c.to, c.from) }

// legs are all that is installed, and why the others are not.
func (c *benchHandoffCmd) legs(ctx context.Context, dir string) (map[string]leg, map[string]string, error) {
	legs, skipped := make(map[string]leg), make(map[string]string)
	certs, err := newBenchCerts(dir)
	if err != nil {
		return legs, nil, err
	}
	size := handoffLayout.PageBytes()
	for name, start := range map[string]func() (leg, error){
		legTCP:      func() (leg, error) { return newPuller(ctx, certs, true, false) },
		legTLS:      func() (leg, error) { return newPuller(ctx, certs, false, false) },
		legShm:      func() (leg, error) { return newPuller(ctx, certs, true, true) },
		legStream:   func() (leg, error) { return newStream(ctx, certs) },
		legCopy:     func() (leg, error) { return newCopier() },
		legIperf:    func() (leg, error) { return newIperf(ctx, size) },
		legMooncake: func() (leg, error) { return newMooncake(ctx, c.Mooncake, arenaPagesCount, size) },
	} {
		if slices.Contains(c.Skip, name) {
			skipped[name] = "--skip"
			continue
		}
		l, err := start()
		switch {
		case errors.Is(err, errNotHere):
			skipped[name] = err.Error()
		case err != nil:
			return legs, nil, fmt.Errorf("%s: %w", name, err)
		default:
			legs[name] = l
		}
	}
	return legs, skipped, nil
}
