package tcp

import (
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

var (
	_ handoff.Outlet = (*Outlet)(nil)
	_ handoff.Inlet  = (*Inlet)(nil)
)

// Stats are counts since the start, and what there is now.
type Stats struct {
	Connections int   // now
	Rooms       int   // now: a source's open rooms, a target's entered ones
	Waiting     int   // now: rooms that a target has asked for and no source has opened; a source's
	InFlight    int64 // bytes, now: pulled and not sent, or not come

	Connected   uint64               // handshakes that succeeded
	Unreachable uint64               // attempts that found no peer; a target's
	Refused     map[wire.Code]uint64 // handshakes that failed, by cause
	Closed      map[wire.Code]uint64 // connections that ended, by cause

	Entered   uint64
	Denied    uint64 // rooms asked for that were not opened in time, or not for this peer, or not with this claim; a source's
	Committed uint64
	Abandoned uint64
	Lost      uint64

	Pages     uint64 // sent or come, all ways together
	RingPages uint64 // of these, through shared memory
	Bytes     uint64
}

// tally is the counts of an outlet or inlet; its lock guards them.
type tally struct{ Stats }

func newTally() tally {
	return tally{Stats{Refused: map[wire.Code]uint64{}, Closed: map[wire.Code]uint64{}}}
}

// copy is a snapshot.
func (t *tally) copy() Stats {
	s := t.Stats
	s.Refused, s.Closed = map[wire.Code]uint64{}, map[wire.Code]uint64{}
	for k, n := range t.Stats.Refused {
		s.Refused[k] = n
	}
	for k, n := range t.Stats.Closed {
		s.Closed[k] = n
	}
	return s
}

// page counts a page that is in flight no more, and that was sent or has come if all went well.
func (t *tally) page(bytes int, ring, well bool) {
	t.InFlight -= int64(bytes)
	if !well {
		return
	}
	t.Pages++
	t.Bytes += uint64(bytes)
	if ring {
		t.RingPages++
	}
}
