package gguf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// small is a file with a value of each sort and two tensors.
func small(t testing.TB) []byte {
	t.Helper()
	w := gguf.NewWriter()
	w.Set("general.architecture", "llama")
	w.Set("yes", true)
	w.Set("u", uint32(7))
	w.Set("i", int32(-7))
	w.Set("big", uint64(1)<<63)
	w.Set("x", float32(0.5))
	w.Set("words", []string{"a", "", "bcd"})
	w.Set("ints", []int32{-1, 2})
	w.Set("uints", []uint32{1, 1 << 31})
	w.Set("floats", []float32{1, 2.5})
	w.Set("truths", []bool{true, false})
	w.Add("m", gguf.F32, []int{2, 3}, make([]byte, 24))
	w.Add("q", gguf.Q8_0, []int{64, 1}, bytes.Repeat([]byte{1}, 68))
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	f, err := gguf.Parse(small(t))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	s, err := f.String("general.architecture")
	check("string", s, "llama", err)
	b, err := f.Bool("yes")
	check("bool", b, true, err)
	u, err := f.Uint32("u")
	check("uint32", u, uint32(7), err)
	x, err := f.Float32("x")
	check("float32", x, float32(0.5), err)
	words, err := f.Strings("words")
	check("strings", strings.Join(words, "|"), "a||bcd", err)
	ints, err := f.Int32s("ints")
	check("int32s", slices.Equal(ints, []int32{-1, 2}), true, err)
	floats, err := f.Float32s("floats")
	check("float32s", slices.Equal(floats, []float32{1, 2.5}), true, err)
	n, err := gguf.Or(uint32(3))(f.Uint32("absent"))
	check("fallback", n, uint32(3), err)

	q, ok := f.Tensor("q")
	if !ok || q.Type != gguf.Q8_0 || q.Rows() != 1 || q.Elements() != 64 || !bytes.Equal(q.Data, bytes.Repeat([]byte{1}, 68)) {
		t.Errorf("tensor q: %+v", q)
	}
	if q.Offset%f.Alignment != 0 {
		t.Errorf("tensor q at %d is not aligned", q.Offset)
	}
}

// A getter that finds another type says the key, what was found and what was wanted.
func TestGetterErrors(t *testing.T) {
	f, err := gguf.Parse(small(t))
	if err != nil {
		t.Fatal(err)
	}
	get := map[string]func(string) error{
		"string":  func(k string) error { _, err := f.String(k); return err },
		"strings": func(k string) error { _, err := f.Strings(k); return err },
		"uint32":  func(k string) error { _, err := f.Uint32(k); return err },
		"int32s":  func(k string) error { _, err := f.Int32s(k); return err },
		"float32": func(k string) error { _, err := f.Float32(k); return err },
		"floats":  func(k string) error { _, err := f.Float32s(k); return err },
		"bool":    func(k string) error { _, err := f.Bool(k); return err },
	}
	for _, c := range []struct{ getter, key, want string }{
		{"string", "u", `key "u": found uint32 7, wanted string`},
		{"uint32", "i", `key "i": found int32 -7, wanted an integer from 0 to 4294967295`},
		{"uint32", "big", `key "big": found uint64, wanted an integer`},
		{"uint32", "words", `found array of 3 string, wanted an integer`},
		{"strings", "ints", `found array of 2 int32, wanted array of string`},
		{"int32s", "floats", `found array of 2 float32, wanted array of integers`},
		{"int32s", "uints", `found array of 2 uint32, wanted array of integers of 32 bits`},
		{"int32s", "truths", `found array of 2 bool`},
		{"floats", "x", `found float32, wanted array of float32`},
		{"float32", "u", `found uint32 7, wanted float32`},
		{"bool", "u", `found uint32 7, wanted bool`},
	} {
		if err := get[c.getter](c.key); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v; want %q", c.getter, c.key, err, c.want)
		}
	}
	for name, getter := range get {
		if err := getter("absent"); !errors.Is(err, gguf.ErrMissing) || !strings.Contains(err.Error(), `"absent"`) {
			t.Errorf("%s of an absent key: %v", name, err)
		}
	}
}

// Integers of every width are one to a getter.
func TestIntegerWidths(t *testing.T) {
	for kind, raw := range map[gguf.Kind][]byte{
		gguf.KindUint8: {9}, gguf.KindInt8: {9}, gguf.KindUint16: {9, 0}, gguf.KindInt16: {9, 0},
		gguf.KindUint32: {9, 0, 0, 0}, gguf.KindInt32: {9, 0, 0, 0},
		gguf.KindUint64: {9, 0, 0, 0, 0, 0, 0, 0}, gguf.KindInt64: {9, 0, 0, 0, 0, 0, 0, 0},
	} {
		b := header(3, 0, 1)
		b = text(b, "n")
		b = append(binary.LittleEndian.AppendUint32(b, uint32(kind)), raw...)
		f, err := gguf.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.Uint32("n"); n != 9 || err != nil {
			t.Errorf("%v: %d, %v", kind, n, err)
		}
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, small(t), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Tensor("m"); !ok {
		t.Error("tensor m is missing")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error("the second Close:", err)
	}
	for _, bad := range []string{filepath.Dir(path), path + ".absent"} {
		if _, err := gguf.Open(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Files that others wrote.
func TestForeignFiles(t *testing.T) {
	for _, c := range []struct {
		path    []string
		tensors int
	}{
		{[]string{"models", "stories260K", "stories260K-f32.gguf"}, 48},
		{[]string{"models", "tinystories-656K", "TinyStories-656K-f32.gguf"}, 20},
		{[]string{"vocab", "ggml-vocab-llama-spm.gguf"}, 0},
		{[]string{"vocab", "ggml-vocab-falcon.gguf"}, 0},
	} {
		f, err := gguf.Open(testdata.Path(t, c.path...))
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := f.Strings("tokenizer.ggml.tokens")
		if err != nil || len(tokens) < 512 || len(f.Tensors()) != c.tensors {
			t.Errorf("%s: %d tokens, %d tensors, %v", c.path, len(tokens), len(f.Tensors()), err)
		}
		f.Close()
	}
}
