package kv

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// The definition in the comment of Identities, written a second time.
func TestIdentityDefinition(t *testing.T) {
	secret, print := [32]byte{9}, [32]byte{8}
	l := small.AppendFingerprint(nil)
	le := binary.LittleEndian
	mac := func(key, msg []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(msg)
		return h.Sum(nil)
	}
	msg := append(le.AppendUint32([]byte("bulkhead/domain/1"), 4), "acme"...)
	msg = append(le.AppendUint32(append(msg, print[:]...), uint32(len(l))), l...)
	key := mac(secret[:], msg)

	ids := NewIdentities(secret, "acme", print, small)
	var parent bulkhead.Identity
	for _, tokens := range [][]bulkhead.Token{someTokens(16, 1), someTokens(16, 2), someTokens(3, 3), {-1}} {
		msg := le.AppendUint32(append([]byte("bulkhead/page/1"), parent[:]...), uint32(len(tokens)))
		for _, tok := range tokens {
			msg = le.AppendUint32(msg, uint32(tok))
		}
		want := bulkhead.Identity(mac(key, msg)[:16])
		if got := ids.Next(parent, tokens); got != want {
			t.Fatalf("%d tokens: %v, want %v", len(tokens), got, want)
		}
		parent = want
	}
}

// Whatever differs of secret, domain, fingerprint, layout, parent or tokens, the identity differs; a clone's does not.
func TestIdentityBinds(t *testing.T) {
	pages := small
	pages.PageTokens = 32
	base := func() *Identities { return NewIdentities([32]byte{1}, "acme", [32]byte{2}, small) }
	tokens, parent := someTokens(5, 1), bulkhead.Identity{3}
	seen := map[bulkhead.Identity]string{base().Next(parent, tokens): "base"}
	for what, id := range map[string]bulkhead.Identity{
		"secret":       NewIdentities([32]byte{2}, "acme", [32]byte{2}, small).Next(parent, tokens),
		"domain":       NewIdentities([32]byte{1}, "acme2", [32]byte{2}, small).Next(parent, tokens),
		"empty domain": NewIdentities([32]byte{1}, "", [32]byte{2}, small).Next(parent, tokens),
		"fingerprint":  NewIdentities([32]byte{1}, "acme", [32]byte{3}, small).Next(parent, tokens),
		"layout":       NewIdentities([32]byte{1}, "acme", [32]byte{2}, pages).Next(parent, tokens),
		"parent":       base().Next(bulkhead.Identity{4}, tokens),
		"one less":     base().Next(parent, tokens[:4]),
		"a zero more":  base().Next(parent, append(tokens[:5:5], 0)),
	} {
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the identity of %s", what, other)
		}
		seen[id] = what
	}
	if base().Clone().Next(parent, tokens) != base().Next(parent, tokens) {
		t.Error("a clone derives something else")
	}
}

// A domain's name cannot borrow from the fingerprint behind it.
func TestIdentityEncodingIsUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d1, d2 := rapid.StringN(0, 40, 40).Draw(t, "d1"), rapid.StringN(0, 40, 40).Draw(t, "d2")
		var f1, f2 [32]byte
		copy(f1[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "f1"))
		copy(f2[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "f2"))
		if rapid.Bool().Draw(t, "shift") && d1 != "" { // the nearest thing to a collision
			joined := d1 + string(f1[:])
			d2 = joined[:len(d1)-1]
			copy(f2[:], joined[len(d1)-1:])
		}
		a := NewIdentities([32]byte{}, d1, f1, small).Next(bulkhead.Identity{}, []bulkhead.Token{1})
		b := NewIdentities([32]byte{}, d2, f2, small).Next(bulkhead.Identity{}, []bulkhead.Token{1})
		if same := d1 == d2 && f1 == f2; (a == b) != same {
			t.Fatalf("%q %x and %q %x: %v and %v", d1, f1, d2, f2, a, b)
		}
	})
}

// Identities travel between workers and outlive restarts, so they may not change unseen.
func TestIdentityIsStable(t *testing.T) {
	ids := NewIdentities([32]byte{1, 2, 3}, "acme", [32]byte{4, 5, 6}, smollm)
	first := ids.Next(bulkhead.Identity{}, []bulkhead.Token{1, 2, 3})
	got := fmt.Sprint(first, " ", ids.Next(first, []bulkhead.Token{49151}))
	if want := "66b1f588227b9861971b16c5a1524aaa a9878995d9439d568b4da32b58062371"; got != want {
		t.Errorf("got %s, want %s: a change here needs a new label and a new layout fingerprint", got, want)
	}
}

func TestIdentityAllocatesNothing(t *testing.T) {
	ids, tokens := domain("a", small), someTokens(16, 1)
	var id bulkhead.Identity
	if n := testing.AllocsPerRun(100, func() { id = ids.Next(id, tokens) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
