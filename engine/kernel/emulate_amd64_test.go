package kernel

import (
	"os"
	"testing"
	"unsafe"
)

// emulated is the set of AVX-512 with every kernel of its own run by the emulator; nil where there is none.
func emulated(t testing.TB) *Set {
	if os.Getenv(emulateEnv) == "" {
		return nil
	}
	e, err := startEmulator()
	if err != nil {
		t.Fatal(err)
	}
	s := *avx512Set
	s.Name = emulatedName
	for i, tiles := range avx512Set.mul {
		s.mul[i] = nil
		for _, k := range tiles {
			s.mul[i] = append(s.mul[i], tile{k.rows, func(a *mulArgs) { e.call(symbolOf(k.mul), a, "dst") }})
		}
	}
	lines := func(tiles []linesTile) (out []linesTile) {
		for _, k := range tiles {
			out = append(out, linesTile{k.rows, func(a *linesArgs) { e.call(symbolOf(k.run), a, "out", "fold", "columns") }})
		}
		return out
	}
	s.f32, s.keys, s.values, s.raw = lines(s.f32), lines(s.keys), lines(s.values), lines(s.raw)
	s.softmax = e.softmax
	return &s
}

func (e *emulator) softmax(x []float32, n int, scale float32) (maximum, den float32) {
	a := newSoftmaxArgs(x, n, scale)
	image := e.call(symbolOf(softmaxAVX512), &a, "x")
	return f32At(image[unsafe.Offsetof(a.maximum):]), f32At(image[unsafe.Offsetof(a.den):])
}

// The emulator finds a kernel that goes past what it was given.
func TestEmulatorFaults(t *testing.T) {
	s := emulated(t)
	if s == nil {
		t.Skipf("no emulator: run emulate/run, which sets %s", emulateEnv)
	}
	a := mulArgs{dst: make([]float32, 16), stride: 16, w: make([]byte, 544), panelBytes: 544, panels: 1, cols: 32,
		q: make([]int8, 32), scale: make([]float32, 1), qsum: make([]int32, 1), blocks: 1}
	s.mul[q8_0Type][3].mul(&a)
	a.w = a.w[:543]
	mustPanic(t, "a weight that is too short", func() { s.mul[q8_0Type][3].mul(&a) })
	a.w, a.dst = a.w[:544], a.dst[:15]
	mustPanic(t, "outputs without room", func() { s.mul[q8_0Type][3].mul(&a) })
}
