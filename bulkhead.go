// Package bulkhead is the vocabulary of Bulkhead, an LLM serving system in which no request ever attends over a KV page
// that is not its own.
//
// One file holds one noun. Every other package speaks these words and seldom imports a sibling:
//
//   - A [Request] is what a tenant asked for. [Limits.Admit] turns it into an [Admitted], the only thing that workers
//     take, or into a [Refusal], which nothing that allocates, computes or sends accepts.
//   - A [Layout] says how the bytes of a page lie in memory; a [Seal] is what a page says it holds: its [Identity], how
//     many tokens are filled, and one [Sum] a layer for K and one for V.
//   - A [Violation] is a page that is not what its reader expects. It fails one request and sets the page aside.
//
// The package imports the standard library only and holds no goroutine, lock, clock or I/O.
package bulkhead

import (
	"fmt"
	"strconv"
)

// Token is a token id of the model's vocabulary.
type Token int32

// Tokens is a count of tokens. Pools, windows and budgets are all said in tokens, so that they compare.
type Tokens int

func (n Tokens) String() string { return strconv.Itoa(int(n)) + " tokens" }

// PageIndex is a page's place in one worker's pool. It never leaves the worker: what travels is identities.
type PageIndex uint32

// Room names one handoff: a random 63-bit number, fresh for every attempt and never 0. Nobody but Bulkhead mints one.
type Room uint64

func (r Room) String() string { return fmt.Sprintf("%016x", uint64(r)) }

// RequestID names one request: minted by the gateway, of fixed length, never taken from a client.
type RequestID string

// Tenant is whom a request belongs to. Requests of two tenants share cached pages only where the operator gives both the
// same Domain: the key of the identities is derived from it.
type Tenant struct {
	Name   string
	Domain string // trust domain; the tenant's own name unless the operator says otherwise
}
