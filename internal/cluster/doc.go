// Package cluster starts Bulkhead's own programs as processes of their own and ends them: prefill workers, decode workers
// and a gateway on free ports of loopback, with or without mutual TLS, or each in a network namespace of its own. It is for
// checks and benchmarks, which kill, stop, cut off and restart what it started, and read the workers' books at the end.
//
// Nothing outlives the program that uses it: every process is ended by Close, and by the kernel when the program itself
// dies (on Linux); namespaces have no name and vanish with their last process.
package cluster
