// Package openai is the wire contract with clients: what the OpenAI API's requests may say and how its answers look. It
// holds no state, no clock and no I/O but writing to what it is given.
//
//   - [ParseChat], [ParseCompletion], [ParseTokenize] and [ParseDetokenize] read a body once, strictly, into a typed
//     request. What they cannot take is a [bulkhead.Refusal] that names the field by its path and, for a value out of
//     range, the value and the limit.
//   - [ChatFields], [CompletionFields] and the like list every field that a request may have, each with its [Class]: done,
//     taken without effect, not yet, unsupported, or forbidden. A field in no list is refused.
//   - [ChatCompletion], [ChatChunk], [Completion], [Model] and the rest are the answers, with null where the API says
//     null.
//   - [Failure] is the one map from a refusal to an HTTP status and error body.
//   - [EventStream] writes server-sent events.
//
// The shapes follow OpenAI's published specification (openai-openapi, August 2026) and the official clients for Go, Python
// and Node.
package openai
