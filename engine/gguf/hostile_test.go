package gguf_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
)

var le = binary.LittleEndian

func header(version uint32, tensors, keys uint64) []byte {
	b := le.AppendUint32([]byte("GGUF"), version)
	return le.AppendUint64(le.AppendUint64(b, tensors), keys)
}

func text(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }

// key appends a key of a kind, without its value.
func key(b []byte, name string, kind gguf.Kind) []byte {
	return le.AppendUint32(text(b, name), uint32(kind))
}

// tensor appends what the header says of a tensor.
func tensor(b []byte, name string, kind gguf.Type, offset uint64, dims ...uint64) []byte {
	b = le.AppendUint32(text(b, name), uint32(len(dims)))
	for _, d := range dims {
		b = le.AppendUint64(b, d)
	}
	return le.AppendUint64(le.AppendUint32(b, uint32(kind)), offset)
}

func zeros(b []byte, n int) []byte { return append(b, make([]byte, n)...) }

func hostile() map[string][]byte {
	nested := key(header(3, 0, 1), "a", gguf.KindArray)
	for range 5 {
		nested = le.AppendUint64(le.AppendUint32(nested, uint32(gguf.KindArray)), 1)
	}
	nested = zeros(le.AppendUint32(nested, 0), 32)
	array := func(elem gguf.Kind, n uint64) []byte {
		b := le.AppendUint32(key(header(3, 0, 1), "a", gguf.KindArray), uint32(elem))
		return zeros(le.AppendUint64(b, n), 16)
	}
	one := func(kind gguf.Type, offset uint64, dims ...uint64) []byte {
		return zeros(tensor(header(3, 1, 0), "t", kind, offset, dims...), 64)
	}
	two := func(name string, offset uint64) []byte {
		b := tensor(header(3, 2, 0), "t", gguf.F32, 0, 9)
		return zeros(tensor(b, name, gguf.F32, offset, 9), 256)
	}
	aligned := func(n uint32) []byte {
		return le.AppendUint32(key(header(3, 0, 1), "general.alignment", gguf.KindUint32), n)
	}
	k := key(header(3, 0, 2), "k", gguf.KindUint8)
	return map[string][]byte{
		"wanted \"GGUF\": not a GGUF file":           zeros([]byte("GGML"), 20),
		"magic takes 4 bytes":                        []byte("GG"),
		"version 1: supported are 2 and 3":           header(1, 0, 0),
		"version 4: supported are 2 and 3":           header(4, 0, 0),
		"a big-endian file (version 3":               header(3<<24, 0, 0),
		"number of tensors is 18446744073709551615":  header(3, 1<<64-1, 0),
		"number of keys is 1000":                     zeros(header(3, 0, 1000), 999),
		"length of key is 99":                        zeros(le.AppendUint64(header(3, 0, 1), 99), 50),
		"key of 0 bytes":                             zeros(header(3, 0, 1), 16),
		"key \"k\" occurs twice":                     key(append(k, 0), "k", gguf.KindUint8),
		"value of kind 13":                           zeros(key(header(3, 0, 1), "k", 13), 8),
		"bool is 2":                                  append(key(header(3, 0, 1), "k", gguf.KindBool), 2),
		"length of string is 4294967296":             zeros(le.AppendUint64(key(header(3, 0, 1), "k", gguf.KindString), 1<<32), 8),
		"nested deeper than 4":                       nested,
		"length of an array of uint8 is 17":          array(gguf.KindUint8, 17),
		"length of an array of string is 3":          array(gguf.KindString, 3),
		"length of an array of float64 is 184467440": array(gguf.KindFloat64, 1<<64-1),
		"length of an array of array is 2":           array(gguf.KindArray, 2),
		"array of kind 77":                           array(77, 1),
		"general.alignment is 24":                    aligned(24),
		"general.alignment is 0":                     aligned(0),
		"\"general.alignment\": found float32":       zeros(key(header(3, 0, 1), "general.alignment", gguf.KindFloat32), 4),
		"has a dimension of 0":                       one(gguf.F32, 0, 4, 0),
		"has a dimension of 1099511627776":           one(gguf.F32, 0, 1<<40),
		"has 5 dimensions":                           one(gguf.F32, 0, 1, 1, 1, 1, 1),
		"has 0 dimensions":                           one(gguf.F32, 0),
		"product of its dimensions overflows":        one(gguf.F32, 0, 1<<30, 1<<30, 1<<30),
		"has type 99, which is not known":            one(99, 0, 4),
		"rows of 33 elements, Q4_0 takes multiples":  one(gguf.Q4_0, 0, 33),
		"is at 8 of the data":                        one(gguf.F32, 8, 4),
		"is at 18446744073709551584 of the data":     one(gguf.F32, 1<<64-32, 4),
		"takes 4096 bytes, the whole file has":       one(gguf.F32, 0, 1024),
		"truncated?":                                 one(gguf.F32, 0, 20),
		"tensor \"t\" occurs twice":                  two("t", 64),
		"\"t\" and \"u\" overlap":                    two("u", 32),
		"name of a tensor has 65 bytes":              zeros(tensor(header(3, 1, 0), strings.Repeat("n", 65), gguf.F32, 0, 1), 64),
	}
}

func TestHostile(t *testing.T) {
	for want, data := range hostile() {
		_, err := gguf.Parse(data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
			continue
		}
		var format *gguf.FormatError
		if !errors.As(err, &format) && !strings.Contains(want, "found") {
			t.Errorf("%v is no FormatError", err)
		} else if format != nil && (format.Offset < 0 || format.Offset > len(data)) {
			t.Errorf("%v: the offset is outside of the file's %d bytes", err, len(data))
		}
	}
}

// Every prefix of a good file is refused or, past the last byte of data, read.
func TestTruncated(t *testing.T) {
	data := small(t)
	for n := range data {
		if _, err := gguf.Parse(data[:n:n]); err == nil && n < len(data)-31 {
			t.Fatalf("%d of %d bytes were taken for a whole file", n, len(data))
		}
	}
}

// A header that promises much must not cost much.
func TestNoAllocationOnPromise(t *testing.T) {
	for want, data := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		gguf.Parse(data)
		runtime.ReadMemStats(&after)
		bytes := int64(after.TotalAlloc - before.TotalAlloc)
		if bytes > 64*int64(len(data))+16<<10 {
			t.Errorf("%s: %d bytes allocated for a file of %d", want, bytes, len(data))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small(f))
	for _, data := range hostile() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		for _, k := range file.Keys() {
			file.String(k)
			file.Strings(k)
			file.Uint32(k)
			file.Int32s(k)
			file.Float32(k)
			file.Float32s(k)
			file.Bool(k)
		}
		total := 0
		for _, tensor := range file.Tensors() {
			total += len(tensor.Data)
			if size, ok := tensor.Type.RowBytes(tensor.Dims[0]); !ok || size*tensor.Rows() != len(tensor.Data) {
				t.Fatalf("tensor %q has %d bytes of data", tensor.Name, len(tensor.Data))
			}
		}
		if total > len(data) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(data))
		}
	})
}
