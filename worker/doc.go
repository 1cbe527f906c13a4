// Package worker runs a prefill and a decode worker: the thin loops that own goroutines, around the deciding packages sched
// and handoff, which own none.
//
// A [PrefillWorker] and a [DecodeWorker] are all there is. They may live in different processes; what they have in common is
// the room of a request and what carries it, a handoff.Outlet at one and a handoff.Inlet at the other:
//
//	prefill, err := worker.NewPrefill(worker.Config{Runner: e, Layout: e.Layout(32), Limits: limits, ...}, outlet)
//	decode, err := worker.NewDecode(worker.Config{...}, inlet)
//	order := worker.Order{Request: admitted, Room: room, Peer: peer} // to both, at once
//	handed, refusal := prefill.Submit(order)  // no tokens, one End: HandedOver where all is well
//	stream, refusal := decode.Submit(order)   // tokens in order, then exactly one End
//	event, ok := stream.Next(ctx)
//	stream.Leave() // a client that hung up; after the End it does nothing
//
// A [Pair] joins the two in one process: its Submit mints the room, orders from both and gives decode's stream. All three
// have Limits, Snapshot, Drain, Flush and Close, and all methods are safe for concurrent use.
//
// # A request's way
//
// Each worker admits once more by its own limits and holds the request, or refuses (queue full, draining, over a limit, a
// room that is in use). The prefill loop computes all prompt tokens but the last, in chunks, and publishes pages as they
// are sealed. The decode loop reserves pages once prefill has begun, pulls, proves each page against what the request's own
// tokens call for, commits, and only then does prefill unpin. Decode computes the last prompt token itself, so that the
// first token comes out of its own guarded step. A one-token prompt hands over nothing.
//
// When the decode pool runs out, the youngest request is set back: its pages go, it stands in decode's line again, and when
// it has pages decode computes prompt and answer so far, a chunk between two steps. The sampler is kept and the engine is
// batch-invariant, so the same tokens come out.
//
// A token that ends the answer (end of sequence, or one of StopIDs) is no event: End.StopToken has it, and End.Completion
// counts it.
//
// # Who ends a request
//
// Whoever comes first: decode with its last token, either loop with a violation or a passed deadline, the client by
// leaving, Drain and Close. The stream takes one End and no more; its loop sees in its next turn that the request has
// ended and lets go of what it holds, as far as the other side allows: prefill's pages stay pinned until decode has said
// that it does not read them, or its carrier that it cannot.
//
// Each side then tells the other by the room. Prefill's Stop says why, and decode ends for the same reason: a refusal keeps
// its code, message and numbers, a violation is one. Decode's Abandon ends prefill as Aborted, or, where it names a page that
// could not be proven, as Violated if that page is damaged at its source, and as Failed if not. A connection that is lost
// ends both as Failed with handoff.ErrLost, unless decode had committed: then it goes on.
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
// The loops of a pair share one engine and take turns in the order in which they ask, so decode waits for at most one chunk
// and prefill for at most one decode step; apart, decode waits for a chunk only where it computes what was set back.
// Limits.Chunk is the knob between them. Events go into a buffer that holds a whole
// answer, so a slow reader stops nobody. No lock is held during a step or a copy, and a carrier
// of another process copies in its own time.
package worker
