package jinja

import "math"

// arguments are those of a call.
type arguments struct {
	positional []Value
	names      []string
	named      []Value
}

// get is an argument by its place or its name.
func (a arguments) get(place int, name string) (Value, bool) {
	if place >= 0 && place < len(a.positional) {
		return a.positional[place], true
	}
	for i, n := range a.names {
		if n == name {
			return a.named[i], true
		}
	}
	return nil, false
}

func (a argExprs) eval(f *frame) arguments {
	out := arguments{names: a.names[:len(a.names):len(a.names)]}
	for _, e := range a.positional {
		out.positional = append(out.positional, e.eval(f))
	}
	for _, e := range a.named {
		out.named = append(out.named, e.eval(f))
	}
	return out
}

func (e *literalExpr) eval(*frame) Value { return e.value }

func (e *bodyExpr) eval(f *frame) Value { return f.body }

func (e *nameExpr) eval(f *frame) Value {
	f.step(1)
	if v, ok := f.names.get(e.name); ok {
		return v
	}
	if fn, ok := globals[e.name]; ok {
		return fn
	}
	return Undefined{"'" + e.name + "' is undefined"}
}

func (e *listExpr) eval(f *frame) Value {
	l := &List{tuple: e.tuple}
	for _, item := range e.items {
		f.step(1)
		l.items = append(l.items, item.eval(f))
	}
	return l
}

func (e *dictExpr) eval(f *frame) Value {
	d := NewDict()
	for i, key := range e.keys {
		f.step(1)
		k, ok := key.eval(f).(Str)
		if !ok {
			fail("keys of dicts must be strings")
		}
		d.Set(k, e.values[i].eval(f))
	}
	return d
}

func (e *condExpr) eval(f *frame) Value {
	switch {
	case truth(e.test.eval(f)):
		return e.yes.eval(f)
	case e.no != nil:
		return e.no.eval(f)
	}
	return Undefined{"the inline if-expression evaluated to false and no else section was defined"}
}

func (e *callExpr) eval(f *frame) Value {
	fn := e.fn.eval(f)
	return f.call(fn, e.args.eval(f))
}

func (f *frame) call(fn Value, a arguments) Value {
	f.step(1)
	switch fn := fn.(type) {
	case *Func:
		return fn.call(f.rendering, a)
	case Undefined:
		fail("%s", fn.what)
	}
	fail("'%s' object is not callable", kind(fn))
	return nil
}

func (e *filterExpr) eval(f *frame) Value {
	f.step(1)
	v := e.of.eval(f)
	return e.fn(f.rendering, v, e.args.eval(f))
}

func (e *testExpr) eval(f *frame) Value {
	f.step(1)
	v := e.of.eval(f)
	return Bool{v: e.fn(f.rendering, v, e.args.eval(f))}
}

func (e *unaryExpr) eval(f *frame) Value {
	v := e.of.eval(f)
	if e.op == "not" {
		return Bool{v: !truth(v)}
	}
	return arithmetic(f.meter, e.op, Int{}, defined(v))
}

// defined fails with what is missing, if something is.
func defined(v Value) Value {
	if u, ok := v.(Undefined); ok {
		fail("%s", u.what)
	}
	return v
}

func (e *binaryExpr) eval(f *frame) Value {
	left := e.left.eval(f)
	switch e.op {
	case "and":
		if !truth(left) {
			return left
		}
		return e.right.eval(f)
	case "or":
		if truth(left) {
			return left
		}
		return e.right.eval(f)
	}
	right := e.right.eval(f)
	f.step(1)
	if e.op == "~" {
		return concat(f.meter, text(f.meter, left), text(f.meter, right))
	}
	defined(left)
	defined(right)
	switch l := left.(type) {
	case Str:
		switch e.op {
		case "+":
			if r, ok := right.(Str); ok {
				return plus(f.meter, l, r)
			}
			fail("can only concatenate str (not %q) to str", kind(right))
		case "*":
			return repeat(f.meter, l, right)
		case "%":
			return format(f.meter, l, right)
		}
	case *List:
		if r, ok := right.(*List); ok && e.op == "+" && l.tuple == r.tuple && !l.lazy && !r.lazy {
			f.step(len(l.items) + len(r.items))
			return &List{items: append(l.items[:len(l.items):len(l.items)], r.items...), tuple: l.tuple}
		}
	}
	if r, ok := right.(Str); ok && e.op == "*" {
		return repeat(f.meter, r, left)
	}
	return arithmetic(f.meter, e.op, left, right)
}

func repeat(m *meter, s Str, times Value) Value {
	n, ok := times.(Int)
	if !ok {
		fail("can't multiply sequence by non-int of type %q", kind(times))
	}
	b := builder{meter: m}
	for range max(0, n.n) {
		m.step(1)
		b.add(s)
	}
	out := b.str()
	out.markup = s.markup
	return out
}

func arithmetic(m *meter, op string, a, c Value) Value {
	an, af, aw, ok1, cl1 := number(a)
	cn, cf, cw, ok2, cl2 := number(c)
	if !ok1 || !ok2 {
		fail("unsupported operand type(s) for %s: '%s' and '%s'", op, kind(a), kind(c))
	}
	client := cl1 || cl2
	if (op == "/" || op == "//" || op == "%") && cf == 0 {
		fail("division by zero")
	}
	if aw && cw {
		switch op {
		case "+":
			return Int{an + cn, client}
		case "-":
			return Int{an - cn, client}
		case "*":
			return Int{an * cn, client}
		case "//":
			return Int{int64(math.Floor(af / cf)), client}
		case "%":
			return Int{((an % cn) + cn) % cn, client}
		}
	}
	var f float64
	switch op {
	case "+":
		f = af + cf
	case "-":
		f = af - cf
	case "*":
		f = af * cf
	case "/":
		f = af / cf
	case "//":
		f = math.Floor(af / cf)
	case "%":
		f = af - cf*math.Floor(af/cf)
	case "**":
		f = math.Pow(af, cf)
		if aw && cw && cn >= 0 && math.Abs(f) < 1<<53 {
			return Int{int64(f), client}
		}
	}
	return Float{f: f, client: client}
}
