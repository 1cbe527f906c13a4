package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Writer makes a file of version 3: keys and tensors are collected, then WriteTo writes them in the order in which they
// came. Its methods panic on what no correct caller does: a key of a type that the format has not, one that comes twice.
type Writer struct {
	keys    []string
	values  map[string][]byte // encoded, kind in front
	tensors []written
}

// written is a tensor to be written: its data is made when its turn comes, so a large file is never in memory at once.
type written struct {
	name string
	kind Type
	dims []int
	size int
	data func(io.Writer) error
}

// NewWriter makes an empty file.
func NewWriter() *Writer { return &Writer{values: map[string][]byte{}} }

// Set sets a key, in its old place where it is there already. A value is a string, bool, int32, uint32, uint64, float32, a
// slice of string, int32, uint32, float32 or bool, or a [Value] of another file.
func (w *Writer) Set(key string, value any) {
	if _, ok := w.values[key]; !ok {
		w.keys = append(w.keys, key)
	}
	w.values[key] = encode(value)
}

func encode(value any) []byte {
	le := binary.LittleEndian
	kind := func(k Kind) []byte { return le.AppendUint32(nil, uint32(k)) }
	switch v := value.(type) {
	case Value:
		return v.AppendEncoding(nil)
	case string:
		return appendString(kind(KindString), v)
	case bool:
		return append(kind(KindBool), truth(v))
	case int32:
		return le.AppendUint32(kind(KindInt32), uint32(v))
	case uint32:
		return le.AppendUint32(kind(KindUint32), v)
	case uint64:
		return le.AppendUint64(kind(KindUint64), v)
	case float32:
		return le.AppendUint32(kind(KindFloat32), math.Float32bits(v))
	case []string:
		return encodeArray(KindString, v, appendString)
	case []int32:
		return encodeArray(KindInt32, v, func(b []byte, n int32) []byte { return le.AppendUint32(b, uint32(n)) })
	case []uint32:
		return encodeArray(KindUint32, v, le.AppendUint32)
	case []float32:
		return encodeArray(KindFloat32, v, func(b []byte, x float32) []byte { return le.AppendUint32(b, math.Float32bits(x)) })
	case []bool:
		return encodeArray(KindBool, v, func(b []byte, t bool) []byte { return append(b, truth(t)) })
	}
	panic(fmt.Sprintf("gguf: a value of type %T", value))
}

func encodeArray[T any](elem Kind, values []T, add func([]byte, T) []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(KindArray))
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
	for _, v := range values {
		b = add(b, v)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func truth(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// Add adds a tensor with its data.
func (w *Writer) Add(name string, t Type, dims []int, data []byte) {
	w.AddFunc(name, t, dims, func(to io.Writer) error {
		_, err := to.Write(data)
		return err
	})
}

// AddFunc adds a tensor whose data is made when it is written.
func (w *Writer) AddFunc(name string, t Type, dims []int, data func(io.Writer) error) {
	size, ok := t.RowBytes(dims[0])
	if !ok {
		panic(fmt.Sprintf("gguf: tensor %q: rows of %d do not fit %v", name, dims[0], t))
	}
	for _, d := range dims[1:] {
		size *= d
	}
	w.tensors = append(w.tensors, written{name, t, dims, size, data})
}

// WriteTo writes the file. An error is the writer's, or names a tensor that made too much or too little data.
func (w *Writer) WriteTo(to io.Writer) (int64, error) {
	out := &counted{w: bufio.NewWriterSize(to, 1<<20)}
	out.Write(w.header())
	for _, t := range w.tensors {
		out.pad(defaultAlignment)
		before := out.n
		if err := t.data(out); err != nil {
			return out.n, err
		}
		if n := out.n - before; out.err == nil && n != int64(t.size) {
			return out.n, fmt.Errorf("gguf: tensor %q made %d bytes of data, takes %d", t.name, n, t.size)
		}
	}
	out.pad(defaultAlignment)
	if out.err == nil {
		out.err = out.w.Flush()
	}
	return out.n, out.err
}

// Bytes is the whole file in memory.
func (w *Writer) Bytes() ([]byte, error) {
	var b bytes.Buffer
	_, err := w.WriteTo(&b)
	return b.Bytes(), err
}

func (w *Writer) header() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(magic), 3)
	b = le.AppendUint64(b, uint64(len(w.tensors)))
	b = le.AppendUint64(b, uint64(len(w.keys)))
	for _, key := range w.keys {
		b = append(appendString(b, key), w.values[key]...)
	}
	offset := 0
	for _, t := range w.tensors {
		b = appendString(b, t.name)
		b = le.AppendUint32(b, uint32(len(t.dims)))
		for _, d := range t.dims {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, uint32(t.kind))
		b = le.AppendUint64(b, uint64(offset))
		offset += (t.size + defaultAlignment - 1) / defaultAlignment * defaultAlignment
	}
	return b
}

// counted counts what is written and keeps the first error.
type counted struct {
	w   *bufio.Writer
	n   int64
	err error
}

func (c *counted) Write(b []byte) (int, error) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
	c.n += int64(len(b))
	return len(b), c.err
}

func (c *counted) pad(to int64) {
	var zero [64]byte
	c.Write(zero[:(to-c.n%to)%to])
}
