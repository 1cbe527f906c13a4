// Package worker runs a prefill and a decode worker: the thin loops that own goroutines, around the deciding packages sched
// and handoff, which own none.
//
// A [Pair] joins the two in one process:
//
//	pair, err := worker.NewPair(worker.Config{Runner: e, Layout: e.Layout(32), Limits: limits, Summer: e.Kernels(), ...})
//	stream, refusal := pair.Submit(admitted)
//	for {
//		event, ok := stream.Next(ctx) // tokens in order, then exactly one End
//		...
//	}
//	stream.Leave() // a client that hung up; after the End it does nothing
//
// Its methods, all safe for concurrent use:
//
//	NewPair(Config) (*Pair, error)
//	(*Pair) Submit(bulkhead.Admitted) (*Stream, *bulkhead.Refusal)
//	(*Pair) Limits() bulkhead.Limits
//	(*Pair) Snapshot() Snapshot
//	(*Pair) Drain(context.Context) error // no new requests; returns when all have ended, or ends those left when ctx is done
//	(*Pair) Close()                      // ends what is left as Failed, and leaves no goroutine
//	(*Stream) Next(context.Context) (bulkhead.Event, bool)
//	(*Stream) Leave()
//
// # A request's way
//
// Submit admits once more by the pair's own limits and puts the request into prefill's queue, or refuses (queue full,
// draining, over a limit). The prefill loop computes all prompt tokens but the last, in chunks, and publishes pages as they
// are sealed. The decode loop reserves pages, pulls, proves each page against what the request's own tokens call for,
// commits, and only then does prefill unpin. Decode computes the last prompt token itself, so that the first token comes
// out of its own guarded step. A one-token prompt hands over nothing.
//
// When the decode pool runs out, the youngest request is set back: its pages go, and prompt and answer so far are a new
// prompt for prefill. The sampler is kept and the engine is batch-invariant, so the same tokens come out.
//
// A token that ends the answer (end of sequence, or one of StopIDs) is no event: End.StopToken has it, and End.Completion
// counts it.
//
// # Who ends a request
//
// Whoever comes first: decode with its last token, either loop with a violation or a passed deadline, the client by
// leaving, Drain and Close. The stream takes one End and no more; each loop sees in its next turn that the request has
// ended and lets go of what it holds, as far as the other side allows: prefill's pages stay pinned until decode has said
// that it does not read them.
//
// # When pages are set aside
//
// A violation takes its page out of use until restart, so a pool can shrink; of a page whose copy could not be proven at
// landing it is the source, where prefill finds it damaged, and the copy's place only where that happens twice in a row. Limits says what still fits, Submit refuses by
// it, and a request that was taken before and does not fit any more ends as Failed instead of waiting for ever.
//
// # Bugs
//
// A panic in a loop, or in the engine under it, ends every request as Failed and then the process: see supervise.
//
// # What may block what
//
// Both loops share one engine and take turns in the order in which they ask, so decode waits for at most one chunk and
// prefill for at most one decode step: Limits.Chunk is the knob between them. Events go into a buffer that holds a whole
// answer, so a slow reader stops nobody. No lock is held during a step or a copy.
package worker
