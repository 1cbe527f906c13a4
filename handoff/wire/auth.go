package wire

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Transcript is what both sides of a connection have said, and over which channel: what their proofs are over.
type Transcript [32]byte

// NewTranscript takes both HELLO frames as they were on the wire, header included, and key material that only the two ends
// of a TLS session have (empty in plaintext), so that a proof is worth nothing on another connection or through a relay.
func NewTranscript(target, source, channel []byte) Transcript {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("bulkhead handoff transcript"), target, source, channel} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return Transcript(h.Sum(nil))
}

// Proof is that a side knows the cluster's secret. The two sides' differ, so that none can be sent back.
type Proof [32]byte

// The uses of a proof.
const (
	ProofTarget = "target"
	ProofSource = "source"
	ProofRing   = "ring" // a target's, on the unix socket where it asks for the ring
)

// Prove makes a proof for one use.
func (t Transcript) Prove(secret *[32]byte, use string) Proof {
	m := hmac.New(sha256.New, secret[:])
	m.Write([]byte("bulkhead handoff proof: " + use + "\x00"))
	m.Write(t[:])
	return Proof(m.Sum(nil))
}

// Equal compares in constant time.
func (p Proof) Equal(q Proof) bool { return hmac.Equal(p[:], q[:]) }

// AppendAuth appends an AUTH frame.
func AppendAuth(b []byte, p Proof) []byte {
	b, at := begin(b, TypeAuth, 0)
	return end(append(b, p[:]...), at)
}

// ParseAuth takes an AUTH frame apart.
func ParseAuth(f Frame) (Proof, error) {
	r := fields(f, TypeAuth)
	p := Proof(r.take(32))
	return p, r.end()
}
