package cluster

import (
	"math"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// Bounds that no operator needs to change.
const (
	maxMembers   = 256      // workers of one role
	maxInfo      = 1 << 20  // bytes of an answer to a probe
	maxAnswer    = 1 << 20  // bytes of prefill's answer, and of any error
	maxLine      = 1 << 20  // bytes of one line of decode's stream
	maxHeaders   = 64 << 10 // bytes of an answer's headers
	maxIdleConns = 64       // kept for one worker
	maxConns     = 4096     // open to one worker; its queue is shorter
	maxFile      = 1 << 20  // bytes of a members' file
	maxRetries   = 10
	maxLeft      = 24 * time.Hour // to a deadline, as workers take it
)

// retryAfter is what a client is told where all queues are full, or nobody is there: the order of one answer, and of one
// worker's start.
const (
	retryBusy = time.Second
	retryGone = 5 * time.Second
)

// least is the limits of all workers that a request can be routed to: of each the smallest (rule I7). Where there is no pair,
// the window is 0 and nothing is admitted; the queues are then without bound, so that the refusal is not for the number of
// choices.
func least(prefill, decode []*facts, own bulkhead.Limits) bulkhead.Limits {
	prefill, decode = paired(prefill, decode), paired(decode, prefill)
	l := own
	l.Window, l.ModelWindow, l.PrefillPool, l.DecodePool = 0, 0, 0, 0
	if len(prefill) == 0 {
		l.Queue, l.QueueTenant, l.PageTokens = math.MaxInt32, math.MaxInt32, 1
		return l
	}
	big := bulkhead.Tokens(math.MaxInt32)
	l.Window, l.ModelWindow, l.PrefillPool, l.DecodePool, l.Chunk = big, big, big, big, big
	l.Queue, l.QueueTenant, l.Running, l.PageTokens = math.MaxInt32, math.MaxInt32, math.MaxInt32, 1
	for _, f := range prefill {
		l.PrefillPool, l.Chunk = min(l.PrefillPool, f.pool), min(l.Chunk, f.chunk)
		l = lessOf(l, f)
	}
	for _, f := range decode {
		l.DecodePool = min(l.DecodePool, f.pool)
		l = lessOf(l, f)
	}
	l.Window = min(l.Window, l.FitWindow())
	return l
}

func lessOf(l bulkhead.Limits, f *facts) bulkhead.Limits {
	l.Window, l.ModelWindow = min(l.Window, f.window), min(l.ModelWindow, f.modelWindow)
	l.Queue, l.QueueTenant = min(l.Queue, f.queue), min(l.QueueTenant, f.queueTenant)
	l.Running, l.PageTokens = min(l.Running, f.running), max(l.PageTokens, f.kind.page)
	return l
}

// paired are those that have a counterpart.
func paired(these, those []*facts) []*facts {
	var out []*facts
	for _, f := range these {
		for _, o := range those {
			if o.kind == f.kind {
				out = append(out, f)
				break
			}
		}
	}
	return out
}
