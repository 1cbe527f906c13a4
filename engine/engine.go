// Package engine runs a transformer over sequences.
//
//	e, err := engine.Open("model.gguf", engine.Options{})
//	pool, err := kv.New(kv.Options{Layout: e.Layout(32), ...})
//	seq := pool.Begin(ids, prompt) // and Grow
//	e.Step([]engine.Work{{Seq: seq, Tokens: next, Logits: true}}, results)
//
// A [Runner] takes one step at a time: it computes the next tokens of some sequences, all rows of all sequences in one
// pass over the weights. [Engine] is the one for real models; engine/algebra has one whose answers can be proven.
//
// # What a step promises
//
// It reads KV through kv.Sequence only. Before it reads, it has every sequence checked; while it reads, attention takes the
// sums of what it reads; before anything leaves, they are compared with the seals. A page that is not what its reader
// expects fails the work that reads it, and no other.
//
// It is batch-invariant: the KV and the logits of a token are the same bits whatever else is in the step, however tokens
// are cut into steps, whatever the page size and the number of threads. See engine/kernel for the order of operations.
//
// # Adding an architecture
//
// An architecture is one file that reads a GGUF's metadata into an [arch.Spec], as engine/llama does, and one row in the
// table of architectures in arch.go.
package engine

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// Work is the next tokens of one sequence. The sequence has the capacity for them, no append is open on it, and no other
// work of the step has it.
type Work struct {
	Seq    *kv.Sequence
	Tokens []bulkhead.Token // at least one
	Logits bool             // whether to compute the logits that follow the last of them
}

// Result is what became of a Work.
type Result struct {
	Logits    []float32           // valid until the next step; nil where none were asked for or there is a violation
	Violation *bulkhead.Violation // the sequence is dead and none of the tokens are in it
}

// Runner computes steps. It is for one Step at a time.
type Runner interface {
	// Step computes all works and writes a result for each. A violation fails its own work only. It panics on works that
	// no correct caller hands over.
	Step(work []Work, results []Result)
	Info() Info
}

// Info describes a model as it was loaded.
type Info struct {
	Name, Arch   string
	Fingerprint  [32]byte        // over all that decides what the KV of given tokens is
	Window       bulkhead.Tokens // that it was trained for
	Vocab        int
	Layers       int
	KVHeads      int
	HeadSize     int
	Kernels      string // name of the set
	Threads      int
	Params       int64
	WeightBytes  int64  // in memory
	Quantization string // the type of most weights
}
