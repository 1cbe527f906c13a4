package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// parser reads forward through a file. Every length is checked against what is left before it is used or allocated.
type parser struct {
	data []byte
	at   int
}

func (p *parser) fail(format string, args ...any) error {
	return &FormatError{Offset: p.at, Reason: fmt.Sprintf(format, args...)}
}

func (p *parser) left() int { return len(p.data) - p.at }

// take is the next n bytes.
func (p *parser) take(n int, what string) ([]byte, error) {
	if n > p.left() {
		return nil, p.fail("%s takes %d bytes, the file has %d more", what, n, p.left())
	}
	b := p.data[p.at : p.at+n : p.at+n]
	p.at += n
	return b, nil
}

func (p *parser) uint32(what string) (uint32, error) {
	b, err := p.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// count reads a number of things that take at least size bytes each.
func (p *parser) count(size int, what string) (int, error) {
	start := p.at
	b, err := p.take(8, what)
	if err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(p.left()/size) {
		return 0, &FormatError{start, fmt.Sprintf("%s is %d, more than the %d bytes that follow can hold", what, n, p.left())}
	}
	return int(n), nil
}

func (p *parser) str(what string) ([]byte, error) {
	n, err := p.count(1, "length of "+what)
	if err != nil {
		return nil, err
	}
	return p.take(n, what)
}

func (f *File) parse() error {
	p := &parser{data: f.data}
	tensors, keys, err := f.header(p)
	if err != nil {
		return err
	}
	f.values = make(map[string]Value, keys)
	f.keys = make([]string, 0, keys)
	for range keys {
		if err := f.keyValue(p); err != nil {
			return err
		}
	}
	if err := f.alignment(p); err != nil {
		return err
	}
	f.byName = make(map[string]int, tensors)
	f.tensors = make([]Tensor, 0, tensors)
	for range tensors {
		if err := f.tensorInfo(p); err != nil {
			return err
		}
	}
	return f.locate(p)
}

func (f *File) header(p *parser) (tensors, keys int, err error) {
	b, err := p.take(4, "magic")
	if err != nil {
		return 0, 0, err
	}
	if string(b) != magic {
		return 0, 0, &FormatError{0, fmt.Sprintf("magic is %q, wanted %q: not a GGUF file", b, magic)}
	}
	if f.Version, err = p.uint32("version"); err != nil {
		return 0, 0, err
	}
	switch v := f.Version; {
	case v == 2 || v == 3:
	case v&0xffff == 0 && v != 0:
		return 0, 0, &FormatError{4, fmt.Sprintf("a big-endian file (version %d when read the other way round): "+
			"only little-endian ones are supported", bits.ReverseBytes32(v))}
	default:
		return 0, 0, &FormatError{4, fmt.Sprintf("version %d: supported are 2 and 3", v)}
	}
	const tensorBytes, keyBytes = 8 + 4 + 8 + 4 + 8, 8 + 4 + 1 // the least that one takes
	if tensors, err = p.count(tensorBytes, "number of tensors"); err != nil {
		return 0, 0, err
	}
	keys, err = p.count(keyBytes, "number of keys")
	return tensors, keys, err
}

func (f *File) keyValue(p *parser) error {
	start := p.at
	b, err := p.str("key")
	if err != nil {
		return err
	}
	key := string(b)
	if len(b) == 0 || len(b) > maxKeyBytes {
		return &FormatError{start, fmt.Sprintf("key of %d bytes, must be 1 to %d", len(b), maxKeyBytes)}
	}
	if _, twice := f.values[key]; twice {
		return &FormatError{start, fmt.Sprintf("key %q occurs twice", key)}
	}
	kind, err := p.uint32("kind of a value")
	if err != nil {
		return err
	}
	v, err := p.value(Kind(kind), 0)
	if err != nil {
		return err
	}
	f.values[key] = v
	f.keys = append(f.keys, key)
	return nil
}

// value reads a value of the kind; depth counts the arrays around it.
func (p *parser) value(kind Kind, depth int) (Value, error) {
	v := Value{Kind: kind}
	var err error
	switch {
	case !kind.known():
		return v, p.fail("value of %v: the format has kinds 0 to %d", kind, len(kindNames)-1)
	case kind == KindString:
		v.raw, err = p.str("string")
	case kind == KindArray:
		return p.array(depth + 1)
	default:
		v.raw, err = p.take(kindBytes[kind], kind.String())
		if err == nil && kind == KindBool && v.raw[0] > 1 {
			return v, p.fail("bool is %d, must be 0 or 1", v.raw[0])
		}
	}
	return v, err
}

// array walks over an array; what its elements are is checked, and nothing is allocated for them.
func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: KindArray}
	if depth > maxDepth {
		return v, p.fail("arrays nested deeper than %d", maxDepth)
	}
	elem, err := p.uint32("kind of an array's elements")
	if err != nil {
		return v, err
	}
	if v.Elem = Kind(elem); !v.Elem.known() {
		return v, p.fail("array of %v: the format has kinds 0 to %d", v.Elem, len(kindNames)-1)
	}
	least := kindBytes[v.Elem]
	switch v.Elem {
	case KindString:
		least = 8
	case KindArray:
		least = 12
	}
	if v.Len, err = p.count(least, "length of an array of "+v.Elem.String()); err != nil {
		return v, err
	}
	start := p.at
	if v.Elem == KindString || v.Elem == KindArray || v.Elem == KindBool {
		for range v.Len {
			if _, err := p.value(v.Elem, depth); err != nil {
				return v, err
			}
		}
		v.raw = p.data[start:p.at:p.at]
		return v, nil
	}
	v.raw, err = p.take(v.Len*least, "array")
	return v, err
}

func (f *File) alignment(p *parser) error {
	f.Alignment = defaultAlignment
	if !f.Has(keyAlignment) {
		return nil
	}
	n, err := f.Uint32(keyAlignment)
	if err != nil {
		return err
	}
	if n == 0 || n&(n-1) != 0 || n > 1<<20 {
		return p.fail("%s is %d, must be a power of two up to %d", keyAlignment, n, 1<<20)
	}
	f.Alignment = int(n)
	return nil
}

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
