package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kind is the type of a value of the metadata, by the number that the format gives it.
type Kind uint32

// The kinds of the format.
const (
	KindUint8   Kind = 0
	KindInt8    Kind = 1
	KindUint16  Kind = 2
	KindInt16   Kind = 3
	KindUint32  Kind = 4
	KindInt32   Kind = 5
	KindFloat32 Kind = 6
	KindBool    Kind = 7
	KindString  Kind = 8
	KindArray   Kind = 9
	KindUint64  Kind = 10
	KindInt64   Kind = 11
	KindFloat64 Kind = 12
)

var kindNames = [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
	"uint64", "int64", "float64"}

var kindBytes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8} // 0: of no fixed size

func (k Kind) known() bool { return int(k) < len(kindNames) }

func (k Kind) String() string {
	if !k.known() {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kindNames[k]
}

// Value is one value of the metadata, checked and not decoded: arrays are decoded when a getter asks for them.
type Value struct {
	Kind Kind
	Elem Kind // of an array's elements
	Len  int  // of an array

	raw []byte // as in the file, without lengths and kinds in front: a string's bytes, an array's elements
}

func (v Value) String() string {
	if v.Kind == KindArray {
		return fmt.Sprintf("array of %d %s", v.Len, v.Elem)
	}
	return v.Kind.String()
}

// AppendEncoding appends the value as it lies in a file, kind in front.
func (v Value) AppendEncoding(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(v.Kind))
	switch v.Kind {
	case KindString:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v.raw)))
	case KindArray:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Elem))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.Len))
	}
	return append(b, v.raw...)
}

// integer decodes one integer of kind k; ok is false where k is no integer or the number does not fit.
func integer(k Kind, raw []byte) (n int64, ok bool) {
	switch k {
	case KindUint8:
		return int64(raw[0]), true
	case KindInt8:
		return int64(int8(raw[0])), true
	case KindUint16:
		return int64(binary.LittleEndian.Uint16(raw)), true
	case KindInt16:
		return int64(int16(binary.LittleEndian.Uint16(raw))), true
	case KindUint32:
		return int64(binary.LittleEndian.Uint32(raw)), true
	case KindInt32:
		return int64(int32(binary.LittleEndian.Uint32(raw))), true
	case KindUint64:
		u := binary.LittleEndian.Uint64(raw)
		return int64(u), u <= math.MaxInt64
	case KindInt64:
		return int64(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}

// float decodes one floating-point number; ok is false where k is none.
func float(k Kind, raw []byte) (x float32, ok bool) {
	switch k {
	case KindFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(raw)), true
	case KindFloat64:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(raw))), true
	}
	return 0, false
}
