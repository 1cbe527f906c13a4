package worker

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// Order is what one worker of a pair is told of a request: the request, admitted by whoever sends it, the room under which
// its pages are handed over, and who the other worker is. Both workers of a pair get the same request and room, at once.
type Order struct {
	Request bulkhead.Admitted
	Room    bulkhead.Room
	Peer    handoff.Peer // at prefill, who may pull; at decode, whom to pull from
}
