package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// eachSet runs a test for every set that this machine has or emulates.
func eachSet(t *testing.T, test func(t *testing.T, s *Set)) {
	sets := All()
	if s := emulated(t); s != nil {
		sets = []*Set{s}
	}
	for _, s := range sets {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

func drawRand(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
}

func normal(rng *rand.Rand, x []float32) []float32 {
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// fileMatrix is a random matrix in the file's form. Quantised values take every bit pattern, scales are small numbers.
func fileMatrix(rng *rand.Rand, t *Type, rows, cols int) []byte {
	data := make([]byte, rows*t.RowBytes(cols))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for b := data; len(b) > 0; b = b[t.BlockBytes:] {
		v := float32(rng.NormFloat64() * 0.1)
		switch t.Name {
		case "F32":
			binary.LittleEndian.PutUint32(b, math.Float32bits(v))
		case "BF16":
			binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(v)>>16))
		case "Q4_1":
			binary.LittleEndian.PutUint16(b[2:], toF16(float32(rng.NormFloat64())))
			fallthrough
		default:
			binary.LittleEndian.PutUint16(b, toF16(v))
		}
	}
	return data
}

func pack(t *Type, file []byte, rows, cols int) *Weight {
	w := &Weight{Type: t, Rows: rows, Cols: cols, Data: make([]byte, t.PackedBytes(rows, cols))}
	t.Pack(w.Data, file, rows, cols)
	return w
}

func sameBits(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// bound is how far two sets' sums of n products may lie apart when the products' magnitudes add up to total.
func bound(n int, total float64) float64 { return 2 * float64(n+2) * total / (1 << 24) }

// ulps is how many representable numbers a is from b, for numbers of one sign.
func ulps(a, b float32) int {
	d := int(int32(math.Float32bits(a))) - int(int32(math.Float32bits(b)))
	return max(d, -d)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

// fataler is what the helpers need of a test or of one of its cases.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// mustNotAllocate checks that f allocates nothing. The emulator does.
func mustNotAllocate(t *testing.T, s *Set, what string, f func()) {
	t.Helper()
	if s.Name == emulatedName {
		t.Skip("emulated")
	}
	if n := testing.AllocsPerRun(20, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}
