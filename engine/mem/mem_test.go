package mem

import (
	"runtime"
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	for _, n := range []int{0, 1, 63, 4096, 2<<20 - 1, 2 << 20, 5<<20 + 7} {
		data, release, err := Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != n || cap(data) != n {
			t.Fatalf("%d bytes: len %d, cap %d", n, len(data), cap(data))
		}
		for i, b := range data {
			if b != 0 {
				t.Fatalf("%d bytes: byte %d is %d", n, i, b)
			}
			data[i] = 1
		}
		align := uintptr(Align)
		if runtime.GOOS == "linux" && n >= 2<<20 {
			align = 2 << 20
		}
		if n > 0 && uintptr(unsafe.Pointer(&data[0]))%align != 0 {
			t.Errorf("%d bytes at %p, not aligned to %d", n, &data[0], align)
		}
		release()
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, n := range []int{-1, int(^uint(0) >> 1)} {
		if _, _, err := Alloc(n); err == nil {
			t.Errorf("%d bytes: no error", n)
		}
	}
}
