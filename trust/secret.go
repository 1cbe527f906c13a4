package trust

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Secret is what a cluster's nodes share: the identities of pages, the claims of rooms and the first frame of the handoff
// are keyed under it, so workers with different secrets hand each other nothing.
type Secret [32]byte

// NewSecret draws one.
func NewSecret() (s Secret) {
	rand.Read(s[:]) // it does not fail: crypto/rand ends the process instead
	return s
}

// String keeps a secret out of logs.
func (Secret) String() string { return "secret" }

// GoString keeps it out of %#v.
func (Secret) GoString() string { return "secret" }

// MarshalText keeps it out of JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte("secret"), nil }

// encode is the file's content.
func (s Secret) encode() []byte { return []byte(hex.EncodeToString(s[:]) + "\n") }

// LoadSecret reads a secret: 32 bytes in hexadecimal or base64, in a file that the world cannot read. The errors name the file
// and never its content.
func LoadSecret(path string) (s Secret, err error) {
	data, err := readPrivate(path)
	if err != nil {
		return Secret{}, err
	}
	text := strings.TrimSpace(string(data))
	var raw []byte
	if len(text) == hex.EncodedLen(len(s)) {
		raw, err = hex.DecodeString(text)
	} else {
		raw, err = base64.StdEncoding.Strict().DecodeString(text)
	}
	if err != nil || len(raw) != len(s) {
		return Secret{}, fmt.Errorf("%s holds no secret: %d random bytes are needed, as 64 hexadecimal digits or in base64 (openssl rand -hex 32)",
			path, len(s))
	}
	copy(s[:], raw)
	if s == ([32]byte{}) {
		return Secret{}, fmt.Errorf("%s holds only zeros: 32 random bytes are needed (openssl rand -hex 32)", path)
	}
	return s, nil
}
