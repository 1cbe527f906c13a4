// Package sched decides what runs next. It is pure: no goroutine, lock, clock or I/O; time and the room in a pool are
// passed in, so a test or a simulator drives it step by step and the same calls always give the same answers.
//
// [Prefill] keeps the requests that wait, fair between tenants, and cuts the chunks. [Decode] keeps the line of requests
// that prefill has begun, and says who takes part in the next step and who is set back when the pool runs out. Both
// answer the same two questions: is anything runnable, and what next.
//
// # Why nothing deadlocks
//
// A request begins in prefill only when the pool has pages for its whole prefix, so a request that has begun never waits
// for pages there and always comes to its end. Only requests that have begun, or that decode computes by itself, stand in
// decode's line. So decode waits for nothing but its own running requests, each of which ends after MaxTokens at the
// latest, and for transfers, which end; and prefill waits for pages that are pinned for requests in decode's line, and for
// nothing else.
//
// # Why nothing starves
//
// A [Ticket] is given at arrival and kept through every setting back; it is a request's age. Whatever runs out, the
// youngest gives way, so a request is set back only for older ones, of which there is a finite number, and the oldest never is.
// Whoever is next in a line and does not fit stays next: nobody smaller overtakes it. The cost is that a pool is sometimes
// left idle for a large request at the head of the line.
package sched

import "cmp"

// Ticket names a request within one worker and is its age: 1 for the first to arrive, never given twice. 0 is none.
type Ticket uint64

func older(a, b Ticket) int { return cmp.Compare(a, b) }
