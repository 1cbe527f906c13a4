// Package wire is the bytes of a handoff between two workers: frames, what may stand in them, and how large each may be.
// It holds no connection and no state of one; docs/handoff.md is the specification, and testdata has a vector for every
// frame and every kind of bad one.
//
// Everything is little-endian. A frame is a header of [HeaderBytes], a body whose length the header says, and, behind a
// [Page] that goes by the stream, the raw page:
//
//	 0  4  magic "bhof"
//	 4  1  type
//	 5  3  zero
//	 8  8  room, 0 in frames of the connection
//	16  4  length of the body
//	20  4  CRC-32C of the 20 bytes before and of the body
//	24     body
//
// Three things are the same in every version of the protocol, for ever, so that two workers of different versions can tell
// each other: the header, the first four bytes of a [Hello] (its versions), and the whole of an [Error].
package wire

import "fmt"

// Version is the only version of the protocol that this package speaks.
const Version = 1

// HeaderBytes is the size of a frame's header.
const HeaderBytes = 24

// MaxBody is the longest body of any frame. A reader needs no more memory than this for a connection, however hostile it is.
const MaxBody = 2048

// Type is what a frame says.
type Type uint8

// The frames. S and T say who may send one: the source, the target.
const (
	TypeHello   Type = 1  // S T: who this is and what it can do; the first frame of each side
	TypeAuth    Type = 2  // S T: proof of the cluster's secret
	TypeError   Type = 3  // S T: why the connection is about to be closed; the last frame of a side
	TypePing    Type = 4  // S T
	TypePong    Type = 5  // S T: the answer to a ping
	TypeRing    Type = 6  // T: pages may go by shared memory from now on
	TypeCredit  Type = 7  // T: a slot of the ring has been read
	TypeEnter   Type = 8  // T: asks for a room and shows its claim
	TypeOffer   Type = 9  // S: pages [0, n) can be pulled
	TypePull    Type = 10 // T: asks for pages
	TypePage    Type = 11 // S: one page that was pulled
	TypeStop    Type = 12 // S: there will be no more pages; answer with an end
	TypeCommit  Type = 13 // T: every page is proven
	TypeAbandon Type = 14 // T: nothing of the room will be read
	TypeDone    Type = 15 // S: the answer to an end; nothing more of the room follows
)

// shape is what is known of a frame before its body is read.
type shape struct {
	name     string
	min, max int  // bytes of the body
	room     bool // it is about a room
}

var shapes = [...]shape{
	TypeHello:   {"HELLO", 4, 1024, false},
	TypeAuth:    {"AUTH", 32, 32, false},
	TypeError:   {"ERROR", 4, 4 + MaxText, false},
	TypePing:    {"PING", 8, 8, false},
	TypePong:    {"PONG", 8, 8, false},
	TypeRing:    {"RING", 16, 16, false},
	TypeCredit:  {"CREDIT", 4, 4, false},
	TypeEnter:   {"ENTER", 16, 16, true},
	TypeOffer:   {"OFFER", 4, 4, true},
	TypePull:    {"PULL", 8, 8, true},
	TypePage:    {"PAGE", 24, 24, true},
	TypeStop:    {"STOP", stopFixed, MaxBody, true},
	TypeCommit:  {"COMMIT", 0, 0, true},
	TypeAbandon: {"ABANDON", 4, 4, true},
	TypeDone:    {"DONE", 0, 0, true},
}

func (t Type) known() bool { return int(t) < len(shapes) && shapes[t].name != "" }

func (t Type) String() string {
	if t.known() {
		return shapes[t].name
	}
	return fmt.Sprintf("type %d", uint8(t))
}
