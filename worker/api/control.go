package api

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// Control is what a router or gateway says beside a request. The body without it is what a client may say.
type Control struct {
	Rid    string // empty: the worker mints one
	Rooms  []bulkhead.Room
	Hosts  []string // where prefill is pulled from: one, or one for each room
	Ports  []int
	Native *sglang.Native
}

// maxRooms is how many rooms a body may name: as many as it may ask for answers.
const maxRooms = openai.MaxChoices

// controlFields are the fields of Control. Each may come once, in a body of any route.
var controlFields = fields[Control]{
	"rid": func(path string, v []byte, c *Control) *bulkhead.Refusal {
		if kind(v) == "an array" {
			return batch(path)
		}
		return scalar(path, "a string", v, &c.Rid)
	},
	"bootstrap_host": func(path string, v []byte, c *Control) (ref *bulkhead.Refusal) {
		c.Hosts, ref = oneOrMany[string](path, "a host, or a list of them", v, maxRooms)
		return ref
	},
	"bootstrap_port": func(path string, v []byte, c *Control) (ref *bulkhead.Refusal) {
		c.Ports, ref = oneOrMany[int](path, "a port, 1 to 65535, or a list of them", v, maxRooms)
		return ref
	},
	"bootstrap_room": func(path string, v []byte, c *Control) (ref *bulkhead.Refusal) {
		c.Rooms, ref = oneOrMany[bulkhead.Room](path, roomRange, v, maxRooms)
		return ref
	},
	"routed_dp_rank":         onlyRank,
	"data_parallel_rank":     onlyRank,
	"disagg_prefill_dp_rank": onlyRank,
	"bulkhead": func(path string, v []byte, c *Control) *bulkhead.Refusal {
		c.Native = &sglang.Native{}
		return nativeFields.object(path, v, c.Native)
	},
}

const roomRange = "1 to 9223372036854775807"

// onlyRank takes the one rank that a worker has.
func onlyRank(path string, v []byte, _ *Control) *bulkhead.Refusal {
	if string(v) == "0" {
		return nil
	}
	return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` is %s: a worker has one rank, 0", path, short(string(v)))
}

var nativeFields = fields[sglang.Native]{
	"tenant":      text(func(n *sglang.Native) *string { return &n.Tenant }),
	"domain":      text(func(n *sglang.Native) *string { return &n.Domain }),
	"decode":      text(func(n *sglang.Native) *string { return &n.Decode }),
	"prefill":     text(func(n *sglang.Native) *string { return &n.Prefill }),
	"incremental": flag(func(n *sglang.Native) *bool { return &n.Incremental }),
	"timeout_seconds": func(path string, v []byte, n *sglang.Native) *bulkhead.Refusal {
		if ref := scalar(path, "a number", v, &n.Seconds); ref != nil {
			return ref
		}
		if !(n.Seconds >= 0 && n.Seconds <= maxSeconds) {
			return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` is %v: must be 0 to %d", path, n.Seconds, maxSeconds)
		}
		return nil
	},
}

const maxSeconds = 24 * 60 * 60

// isControl says that a member is the router's.
func isControl(m openai.Member) bool { return controlFields[m.Name] != nil }

// Separate takes a body apart: what a router or gateway says, and what is left for the request, byte for byte, without fields
// that mean nothing here. It refuses a body that is no JSON object, a key that comes twice at any depth, and values that
// are out of range; whether what is there is enough, and allowed to who sent it, check says.
func Separate(body []byte) (c Control, rest []byte, ref *bulkhead.Refusal) {
	members, ref := openai.Split(body)
	if ref != nil {
		return Control{}, nil, ref
	}
	var mine []openai.Member
	for _, m := range members {
		if isControl(m) {
			mine = append(mine, m)
		}
	}
	if ref := controlFields.read("", mine, &c); ref != nil {
		return Control{}, nil, ref
	}
	if ref := c.ranges(); ref != nil {
		return Control{}, nil, ref
	}
	return c, openai.Without(body, members, func(m openai.Member) bool { return isControl(m) || isInert(m) }), nil
}

// ranges refuses rooms, ports and names that no request can have.
func (c *Control) ranges() *bulkhead.Refusal {
	seen := make(map[bulkhead.Room]bool, len(c.Rooms))
	for _, r := range c.Rooms {
		if r == 0 || r > math.MaxInt64 {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_room", "`bootstrap_room` is %d: must be %s", uint64(r), roomRange)
		}
		if seen[r] {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_room", "`bootstrap_room` names one room twice: each answer has its own")
		}
		seen[r] = true
	}
	for _, p := range c.Ports {
		if p < 1 || p > math.MaxUint16 {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_port", "`bootstrap_port` is %d: must be 1 to 65535", p)
		}
	}
	for _, h := range c.Hosts {
		if h == "" || len(h) > 255 || strings.ContainsAny(h, " /\\@\r\n\t%?#") {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_host", "`bootstrap_host` is %q: must be a host name or an address", short(h))
		}
	}
	if len(c.Rid) > maxRid || strings.Trim(c.Rid, ridLetters) != "" {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "rid", "`rid` is %q: must be at most %d letters, digits, \"-\", \"_\" and \".\"", short(c.Rid), maxRid)
	}
	return nil
}

const (
	maxRid     = 64
	ridLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// check says whether a worker of this side can act on what was said, and whether its sender may say it.
func (c *Control) check(side worker.Side, from peer) *bulkhead.Refusal {
	if len(c.Rooms) == 0 {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_room", "`bootstrap_room` is missing: this is the %v worker of a pair; "+
			"send requests to a gateway or router in front of it", side)
	}
	if side == worker.Decode && (len(c.Hosts) == 0 || len(c.Ports) == 0) {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "bootstrap_host", "`bootstrap_host` or `bootstrap_port` is missing: decode needs both to pull from prefill")
	}
	for name, n := range map[string]int{"bootstrap_host": len(c.Hosts), "bootstrap_port": len(c.Ports)} {
		if n > 1 && n != len(c.Rooms) {
			return bulkhead.Refuse(bulkhead.CodeInvalid, name, "`%s` has %d elements and `bootstrap_room` %d: they must be equal", name, n, len(c.Rooms))
		}
	}
	if !from.is(roleGateway) && (c.Native != nil || c.Rid != "") {
		name := "bulkhead"
		if c.Native == nil {
			name = "rid"
		}
		return bulkhead.Refuse(bulkhead.CodeForbidden, name, "`%s` is taken from a gateway only, and this connection is none's", name)
	}
	if c.Native != nil && c.Native.Tenant == "" {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "bulkhead.tenant", "`bulkhead.tenant` is missing")
	}
	return nil
}

// Room is the room of answer i of the request, counted prompt by prompt and choice by choice. The answers take the rooms of
// the body in turn, and where there are fewer rooms than answers, those of the second turn on are derived from them: the
// first 63 bits of SHA-256 over a name, the room and the number of the turn. Both workers of a pair derive the same, and
// whoever does not know the room cannot.
func (c *Control) Room(i int) bulkhead.Room {
	r, turn := c.Rooms[i%len(c.Rooms)], i/len(c.Rooms)
	if turn == 0 {
		return r
	}
	b := []byte("bulkhead: room of a further answer")
	b = binary.LittleEndian.AppendUint64(b, uint64(r))
	b = binary.LittleEndian.AppendUint64(b, uint64(turn))
	sum := sha256.Sum256(b)
	return max(bulkhead.Room(binary.LittleEndian.Uint64(sum[:])>>1), 1)
}

// peerOf is the other worker for answer i.
func (c *Control) peerOf(side worker.Side, i int) (p handoff.Peer) {
	if c.Native != nil {
		p.Name = c.Native.Decode
	}
	if side == worker.Prefill {
		return p
	}
	p.Name = ""
	if c.Native != nil {
		p.Name = c.Native.Prefill
	}
	i %= len(c.Rooms)
	p.Addr = net.JoinHostPort(strings.Trim(c.Hosts[i%len(c.Hosts)], "[]"), strconv.Itoa(c.Ports[i%len(c.Ports)]))
	return p
}

// tenant is the gateway's, or "default".
func (c *Control) tenant() bulkhead.Tenant {
	if c == nil || c.Native == nil {
		return bulkhead.Tenant{Name: "default", Domain: "default"}
	}
	return bulkhead.Tenant{Name: c.Native.Tenant, Domain: c.Native.Domain}
}

// deadline is the request's, if it has one.
func (c *Control) deadline(now time.Time) time.Time {
	if c.Native == nil || c.Native.Seconds == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(c.Native.Seconds * float64(time.Second)))
}
