package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Has reports whether the file has the key.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// String is a value of kind string.
func (f *File) String(key string) (string, error) {
	v, err := f.get(key, KindString, "string")
	return string(v.raw), err
}

// Bool is a value of kind bool.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.get(key, KindBool, "bool")
	return err == nil && v.raw[0] == 1, err
}

// Uint32 is an integer of any kind that fits 32 bits without a sign.
func (f *File) Uint32(key string) (uint32, error) {
	v, ok := f.values[key]
	if !ok {
		return 0, missing(key)
	}
	n, ok := integer(v.Kind, v.raw)
	if !ok || n < 0 || n > math.MaxUint32 {
		return 0, wrongKind(key, v, "an integer from 0 to 4294967295")
	}
	return uint32(n), nil
}

// Float32 is a number of kind float32 or float64.
func (f *File) Float32(key string) (float32, error) {
	v, ok := f.values[key]
	if !ok {
		return 0, missing(key)
	}
	x, ok := float(v.Kind, v.raw)
	if !ok {
		return 0, wrongKind(key, v, "float32")
	}
	return x, nil
}

// Strings is an array of strings.
func (f *File) Strings(key string) ([]string, error) {
	v, err := f.array(key, "array of string", func(k Kind) bool { return k == KindString })
	if err != nil {
		return nil, err
	}
	out := make([]string, v.Len)
	raw := v.raw
	for i := range out {
		n := binary.LittleEndian.Uint64(raw)
		out[i] = string(raw[8 : 8+n])
		raw = raw[8+n:]
	}
	return out, nil
}

// Int32s is an array of integers of any kind, each of which fits 32 bits.
func (f *File) Int32s(key string) ([]int32, error) {
	const want = "array of integers of 32 bits"
	v, err := f.array(key, want, func(k Kind) bool { return k != KindBool && kindBytes[k] > 0 && k != KindFloat32 && k != KindFloat64 })
	if err != nil {
		return nil, err
	}
	out := make([]int32, v.Len)
	size := kindBytes[v.Elem]
	for i := range out {
		n, ok := integer(v.Elem, v.raw[i*size:])
		if !ok || n < math.MinInt32 || n > math.MaxInt32 {
			return nil, wrongKind(key, v, want)
		}
		out[i] = int32(n)
	}
	return out, nil
}

// Float32s is an array of float32 or float64.
func (f *File) Float32s(key string) ([]float32, error) {
	v, err := f.array(key, "array of float32", func(k Kind) bool { return k == KindFloat32 || k == KindFloat64 })
	if err != nil {
		return nil, err
	}
	out := make([]float32, v.Len)
	size := kindBytes[v.Elem]
	for i := range out {
		out[i], _ = float(v.Elem, v.raw[i*size:])
	}
	return out, nil
}

// Or gives fallback where a getter found no such key: n, err := Or(1)(f.Uint32(key)).
func Or[T any](fallback T) func(T, error) (T, error) {
	return func(v T, err error) (T, error) {
		if errors.Is(err, ErrMissing) {
			return fallback, nil
		}
		return v, err
	}
}

func (f *File) get(key string, kind Kind, want string) (Value, error) {
	v, ok := f.values[key]
	if !ok {
		return Value{}, missing(key)
	}
	if v.Kind != kind {
		return Value{}, wrongKind(key, v, want)
	}
	return v, nil
}

func (f *File) array(key, want string, elem func(Kind) bool) (Value, error) {
	v, err := f.get(key, KindArray, want)
	if err == nil && !elem(v.Elem) {
		return Value{}, wrongKind(key, v, want)
	}
	return v, err
}

func missing(key string) error { return fmt.Errorf("gguf: key %q: %w", key, ErrMissing) }

func wrongKind(key string, v Value, want string) error {
	found := v.String()
	if n, ok := integer(v.Kind, v.raw); ok {
		found = fmt.Sprintf("%s %d", v.Kind, n)
	}
	return fmt.Errorf("gguf: key %q: found %s, wanted %s", key, found, want)
}
