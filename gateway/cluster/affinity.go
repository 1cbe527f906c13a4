package cluster

import (
	"container/list"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead"
)

// blockTokens is how finely beginnings of prompts are told apart. Workers keep whole pages (16 tokens and more); four of
// those are worth a detour, fewer are not.
const blockTokens = 64

// maxBlocks bounds what is remembered of one worker: beginnings of 4 Mi tokens in all.
const maxBlocks = 1 << 16

// block names a beginning of a prompt: a keyed hash over the tenant's domain and every token up to the block's end. Two
// domains never have one in common (rule I5), so what one of them asked for steers no request of another.
type block [16]byte

// blocks are the names of every whole block of a prompt, under a key that is the gateways' own.
func blocks(key [32]byte, domain string, prompt []bulkhead.Token) []block {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(domain))
	var in [sha256.Size + len(block{}) + 4*blockTokens]byte
	mac.Sum(in[:0])
	out := make([]block, 0, len(prompt)/blockTokens)
	for ; len(prompt) >= blockTokens; prompt = prompt[blockTokens:] {
		for i, t := range prompt[:blockTokens] {
			binary.LittleEndian.PutUint32(in[sha256.Size+len(block{})+4*i:], uint32(t))
		}
		sum := sha256.Sum256(in[:])
		b := block(sum[:len(block{})])
		copy(in[sha256.Size:], b[:])
		out = append(out, b)
	}
	return out
}

// affinity is what is thought to be in one worker's cache: the blocks that were sent to it last. It is a guess that costs
// time when it is wrong and nothing else, since a worker looks into its own cache by identity.
type affinity struct {
	most  int
	order list.List // of block, the last used in front
	at    map[block]*list.Element
}

// newAffinity remembers as much as a pool of so many tokens can hold.
func newAffinity(pool bulkhead.Tokens) *affinity {
	return &affinity{most: max(1, min(int(pool)/blockTokens, maxBlocks)), at: map[block]*list.Element{}}
}

// match is how many tokens of a prompt, from its beginning, are thought to be there.
func (a *affinity) match(prompt []block) bulkhead.Tokens {
	n := 0
	for n < len(prompt) && a.at[prompt[n]] != nil {
		n++
	}
	return bulkhead.Tokens(n * blockTokens)
}

// add remembers a prompt. Its beginning counts as used last, since no block is of use without those before it.
func (a *affinity) add(prompt []block) {
	for i := min(len(prompt), a.most) - 1; i >= 0; i-- {
		if e := a.at[prompt[i]]; e != nil {
			a.order.MoveToFront(e)
			continue
		}
		a.at[prompt[i]] = a.order.PushFront(prompt[i])
		if len(a.at) > a.most {
			last := a.order.Back()
			delete(a.at, a.order.Remove(last).(block))
		}
	}
}
