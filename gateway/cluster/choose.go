package cluster

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/bulkhead-llm/bulkhead"
)

// candidate is a worker as it stands when a pair is chosen.
type candidate struct {
	id       nodeID
	kind     compatible
	pool     bulkhead.Tokens
	tokens   bulkhead.Tokens // in flight
	requests int             // in flight
	most     int             // requests that it takes at once
	match    bulkhead.Tokens // of the prompt, thought to be in its cache
	charged  bool            // it failed this request before
}

func (c candidate) full() bool { return c.requests >= c.most }

// need is what a pair is chosen for.
type need struct {
	prompt, answer bulkhead.Tokens
	spread         uint64                            // breaks ties: requests that begin alike go the same way
	linkOpen       func(prefill, decode nodeID) bool // the link's breaker lets nothing through
	linkCharged    func(prefill, decode nodeID) bool // the link failed this request before
}

// shortage says why a choice found no pair.
type shortage uint8

const (
	enough  shortage = iota
	noPair           // no two workers that fit each other and may be used
	allFull          // there are some, and their queues are full
)

// choose picks the pair for a request: both workers fit each other, take another request, and have the least work in front
// of them. It is deterministic, and the same at every gateway that sees the same.
//
// A prefill worker's work is the prompt tokens in flight there and what it would have to compute of this prompt. A decode
// worker's is the share of its pool that requests in flight can fill, this one included, less what is there already. Who
// failed this request before is taken only where there is nobody else. Prefill decides first: a prompt computed twice
// costs more than a full batch.
func choose(n need, prefill, decode []candidate) (p, d nodeID, s shortage) {
	s = noPair
	var best choiceRank
	for _, pc := range prefill {
		for _, dc := range decode {
			if pc.kind != dc.kind || n.linkOpen != nil && n.linkOpen(pc.id, dc.id) {
				continue
			}
			if pc.full() || dc.full() {
				if s == noPair {
					s = allFull
				}
				continue
			}
			if r := n.rank(pc, dc); s != enough || r.before(best) {
				p, d, s, best = pc.id, dc.id, enough, r
			}
		}
	}
	return p, d, s
}

// choiceRank orders pairs; less is better, the first difference decides.
type choiceRank struct {
	charged int
	prefill bulkhead.Tokens // tokens of work
	decode  float64         // share of the pool
	spread  uint64
}

func (n need) rank(p, d candidate) choiceRank {
	r := choiceRank{
		prefill: p.tokens + n.prompt - min(p.match, n.prompt),
		decode:  float64(d.tokens+n.prompt+n.answer-min(d.match, n.prompt)) / float64(max(d.pool, 1)),
		spread:  spread(n.spread, p.id, d.id),
	}
	for _, charged := range []bool{p.charged, d.charged, n.linkCharged != nil && n.linkCharged(p.id, d.id)} {
		if charged {
			r.charged++
		}
	}
	return r
}

func (r choiceRank) before(o choiceRank) bool {
	switch {
	case r.charged != o.charged:
		return r.charged < o.charged
	case r.prefill != o.prefill:
		return r.prefill < o.prefill
	case r.decode != o.decode:
		return r.decode < o.decode
	}
	return r.spread < o.spread
}

// spread is a number for a pair that differs by request: the least of them wins (rendezvous hashing).
func spread(by uint64, p, d nodeID) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, by))
	for _, id := range []nodeID{p, d} {
		h.Write([]byte(id.url))
		h.Write([]byte{0})
	}
	x := h.Sum64() // FNV leaves its high bits little changed by the last bytes: mixed once more
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}
