// Package gateway is what clients talk to: an http.Handler for the OpenAI API in front of a pair of workers.
//
//	g, err := gateway.New(gateway.Config{Backend: native.NewBackend(pair), Text: native.NewText(...), Model: ..., Log: log})
//	server := g.Server() // or g.Handler() in a server of one's own
//	server.Serve(gateway.Listener(l))
//	...
//	g.Drain()            // from here on: 503 and Retry-After
//	server.Shutdown(ctx) // waits for the answers that run
//
// It owns hops 1 to 4, 9 and 10 of a request's life. Each is one file with one type of its name:
//
//  1. arrival.go   [arrival]    authenticate, find the tenant, mint the id, read the body, refuse control headers
//  2. count.go     [counted]    render the chat template, tokenise
//  3. admit.go     [admission]  against the workers' real limits; nothing behind this line has heard of the request
//  4. submit.go    [submission] hand it to the workers, all choices or none
//  9. deliver.go   [delivery]   text, stop strings, events; the first token is let out when it has come
//  10. row.go       [row]        one line in the log, metrics
//
// A step that fails returns a [bulkhead.Refusal], and one place writes it. What the gateway needs of others are two small
// interfaces, [Backend] and [Text]; package gateway/native has them for this process's own workers.
//
// A client steers nothing behind the gateway (rule I8): control fields and control headers are refused, ids and seeds are
// minted here, and no answer, header or error holds a page, a room or an address.
package gateway
