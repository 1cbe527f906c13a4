package wire

import (
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead"
)

// Role is which side of a handoff a worker is.
type Role uint8

// The roles.
const (
	Source Role = 1 // prefill: it has the pages and listens
	Target Role = 2 // decode: it pulls and dials
)

func (r Role) String() string {
	switch r {
	case Source:
		return "source (prefill)"
	case Target:
		return "target (decode)"
	}
	return "unknown role"
}

// KVF16 is the type of KV that bulkhead.Layout describes: F16, K in blocks of 16 tokens.
const KVF16 = 1

// Limits of the texts in a hello, in bytes.
const (
	MaxName    = 255
	MaxKernels = 64
	MaxSocket  = 100
)

// Hello is who a worker is and what it holds. Each side compares the other's with its own.
type Hello struct {
	Min, Max    uint16 // versions of the protocol
	Role        Role
	KVType      uint8
	Nonce       [32]byte // fresh for every connection
	Fingerprint [32]byte // of the model
	Layout      bulkhead.Layout
	PageBytes   int // a whole page, seal included

	Rooms    int    // most rooms of this connection at once
	Pulls    int    // most pages that are pulled and have not come
	PullRun  int    // most pages of one PULL
	InFlight uint64 // most bytes that are pulled and have not come
	Ping     uint32 // milliseconds: how often at least this side is heard of

	Boot    [16]byte // of the host, where shared memory is offered; else zero
	Name    string
	Kernels string // for logs
	Socket  string // a source that offers shared memory: its abstract unix socket
}

// AppendHello appends a HELLO frame.
func AppendHello(b []byte, h *Hello) []byte {
	le := binary.LittleEndian
	b, at := begin(b, TypeHello, 0)
	b = le.AppendUint16(b, h.Min)
	b = le.AppendUint16(b, h.Max)
	b = append(b, byte(h.Role), h.KVType, 0, 0)
	b = append(b, h.Nonce[:]...)
	b = append(b, h.Fingerprint[:]...)
	for _, n := range []int{h.Layout.Layers, h.Layout.KVHeads, h.Layout.HeadSize, h.Layout.PageTokens, h.PageBytes, h.Rooms,
		h.Pulls, h.PullRun, int(h.Ping)} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = le.AppendUint64(b, h.InFlight)
	b = append(b, h.Boot[:]...)
	b = appendText(b, h.Name, MaxName)
	b = appendText(b, h.Kernels, MaxKernels)
	b = appendText(b, h.Socket, MaxSocket)
	return end(b, at)
}

// Versions are the versions of the protocol that a hello of whatever version names.
func Versions(f Frame) (lo, hi uint16, err error) {
	r := fields(f, TypeHello)
	lo, hi = r.u16(), r.u16()
	if lo < 1 || lo > hi {
		r.fail("versions %d to %d", lo, hi)
	}
	return lo, hi, r.err
}

// ParseHello takes a hello of this version apart. One of other versions only is an error with CodeVersion. What it says is
// within what any worker could say; whether it fits this one is for Compare.
func ParseHello(f Frame) (*Hello, error) {
	lo, hi, err := Versions(f)
	if err != nil {
		return nil, err
	}
	if lo > Version || hi < Version {
		return nil, Errorf(CodeVersion, "the peer speaks versions %d to %d of the handoff protocol, this worker %d: "+
			"run both workers from the same release", lo, hi, Version)
	}
	r := fields(f, TypeHello)
	r.take(4)
	h := &Hello{Min: lo, Max: hi, Role: Role(r.u8()), KVType: r.u8()}
	r.zero(2)
	copy(h.Nonce[:], r.take(32))
	copy(h.Fingerprint[:], r.take(32))
	h.Layout.Layers = r.count("layers", 1, 1024)
	h.Layout.KVHeads = r.count("KV heads", 1, 1024)
	h.Layout.HeadSize = r.count("head size", 1, 1024)
	h.Layout.PageTokens = r.count("page tokens", 1, 4096)
	h.PageBytes = r.count("page bytes", 1, 1<<31-1)
	h.Rooms = r.count("rooms", 1, 1<<24)
	h.Pulls = r.count("pulls", 1, 1<<24)
	h.PullRun = r.count("pages of a pull", 1, 1<<16)
	h.Ping = uint32(r.count("ping", 1, 3600_000))
	h.InFlight = r.u64()
	if h.InFlight < 1 || h.InFlight > 1<<48 {
		r.fail("bytes in flight is %d, must be 1 to %d", h.InFlight, uint64(1)<<48)
	}
	copy(h.Boot[:], r.take(16))
	h.Name = r.text(int(r.u8()), "name")
	h.Kernels = r.text(int(r.u8()), "kernels")
	h.Socket = r.text(int(r.u8()), "socket")
	switch {
	case h.Role != Source && h.Role != Target:
		r.fail("role %d", h.Role)
	case h.Name == "":
		r.fail("no name")
	case len(h.Kernels) > MaxKernels || len(h.Socket) > MaxSocket:
		r.fail("kernels of %d bytes and a socket of %d, at most %d and %d", len(h.Kernels), len(h.Socket), MaxKernels, MaxSocket)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return h, nil
}

// Compare refuses a peer that pages cannot go to or come from, with both values. The order is that of how far apart the
// two are: there is no use in comparing layouts with a peer of the wrong role.
func (h *Hello) Compare(peer *Hello) *Error {
	a, b := h.Layout, peer.Layout
	switch {
	case peer.Role == h.Role:
		return Errorf(CodeRole, "both ends are a %v; a decode worker must dial the handoff port of a prefill worker", h.Role)
	case peer.Fingerprint != h.Fingerprint:
		return Errorf(CodeModel, "the peer has the model %x, this worker %x (fingerprints): start both from the same model file",
			peer.Fingerprint[:8], h.Fingerprint[:8])
	case peer.KVType != h.KVType:
		return Errorf(CodeKVType, "the peer has KV of type %d, this worker %d", peer.KVType, h.KVType)
	case a.Layers != b.Layers || a.KVHeads != b.KVHeads || a.HeadSize != b.HeadSize:
		return Errorf(CodeLayout, "the peer has %d layers of %d KV heads of %d, this worker %d of %d of %d",
			b.Layers, b.KVHeads, b.HeadSize, a.Layers, a.KVHeads, a.HeadSize)
	case a.PageTokens != b.PageTokens:
		return Errorf(CodePageSize, "the peer has pages of %d tokens, this worker of %d: give both the same page size",
			b.PageTokens, a.PageTokens)
	case h.PageBytes != peer.PageBytes:
		return Errorf(CodePageSize, "the peer has pages of %d bytes, this worker of %d", peer.PageBytes, h.PageBytes)
	case uint64(h.PageBytes) > peer.InFlight:
		return Errorf(CodeLimit, "the peer allows %d bytes in flight, less than one page of %d", peer.InFlight, h.PageBytes)
	}
	return nil
}
