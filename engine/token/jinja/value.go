package jinja

// Value is what a template computes with: nil for none, or one of the types below. Numbers and booleans know, too,
// whether they are a client's, since they can be printed.
type Value any

type (
	// Undefined is a name or attribute that is not there. It prints as nothing, counts as false and as empty, and
	// anything else that is done with it fails with what is missing.
	Undefined struct{ what string }

	Bool struct {
		v      bool
		client bool
	}

	Int struct {
		n      int64
		client bool
	}

	// Float has the digits where the number is an integer that int64 cannot hold.
	Float struct {
		f      float64
		digits string
		client bool
	}

	List struct {
		items []Value
		tuple bool
		lazy  bool // a generator of Python: it can be gone through, and little else
	}

	Dict struct {
		keys      []Str // in the order of insertion
		values    map[string]Value
		namespace bool // its attributes can be set
	}

	// Func is a function, macro or method.
	Func struct {
		name string
		call func(r *rendering, a arguments) Value
	}
)

// NewList is a list of values.
func NewList(items ...Value) *List { return &List{items: items} }

// Append puts a value at the end.
func (l *List) Append(v Value) { l.items = append(l.items, v) }

// Items are the values of a list; of nil, none.
func (l *List) Items() []Value {
	if l == nil {
		return nil
	}
	return l.items
}

// NewDict is an empty dict.
func NewDict() *Dict { return &Dict{values: make(map[string]Value)} }

// NewBool is a boolean of the operator's.
func NewBool(v bool) Bool { return Bool{v: v} }

// Set puts a value under a key, which keeps its place if it is there already.
func (d *Dict) Set(key Str, v Value) {
	if _, ok := d.values[key.text]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key.text] = v
}

// Get is the value under a key; none where there is none, or no dict.
func (d *Dict) Get(key string) Value {
	if d == nil {
		return nil
	}
	return d.values[key]
}

func (d *Dict) delete(key string) {
	if _, ok := d.values[key]; !ok {
		return
	}
	delete(d.values, key)
	for i, k := range d.keys {
		if k.text == key {
			d.keys = append(d.keys[:i:i], d.keys[i+1:]...)
			return
		}
	}
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case Bool:
		return v.v
	case Int:
		return v.n != 0
	case Float:
		return v.f != 0
	case Str:
		return v.text != ""
	case *List:
		return v.lazy || len(v.items) > 0
	case *Dict:
		return v.namespace || len(v.keys) > 0
	}
	return true
}

// kind is Python's name of a value's type, for messages.
func kind(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case Undefined:
		return "Undefined"
	case Bool:
		return "bool"
	case Int:
		return "int"
	case Float:
		if v.digits != "" {
			return "int"
		}
		return "float"
	case Str:
		return "str"
	case *List:
		switch {
		case v.lazy:
			return "generator"
		case v.tuple:
			return "tuple"
		}
		return "list"
	case *Dict:
		if v.namespace {
			return "Namespace"
		}
		return "dict"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// number is a value as a number: whole, fraction, whether it is whole, whether it is a number, and whose it is.
func number(v Value) (n int64, f float64, whole, ok, client bool) {
	switch v := v.(type) {
	case Bool:
		if v.v {
			n = 1
		}
		return n, float64(n), true, true, v.client
	case Int:
		return v.n, float64(v.n), true, true, v.client
	case Float:
		return 0, v.f, false, true, v.client
	}
	return 0, 0, false, false, false
}

func isClient(v Value) bool {
	switch v := v.(type) {
	case Str:
		return v.anyClient()
	default:
		_, _, _, _, client := number(v)
		return client
	}
}

func equal(m *meter, a, b Value) bool {
	m.step(1)
	m.enter()
	defer m.leave()
	if an, af, aw, ok, _ := number(a); ok {
		bn, bf, bw, ok, _ := number(b)
		if aw && bw {
			return ok && an == bn
		}
		return ok && af == bf
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case Str:
		b, ok := b.(Str)
		m.step(min(len(a.text), len(b.text)) >> 6)
		return ok && a.text == b.text
	case *List:
		b, ok := b.(*List)
		if !ok || len(a.items) != len(b.items) || a.tuple != b.tuple {
			return false
		}
		for i := range a.items {
			if !equal(m, a.items[i], b.items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for key, v := range a.values {
			w, ok := b.values[key]
			if !ok || !equal(m, v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}
