package mem

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// alloc maps whole huge pages for what is at least one, so that it starts on one: a mapping that is a huge page too long
// holds such a place. What is before and behind is never touched and takes no memory.
func alloc(n int) ([]byte, func(), error) {
	if n < hugePage {
		return heap(n)
	}
	size := (n + hugePage - 1) / hugePage * hugePage
	all, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("memory: %d bytes: %w", n, err)
	}
	at := int(-uintptr(unsafe.Pointer(&all[0])) % hugePage)
	_ = unix.Madvise(all[at:at+size], unix.MADV_HUGEPAGE) // a kernel without huge pages refuses, and that is all right
	return all[at : at+n : at+n], func() { _ = unix.Munmap(all) }, nil
}
