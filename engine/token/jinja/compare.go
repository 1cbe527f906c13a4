package jinja

import "strings"

func (e *compareExpr) eval(f *frame) Value {
	left := e.first.eval(f)
	for i, op := range e.ops {
		f.step(1)
		right := e.rest[i].eval(f)
		if !compare(f.meter, op, left, right) {
			return Bool{}
		}
		left = right
	}
	return Bool{v: true}
}

func compare(m *meter, op string, a, b Value) bool {
	switch op {
	case "==":
		return equal(m, a, b)
	case "!=":
		return !equal(m, a, b)
	case "in":
		return contains(m, b, a)
	case "not in":
		return !contains(m, b, a)
	}
	order := ordered(m, op, a, b)
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// ordered is -1, 0 or 1.
func ordered(m *meter, op string, a, b Value) int {
	m.enter()
	defer m.leave()
	defined(a)
	defined(b)
	_, af, _, ok1, _ := number(a)
	_, bf, _, ok2, _ := number(b)
	if ok1 && ok2 {
		switch {
		case af < bf:
			return -1
		case af > bf:
			return 1
		}
		return 0
	}
	switch a := a.(type) {
	case Str:
		if b, ok := b.(Str); ok {
			m.step(min(len(a.text), len(b.text)) >> 6)
			return strings.Compare(a.text, b.text)
		}
	case *List:
		if b, ok := b.(*List); ok {
			for i := range min(len(a.items), len(b.items)) {
				m.step(1)
				if !equal(m, a.items[i], b.items[i]) {
					return ordered(m, op, a.items[i], b.items[i])
				}
			}
			return len(a.items) - len(b.items)
		}
	}
	fail("'%s' not supported between instances of '%s' and '%s'", op, kind(a), kind(b))
	return 0
}

func contains(m *meter, in, v Value) bool {
	switch in := in.(type) {
	case Str:
		s, ok := v.(Str)
		if !ok {
			fail("'in <string>' requires string as left operand, not %s", kind(v))
		}
		m.step(len(in.text) >> 6)
		return strings.Contains(in.text, s.text)
	case *List:
		for _, item := range in.items {
			if equal(m, item, v) {
				return true
			}
		}
		return false
	case *Dict:
		s, ok := v.(Str)
		if !ok {
			return false
		}
		_, ok = in.values[s.text]
		return ok && !in.namespace
	case Undefined:
		return false
	}
	fail("argument of type '%s' is not iterable", kind(in))
	return false
}

// iterate is the elements that a loop goes through.
func (r *rendering) iterate(v Value) []Value {
	switch v := v.(type) {
	case Undefined:
		return nil
	case *List:
		r.step(len(v.items))
		return v.items
	case Str:
		var items []Value
		r.step(len(v.text))
		v.runes(func(at int, _ rune, size int) bool {
			items = append(items, v.slice(at, at+size))
			return true
		})
		return items
	case *Dict:
		if !v.namespace {
			items := make([]Value, len(v.keys))
			for i, key := range v.keys {
				items[i] = key
			}
			r.step(len(items))
			return items
		}
	}
	fail("'%s' object is not iterable", kind(v))
	return nil
}
