// Package mem is memory for weights and KV pages, outside the Go heap: anonymous mappings with huge pages on Linux, which
// one thread reads about a third faster than the heap, and which the garbage collector never looks at. Elsewhere it is
// ordinary memory.
package mem

import (
	"fmt"
	"unsafe"
)

// Align is what the memory is aligned to at least: a cache line, and a full vector register.
const Align = 64

// Alloc gives n zero bytes and the function that gives them back. After that nobody may touch them: where they were a
// mapping, it is a fault that cannot be recovered from.
func Alloc(n int) (data []byte, release func(), err error) {
	if n < 0 || uint64(n) > 1<<46 {
		return nil, nil, fmt.Errorf("memory: %d bytes", n)
	}
	if n == 0 {
		return nil, func() {}, nil
	}
	return alloc(n)
}

// heap is Alloc in ordinary memory.
func heap(n int) ([]byte, func(), error) {
	all := make([]byte, n+Align)
	at := int(-uintptr(unsafe.Pointer(&all[0])) % Align)
	return all[at : at+n : at+n], func() {}, nil
}
