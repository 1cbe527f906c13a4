// Package cluster is a gateway's view of any number of prefill and decode workers on other hosts: a gateway.Backend that
// picks a pair for each request, speaks to both over HTTP, and sees each request to exactly one end.
//
//	c, err := cluster.New(cluster.Config{Vocab: text.Size(), TLS: node.ClientTLS, Key: node.Secret, Log: log, Registry: registry})
//	err = c.SetMembers(members)          // or go c.Watch(ctx, file)
//	g, err := gateway.New(gateway.Config{Backend: c, ...})
//	...
//	c.Drain(ctx)                         // what clients have left is seen to its end
//	c.Close()
//
// What decides is pure, one file and one type each, and is tested without a socket:
//
//	facts.go     [facts]    what a worker says of itself, and whether it may be used
//	limits.go               the limits of all of them together (rule I7)
//	health.go    [health]   in or out of rotation, by probes, with hysteresis
//	breaker.go   [breaker]  open after failures, tried again after a while; for each worker and for each link of a pair
//	affinity.go  [affinity] which worker has computed which beginning of a prompt, under the tenant's domain
//	choose.go    [choose]   the pair for a request
//	outcome.go   [outcome]  what an answer of a worker means
//	settle.go    [settle]   how a request ends, or that it is tried again, and who is charged
//	attempt.go   [attempt]  one room from dispatch until both workers are done with it
//
// Around them are thin loops: node.go probes one worker, flow.go runs one attempt.
//
// # What is promised
//
// Every attempt has a room and a request id of its own; nothing of a client's is in them. The first token is let out when
// decode sends it: decode has then proven every page by itself. An attempt that fails before that is tried again, with a
// new room, on another pair if there is one; one that fails after it ends the request. A request that a worker refuses for
// what it is ends at once, and charges nobody.
//
// When one side fails the other is told by name (POST /abort_request with the whole id), again and again until it has
// answered. When a client leaves, prefill is told at once, which stops it if the transfer has not begun, and decode when the
// handoff is over: no connection is dropped while pages may be moving (rule I6). All of this is bounded by Timeouts.Hold.
package cluster
