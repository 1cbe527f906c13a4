package convert_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead/engine/convert"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
)

// widen reads a row back.
func widen(t gguf.Type, b []byte, n int) []float32 {
	k, _ := kernel.TypeOf(uint32(t))
	x := make([]float32, n)
	k.Row(x, b)
	return x
}

// What comes back is off by half a step at most: of the block's scale, or of the float's last place.
func TestQuantizeIsClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float32Range(-8, 8), 64, 64).Draw(t, "x")
		for _, to := range convert.Types() {
			got := widen(to, convert.Quantize(to, x), len(x))
			for i := range x {
				block := x[i/32*32:][:32]
				lo, hi := block[0], block[0]
				for _, v := range block {
					lo, hi = min(lo, v), max(hi, v)
				}
				most := max(hi, -lo)
				var off float32
				switch to {
				case gguf.F16:
					off = float32(math.Abs(float64(x[i])))/2048 + 1e-7
				case gguf.BF16:
					off = float32(math.Abs(float64(x[i])))/256 + 1e-38
				case gguf.Q8_0:
					off = most/127*0.5 + most/1000
				case gguf.Q4_0: // one end of the range has no step of its own: up to a whole one
					off = most/8 + most/1000
				case gguf.Q4_1:
					off = (hi-lo)/15*0.5 + most/500
				}
				if d := float32(math.Abs(float64(got[i] - x[i]))); !(d <= off) {
					t.Fatalf("%v: %v came back as %v, off by %v, at most %v", to, x[i], got[i], d, off)
				}
			}
		}
	})
}

// Blocks by hand, from the definition.
func TestQuantizeByHand(t *testing.T) {
	x := make([]float32, 32)
	x[0], x[1], x[2], x[17] = 127, -63.5, 0.5, 2.5
	q8 := convert.Quantize(gguf.Q8_0, x)
	if want := []byte{0, 0x3c, 127, 256 - 64, 1}; !bytes.Equal(q8[:5], want) || q8[2+17] != 3 { // halves go away from zero
		t.Errorf("Q8_0: %v, want %v", q8, want)
	}
	clear(x)
	x[0], x[16], x[1] = -8, 7, 0.4
	q4 := convert.Quantize(gguf.Q4_0, x)
	if want := []byte{0, 0x3c, 0xf0, 0x88}; !bytes.Equal(q4[:4], want) {
		t.Errorf("Q4_0: %v, want %v", q4, want)
	}
	x[0], x[16], x[1] = -1, 14, 0.4
	q41 := convert.Quantize(gguf.Q4_1, x)
	if want := []byte{0, 0x3c, 0, 0xbc, 0xf0, 0x11}; !bytes.Equal(q41[:6], want) {
		t.Errorf("Q4_1: %v, want %v", q41, want)
	}
}

// F16 narrows to what widens back to it, for all 65536 of them, and ties go to even.
func TestF16(t *testing.T) {
	for h := range 1 << 16 {
		b := binary.LittleEndian.AppendUint16(nil, uint16(h))
		x := widen(gguf.F16, b, 1)
		if x[0]-x[0] != 0 {
			continue
		}
		if got := convert.Quantize(gguf.F16, x); !bytes.Equal(got, b) {
			t.Fatalf("%04x widens to %v and narrows to %x", h, x[0], got)
		}
	}
	for _, c := range []struct {
		x    float32
		want uint16
	}{{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, {65519, 0x7bff}, {65520, 0x7c00}, {1.0 / (1 << 25), 0}, {3.0 / (1 << 25), 2}} {
		if got := binary.LittleEndian.Uint16(convert.Quantize(gguf.F16, []float32{c.x})); got != c.want {
			t.Errorf("%v narrows to %04x, want %04x", c.x, got, c.want)
		}
	}
}

func TestFile(t *testing.T) {
	source, err := gguf.Parse(enginetest.Model{Type: gguf.F32, Hidden: 100, Edit: func(w *gguf.Writer) {
		w.Set("general.file_type", uint32(99))
		w.Set("tokenizer.ggml.tokens", []string{"a", "b"})
	}}.GGUF(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, to := range convert.Types() {
		w, err := convert.File(source, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := w.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, to.String())
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		check(t, source, path, to)

		var done, total int64
		again := filepath.Join(dir, "again")
		if err := convert.Path(again, path, to, func(d, n int64) { done, total = d, n }); err != nil {
			t.Fatal(err)
		}
		if same, _ := os.ReadFile(again); !bytes.Equal(same, data) {
			t.Errorf("%v: converting to the same type changed the file", to)
		}
		if done != total || done == 0 {
			t.Errorf("%v: progress ended at %d of %d", to, done, total)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".convert-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func check(t *testing.T, source *gguf.File, path string, to gguf.Type) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if words, err := f.Strings("tokenizer.ggml.tokens"); err != nil || len(words) != 2 {
		t.Errorf("%v: metadata: %v, %v", to, words, err)
	}
	if n, err := f.Uint32("general.file_type"); err != nil || n == 99 {
		t.Errorf("%v: file type %d, %v", to, n, err)
	}
	for _, was := range source.Tensors() {
		is, ok := f.Tensor(was.Name)
		want := to
		if _, fits := to.RowBytes(was.Dims[0]); len(was.Dims) == 1 || !fits {
			want = gguf.F32
		}
		if !ok || is.Type != want {
			t.Errorf("%v: tensor %s is %v, want %v", to, was.Name, is, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	w := gguf.NewWriter()
	w.Add("m", gguf.F32, []int{32, 1}, binary.LittleEndian.AppendUint32(make([]byte, 124), math.Float32bits(float32(math.NaN()))))
	nan, _ := w.Bytes()
	w = gguf.NewWriter()
	w.Add("m", 12, []int{256, 1}, make([]byte, 144))
	kquant, _ := w.Bytes()
	for want, data := range map[string][]byte{
		`tensor "m" has NaN in row 0, column 31`: nan, `tensor "m" has type Q4_K, which cannot be read`: kquant,
	} {
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		if err := os.WriteFile(src, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := convert.Path(dst, src, gguf.Q8_0, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Error("a file was left that is not complete")
		}
	}
	if _, err := convert.TypeNamed("q9"); err == nil || !strings.Contains(err.Error(), "Q8_0") {
		t.Errorf("%v", err)
	}
	if to, err := convert.TypeNamed("q8_0"); err != nil || to != gguf.Q8_0 {
		t.Errorf("%v, %v", to, err)
	}
}
