// Package api is the HTTP API of one prefill or one decode worker, as SGLang's workers speak it: a router made for SGLang can
// stand in front of them, and Bulkhead's own gateway speaks to them by it. Package sglang has the shapes.
//
//	a, err := api.New(api.Config{Role: worker.Decode, Worker: api.Of(decode), Text: text, Model: model, Name: "decode-0", ...})
//	a.Server().Serve(gateway.Listener(listener))
//	a.Drain() // from now on requests are refused; /health says so
//
// # What it answers
//
//	POST /generate                       text or input_ids; one request
//	POST /v1/chat/completions            the OpenAI routes, by package gateway: the same parser, counts, limits and answers
//	POST /v1/completions                 as those of `bulkhead serve`
//	POST /tokenize, /detokenize
//	GET  /v1/models, /server_info, /model_info, /v1/loads, /metrics
//	GET  /health                         the loop takes steps and requests
//	GET  /health_generate                the loop computes a request of its own
//	POST /abort_request                  by whole id
//	POST /flush_cache                    drops cached pages that nobody reads
//
// /get_server_info, /get_model_info and /get_load are the older names of three of them.
//
// # Both workers of a pair
//
// A router sends the same body to both. What is a router's in it ([Control]: bootstrap_host, bootstrap_port, bootstrap_room,
// rid, ranks, and Bulkhead's own bulkhead object) is taken out first, byte for byte, so that the rest is what a client of
// `bulkhead serve` may say, no more. A room is 1 to 2^63-1 and there is no host, port, room or id for which a check is left out.
//
// Prefill answers when decode has proven and committed every page, and not before: until then no header is sent, streamed or
// not. So its status is the truth, and a router that looks at nothing else sees it. Its answer has no tokens: decode computes
// the first one.
//
// A request with several answers needs a room for each: see [Control.Room].
//
// # Who may ask what
//
// The transport decides who may connect. [Config.Peer] says who did: a gateway may name a tenant, an id and a deadline (the
// bulkhead object), abort by id and flush the cache; an operator may abort everything and flush, and asks for no tokens; of
// anybody else, requests are taken as tenant "default" under an id of the worker's own, and nothing more.
package api
