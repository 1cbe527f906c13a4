package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// tensorInfo reads what the header says of one tensor. Offset is relative to the data until locate makes it absolute;
// Data has the right length and nothing more until then.
func (f *File) tensorInfo(p *parser) error {
	start := p.at
	b, err := p.str("name of a tensor")
	if err != nil {
		return err
	}
	t := Tensor{Name: string(b)}
	if len(b) == 0 || len(b) > maxNameBytes {
		return &FormatError{start, fmt.Sprintf("name of a tensor has %d bytes, must be 1 to %d", len(b), maxNameBytes)}
	}
	if _, twice := f.byName[t.Name]; twice {
		return &FormatError{start, fmt.Sprintf("tensor %q occurs twice", t.Name)}
	}
	n, err := p.uint32("number of dimensions")
	if err != nil {
		return err
	}
	if n < 1 || n > maxDims {
		return &FormatError{start, fmt.Sprintf("tensor %q has %d dimensions, must be 1 to %d", t.Name, n, maxDims)}
	}
	b, err = p.take(8*int(n)+4+8, "dimensions, type and offset of a tensor")
	if err != nil {
		return err
	}
	t.Type = Type(binary.LittleEndian.Uint32(b[8*n:]))
	size, err := t.shape(b[:8*n])
	if err != nil {
		return &FormatError{start, err.Error()}
	}
	offset := binary.LittleEndian.Uint64(b[8*n+4:])
	if offset > uint64(len(f.data)) || offset%uint64(f.Alignment) != 0 {
		return &FormatError{start, fmt.Sprintf("tensor %q is at %d of the data, must be a multiple of %d within the file",
			t.Name, offset, f.Alignment)}
	}
	if size > len(f.data) {
		return &FormatError{start, fmt.Sprintf("tensor %q takes %d bytes, the whole file has %d", t.Name, size, len(f.data))}
	}
	t.Offset, t.Data = int(offset), f.data[:size:size]
	f.byName[t.Name] = len(f.tensors)
	f.tensors = append(f.tensors, t)
	return nil
}

// shape reads the dimensions and gives the size in bytes.
func (t *Tensor) shape(b []byte) (size int, err error) {
	rows, ok := 1, true
	for i := 0; i < len(b); i += 8 {
		d := binary.LittleEndian.Uint64(b[i:])
		if d == 0 || d > math.MaxInt32 {
			return 0, fmt.Errorf("tensor %q has a dimension of %d, must be 1 to %d", t.Name, d, math.MaxInt32)
		}
		t.Dims = append(t.Dims, int(d))
		if i > 0 {
			if rows, ok = mul(rows, int(d)); !ok {
				return 0, fmt.Errorf("tensor %q: the product of its dimensions overflows", t.Name)
			}
		}
	}
	b0, known := blocks[t.Type]
	if !known {
		return 0, fmt.Errorf("tensor %q has %v, which is not known", t.Name, t.Type)
	}
	row, ok := t.Type.RowBytes(t.Dims[0])
	if !ok {
		return 0, fmt.Errorf("tensor %q has rows of %d elements, %s takes multiples of %d", t.Name, t.Dims[0], b0.name, b0.n)
	}
	if size, ok = mul(row, rows); !ok {
		return 0, fmt.Errorf("tensor %q: the product of its dimensions overflows", t.Name)
	}
	return size, nil
}

// locate makes offsets absolute, takes the views and refuses tensors that overlap or reach past the end.
func (f *File) locate(p *parser) error {
	start := (p.at + f.Alignment - 1) / f.Alignment * f.Alignment
	order := make([]*Tensor, len(f.tensors))
	for i := range f.tensors {
		t := &f.tensors[i]
		size := len(t.Data)
		if t.Offset > len(f.data)-start || size > len(f.data)-start-t.Offset {
			return &FormatError{len(f.data), fmt.Sprintf("tensor %q lies at %d and takes %d bytes, the file has %d: truncated?",
				t.Name, uint64(t.Offset)+uint64(start), size, len(f.data))}
		}
		t.Offset += start
		t.Data = f.data[t.Offset : t.Offset+size : t.Offset+size]
		order[i] = t
	}
	slices.SortFunc(order, func(a, b *Tensor) int { return a.Offset - b.Offset })
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if a.Offset+len(a.Data) > b.Offset {
			return &FormatError{b.Offset, fmt.Sprintf("tensors %q and %q overlap", a.Name, b.Name)}
		}
	}
	return nil
}
