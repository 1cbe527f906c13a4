// Package gguf reads and writes GGUF files, versions 2 and 3, little-endian.
//
// [Open] maps a file, [Parse] takes one that is in memory. Both check everything that the header says against the bytes
// that are there before they count on it, so a truncated or hostile file is a [FormatError] that names an offset and a
// reason: never a crash, and never an allocation larger than the file justifies.
//
//	f, err := gguf.Open("model.gguf")
//	arch, err := f.String("general.architecture")
//	heads, err := f.Uint32(arch + ".attention.head_count")
//	t, ok := f.Tensor("token_embd.weight") // t.Dims[0] is the length of a row
//
// Metadata is typed: a getter takes any integer width that fits what it returns, and its error names the key, what was
// found and what was wanted. [ErrMissing] marks a key that is not there.
//
// Tensor data is a view of the mapped file and is gone after [File.Close]. Whoever else can truncate the file while it is
// mapped can end the process; that is the price of not reading it twice.
//
// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf

import (
	"errors"
	"fmt"
	"slices"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	keyAlignment     = "general.alignment"

	maxKeyBytes  = 65535 // of the specification
	maxNameBytes = 64    // of a tensor, of the specification
	maxDims      = 4
	maxDepth     = 4 // arrays in arrays
)

// ErrMissing marks a key that a file does not have; test with errors.Is.
var ErrMissing = errors.New("not in the file")

// FormatError is a file that is not GGUF, or not all of it.
type FormatError struct {
	Offset int // where in the file
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("gguf: offset %d: %s", e.Offset, e.Reason) }

// File is a parsed file. It is not changed after it is made, so any number of goroutines may read it.
type File struct {
	Version   uint32
	Alignment int

	data    []byte
	keys    []string // in the order of the file
	values  map[string]Value
	tensors []Tensor
	byName  map[string]int
	unmap   func() error
}

// Tensor is one tensor of a file. Dims[0] is the length of a row; the others count rows.
type Tensor struct {
	Name   string
	Type   Type
	Dims   []int
	Offset int    // in the file
	Data   []byte // a view of the file
}

// Rows is the number of rows of Dims[0] elements.
func (t *Tensor) Rows() int {
	n := 1
	for _, d := range t.Dims[1:] {
		n *= d
	}
	return n
}

// Elements is the number of elements.
func (t *Tensor) Elements() int { return t.Dims[0] * t.Rows() }

// Parse reads a file that is in memory; the result refers to data.
func Parse(data []byte) (*File, error) {
	f := &File{data: data}
	if err := f.parse(); err != nil {
		return nil, err
	}
	return f, nil
}

// Close gives the mapping back. Tensor data must not be read after it; what getters returned stays.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap = nil
	return unmap()
}

// Size is the length of the file in bytes.
func (f *File) Size() int { return len(f.data) }

// Keys are the keys of the metadata in the order of the file.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Value is the value of a key.
func (f *File) Value(key string) (Value, bool) {
	v, ok := f.values[key]
	return v, ok
}

// Tensors are the tensors in the order of the file.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.tensors[i], true
}
