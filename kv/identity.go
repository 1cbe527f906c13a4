package kv

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Identities derives the identities of pages for one trust domain, one model and one layout. An identity is HMAC-SHA-256,
// cut to 128 bit, over
//
//	"bulkhead/page/1" | parent identity 16 B | count uint32 | count tokens of 4 B     (little-endian)
//
// with a key that is itself HMAC-SHA-256 under the server's secret of
//
//	"bulkhead/domain/1" | length and domain | fingerprint 32 B | length and layout    (lengths as uint32)
//
// Every part has a fixed size or its length in front, so no two inputs share an encoding. The count makes the identity of a
// part of a page another one than that of the whole page, and the key makes those of two domains, models or layouts
// unrelated: without the secret nobody can tell which tokens an identity stands for, nor look for two prompts that share
// one. Parents are chained from the zero Identity, so an identity speaks for all tokens up to the end of its page.
//
// Next allocates nothing, and so one Identities is not for concurrent use: each goroutine takes a Clone.
type Identities struct {
	key  [sha256.Size]byte
	mac  hash.Hash
	msg  []byte // what is hashed: the label, and room for the rest
	out  [sha256.Size]byte
	page int // most tokens that a page takes
}

const (
	pageLabel   = "bulkhead/page/1"
	domainLabel = "bulkhead/domain/1"
	claimLabel  = "bulkhead/claim/1"
)

// NewIdentities derives the key of a domain. Fingerprint is the model's, over everything that decides what its KV is.
func NewIdentities(secret [32]byte, domain string, fingerprint [32]byte, layout bulkhead.Layout) *Identities {
	msg := []byte(domainLabel)
	msg = binary.LittleEndian.AppendUint32(msg, uint32(len(domain)))
	msg = append(msg, domain...)
	msg = append(msg, fingerprint[:]...)
	print := layout.AppendFingerprint(nil)
	msg = binary.LittleEndian.AppendUint32(msg, uint32(len(print)))
	msg = append(msg, print...)

	mac := hmac.New(sha256.New, secret[:])
	mac.Write(msg)
	return newIdentities([sha256.Size]byte(mac.Sum(nil)), layout.PageTokens)
}

func newIdentities(key [sha256.Size]byte, pageTokens int) *Identities {
	ids := &Identities{key: key, mac: hmac.New(sha256.New, key[:]), page: pageTokens}
	ids.msg = make([]byte, len(pageLabel)+len(bulkhead.Identity{})+4+4*pageTokens)
	copy(ids.msg, pageLabel)
	ids.mac.Reset() // keeps the state after the key, so that later calls do not hash the key again
	return ids
}

// Clone is another deriver of the same identities, for another goroutine.
func (ids *Identities) Clone() *Identities { return newIdentities(ids.key, ids.page) }

// Next is the identity of the page that follows parent and holds tokens, at least one and at most a page of them. The
// parent of a first page is the zero Identity.
func (ids *Identities) Next(parent bulkhead.Identity, tokens []bulkhead.Token) bulkhead.Identity {
	invariant.Check(len(tokens) > 0 && len(tokens) <= ids.page, "kv: an identity is over 1 to PageTokens tokens")
	const tokensAt = len(pageLabel) + len(parent) + 4
	msg := ids.msg[:tokensAt+4*len(tokens)]
	copy(msg[len(pageLabel):], parent[:])
	binary.LittleEndian.PutUint32(msg[tokensAt-4:], uint32(len(tokens)))
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(msg[tokensAt+4*i:], uint32(t))
	}
	ids.mac.Reset()
	ids.mac.Write(msg)
	return bulkhead.Identity(ids.mac.Sum(ids.out[:0])[:16])
}

// Claim is what a target shows to be served a room (see handoff.Claim): a keyed hash over the room and all tokens of the
// request's prompt.
func (ids *Identities) Claim(room bulkhead.Room, prompt []bulkhead.Token) [16]byte {
	msg := binary.LittleEndian.AppendUint64([]byte(claimLabel), uint64(room))
	msg = binary.LittleEndian.AppendUint32(msg, uint32(len(prompt)))
	for _, t := range prompt {
		msg = binary.LittleEndian.AppendUint32(msg, uint32(t))
	}
	ids.mac.Reset()
	ids.mac.Write(msg)
	return [16]byte(ids.mac.Sum(ids.out[:0])[:16])
}
