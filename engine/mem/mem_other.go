//go:build !linux

package mem

func alloc(n int) ([]byte, func(), error) { return heap(n) }
