package gguf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
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
