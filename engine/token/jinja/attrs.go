package jinja

import "unicode/utf8"

// Attributes and subscripts. In jinja2 a.b looks for an attribute or method first and then for a key, a['b'] the other
// way round; what is not there is Undefined, and only using that fails.

func (e *attrExpr) eval(f *frame) Value {
	f.step(1)
	return f.attr(e.of.eval(f), e.name)
}

func (r *rendering) attr(of Value, name string) Value {
	switch of := of.(type) {
	case Undefined:
		fail("%s", of.what)
	case Str:
		if m := stringMethods[name]; m != nil {
			return &Func{name, func(r *rendering, a arguments) Value { return m(r, of, a) }}
		}
	case *List:
		if m := listMethods[name]; m != nil && !of.lazy {
			return &Func{name, func(r *rendering, a arguments) Value { return m(r, of, a) }}
		}
	case *Dict:
		if m := dictMethods[name]; m != nil && !of.namespace {
			return &Func{name, func(r *rendering, a arguments) Value { return m(r, of, a) }}
		}
		if v, ok := of.values[name]; ok {
			return v
		}
	case *loop:
		return of.attr(name)
	}
	return noAttr(of, name)
}

func noAttr(of Value, name string) Value {
	what := "'" + kind(of) + " object' has no attribute '" + name + "'"
	if of == nil {
		what = "'None' has no attribute '" + name + "'"
	}
	return Undefined{what}
}

func (e *itemExpr) eval(f *frame) Value {
	f.step(1)
	of := e.of.eval(f)
	return f.item(of, e.key.eval(f))
}

func (r *rendering) item(of, key Value) Value {
	defined(of)
	if name, ok := key.(Str); ok {
		if d, ok := of.(*Dict); ok {
			if v, ok := d.values[name.text]; ok {
				return v
			}
		}
		return r.attr(of, name.text)
	}
	i, isInt := key.(Int)
	switch of := of.(type) {
	case *List:
		if n, ok := place(i.n, len(of.items)); ok && isInt && !of.lazy {
			return of.items[n]
		}
	case Str:
		if isInt {
			return r.character(of, i.n)
		}
	}
	return Undefined{kind(of) + " object has no element " + text(r.meter, key).text}
}

// place is an index from either end as one from the start.
func place(i int64, n int) (int, bool) {
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

func (r *rendering) character(s Str, i int64) Value {
	r.step(len(s.text) >> 6)
	n, ok := place(i, utf8.RuneCountInString(s.text))
	if !ok {
		return Undefined{"str object has no element"}
	}
	var out Value
	s.runes(func(at int, _ rune, size int) bool {
		if n == 0 {
			out = s.slice(at, at+size)
		}
		n--
		return n >= 0
	})
	return out
}

func (e *sliceExpr) eval(f *frame) Value {
	f.step(1)
	of := defined(e.of.eval(f))
	bound := func(e expression, fallback int64) int64 {
		if e == nil {
			return fallback
		}
		switch v := e.eval(f).(type) {
		case nil:
			return fallback
		case Int:
			return v.n
		default:
			fail("slice indices must be integers or None")
			return 0
		}
	}
	step := bound(e.step, 1)
	if step == 0 {
		fail("slice step cannot be zero")
	}
	const open = -1 << 63
	places := func(n int) []int {
		start, stop := bound(e.start, open), bound(e.stop, open)
		return slicePlaces(f.meter, start, stop, step, n, open)
	}
	switch of := of.(type) {
	case *List:
		if of.lazy {
			break
		}
		out := &List{tuple: of.tuple}
		for _, i := range places(len(of.items)) {
			out.items = append(out.items, of.items[i])
		}
		return out
	case Str:
		return f.substring(of, step, places)
	}
	return Undefined{kind(of) + " object cannot be sliced"}
}

// slicePlaces is which elements of n a slice takes; a bound that is open is the end on its side.
func slicePlaces(m *meter, start, stop, step int64, n int, open int64) (places []int) {
	size := int64(n)
	clamp := func(i, lo, hi int64) int64 {
		if i < 0 {
			i += size
		}
		return min(max(i, lo), hi)
	}
	if step > 0 {
		lo, hi := int64(0), size
		if start != open {
			lo = clamp(start, 0, size)
		}
		if stop != open {
			hi = clamp(stop, 0, size)
		}
		for i := lo; i < hi; i += min(step, size) {
			m.step(1)
			places = append(places, int(i))
		}
		return places
	}
	hi, lo := size-1, int64(-1)
	if start != open {
		hi = clamp(start, -1, size-1)
	}
	if stop != open {
		lo = clamp(stop, -1, size-1)
	}
	for i := hi; i > lo; i += max(step, -size) {
		m.step(1)
		places = append(places, int(i))
	}
	return places
}

func (f *frame) substring(s Str, step int64, places func(n int) []int) Value {
	var starts []int
	s.runes(func(at int, _ rune, _ int) bool {
		starts = append(starts, at)
		return true
	})
	f.step(len(starts) >> 3)
	n := len(starts)
	starts = append(starts, len(s.text))
	chosen := places(n)
	if len(chosen) == 0 {
		return Str{}
	}
	if step == 1 {
		return s.slice(starts[chosen[0]], starts[chosen[len(chosen)-1]+1])
	}
	b := builder{meter: f.meter}
	for _, i := range chosen {
		b.add(s.slice(starts[i], starts[i+1]))
	}
	return b.str()
}

// loop is the name "loop" inside a loop.
type loop struct {
	items   []Value
	at      int
	changed Value
	asked   bool
}

func (l *loop) attr(name string) Value {
	n := len(l.items)
	switch name {
	case "index":
		return Int{n: int64(l.at + 1)}
	case "index0":
		return Int{n: int64(l.at)}
	case "revindex":
		return Int{n: int64(n - l.at)}
	case "revindex0":
		return Int{n: int64(n - l.at - 1)}
	case "length":
		return Int{n: int64(n)}
	case "first":
		return Bool{v: l.at == 0}
	case "last":
		return Bool{v: l.at == n-1}
	case "depth":
		return Int{n: 1}
	case "depth0":
		return Int{}
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1]
		}
		return Undefined{"there is no previous item"}
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1]
		}
		return Undefined{"there is no next item"}
	case "cycle":
		return &Func{name, func(_ *rendering, a arguments) Value {
			if len(a.positional) == 0 {
				fail("no items for cycling given")
			}
			return a.positional[l.at%len(a.positional)]
		}}
	case "changed":
		return &Func{name, func(r *rendering, a arguments) Value {
			now := &List{items: a.positional, tuple: true}
			same := l.asked && equal(r.meter, l.changed, now)
			l.changed, l.asked = now, true
			return Bool{v: !same}
		}}
	}
	return noAttr(l, name)
}
