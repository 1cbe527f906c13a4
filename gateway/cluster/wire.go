package cluster

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// newRoom mints a room: 63 random bits, never 0.
func newRoom() bulkhead.Room {
	var b [8]byte
	for {
		rand.Read(b[:])
		if r := bulkhead.Room(binary.LittleEndian.Uint64(b[:]) >> 1); r != 0 {
			return r
		}
	}
}

// newRid mints a request id for one attempt. All have one length, so none is the beginning of another.
func newRid() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// dispatch is what both workers of a pair are told of a request.
type dispatch struct {
	rid  string
	room bulkhead.Room
	host string // of the handoff
	port int

	prefill, decode string // names
	left            time.Duration
}

// body is the body of /generate. Decode's answer is streamed, each event with what is new in it; prefill's comes in one piece when
// decode has committed.
func (d dispatch) body(r *bulkhead.Request, stream bool) []byte {
	g := sglang.FromRequest(*r)
	g.Rid, g.Stream = d.rid, stream
	g.Bootstrap = sglang.Bootstrap{Host: d.host, Port: d.port, Room: d.room}
	g.Native.Prefill, g.Native.Decode = d.prefill, d.decode
	g.Native.Seconds, g.Native.Incremental = d.left.Seconds(), stream
	b, err := json.Marshal(g)
	if err != nil {
		panic(err) // it holds numbers and strings; a float that is none was refused by the parser
	}
	return b
}
