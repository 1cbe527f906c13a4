package kernel

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// emulateEnv names a command that runs single functions on an emulated CPU: see emulate/run. With it, every test of this
// package also runs the set of AVX-512, on machines that do not have it.
const emulateEnv = "BULKHEAD_EMULATOR"

const emulatedName = "avx512vnni emulated"

// emulator is the other end of emulate.py.
type emulator struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

var startEmulator = sync.OnceValues(func() (*emulator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append(strings.Fields(os.Getenv(emulateEnv)), self)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &emulator{in: in, out: bufio.NewReader(out)}, cmd.Start()
})

// region is memory of the emulated machine. Each starts on its own page, ends at the end of a page, and has nothing mapped
// behind it, so that a function that goes past it faults.
type region struct {
	at     uint64
	data   []byte
	wanted bool
}

const (
	emulatedHeap = 128 << 20
	emulatedPage = 4096
)

// heap hands out regions.
type heap struct {
	next    uint64
	regions []*region
}

func (h *heap) put(data []byte, wanted bool) uint64 {
	if len(data) == 0 {
		return 0
	}
	pages := (uint64(len(data)) + emulatedPage - 1) / emulatedPage
	at := h.next + pages*emulatedPage - uint64(len(data))
	h.next += (pages + 1) * emulatedPage
	h.regions = append(h.regions, &region{at, data, wanted})
	return at
}

// call runs a kernel whose argument is a pointer to a struct. Each slice or pointer in it becomes a region; those named in wanted
// are copied back. It returns the struct as the kernel left it.
func (e *emulator) call(symbol string, args any, wanted ...string) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := heap{next: emulatedHeap}
	v := reflect.ValueOf(args).Elem()
	image := make([]byte, v.Type().Size())
	copy(image, unsafe.Slice((*byte)(v.Addr().UnsafePointer()), len(image)))
	for i := range v.NumField() {
		f := v.Field(i)
		n := 0 // values that the field points to
		switch {
		case f.Kind() == reflect.Slice:
			n = f.Len()
		case f.Kind() == reflect.Pointer && !f.IsNil():
			n = 1
		case f.Kind() != reflect.Pointer:
			continue
		}
		want := slices.Contains(wanted, v.Type().Field(i).Name)
		bytes := unsafe.Slice((*byte)(f.UnsafePointer()), n*int(f.Type().Elem().Size()))
		binary.LittleEndian.PutUint64(image[v.Type().Field(i).Offset:], h.put(bytes, want))
	}
	argument := h.put(image, true)
	if err := e.exchange(symbol, h.regions, argument); err != nil {
		panic(err)
	}
	runtime.KeepAlive(args)
	return image
}

// exchange sends a request and fills the regions that were wanted.
func (e *emulator) exchange(symbol string, regions []*region, argument uint64) error {
	le := binary.LittleEndian
	request := le.AppendUint32(nil, uint32(len(symbol)))
	request = append(request, symbol...)
	request = le.AppendUint32(request, uint32(len(regions)))
	for _, r := range regions {
		request = le.AppendUint64(request, r.at)
		request = le.AppendUint32(request, uint32(len(r.data)))
		request = le.AppendUint32(request, map[bool]uint32{true: 1}[r.wanted])
		request = append(request, r.data...)
	}
	request = le.AppendUint64(request, argument)
	if _, err := e.in.Write(request); err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	var n uint32
	if err := binary.Read(e.out, le, &n); err != nil {
		return fmt.Errorf("emulator: %w", err)
	}
	if n > 0 {
		text := make([]byte, n)
		_, err := io.ReadFull(e.out, text)
		return fmt.Errorf("emulator: %s %v", text, err)
	}
	for _, r := range regions {
		if r.wanted {
			if _, err := io.ReadFull(e.out, r.data); err != nil {
				return fmt.Errorf("emulator: %w", err)
			}
		}
	}
	return nil
}

// symbolOf is the name of an assembly function.
func symbolOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }
