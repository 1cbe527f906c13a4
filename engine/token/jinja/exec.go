package jinja

import "time"

// Options are what a rendering has beside its names.
type Options struct {
	Now func() time.Time // for strftime_now; nil: time.Now
}

// Render runs the template with names. The error is a *Raised where the template refuses what it was given, else an
// *Error. Lists and dicts among the values may be changed by it.
func (t *Template) Render(names map[string]Value, o Options) (out Str, err error) {
	defer catch(&err)
	if o.Now == nil {
		o.Now = time.Now
	}
	given := 0
	for _, v := range names {
		given += size(v)
	}
	r := &rendering{meter: newMeter(given), now: o.Now}
	f := &frame{rendering: r, names: &scope{names: make(map[string]Value)}, out: &builder{meter: r.meter}}
	for name, v := range names {
		f.names.names[name] = v
	}
	t.body.exec(f)
	return f.out.str(), nil
}

// size is about how many bytes a value has.
func size(v Value) int {
	switch v := v.(type) {
	case Str:
		return len(v.text)
	case *List:
		n := 1
		for _, item := range v.items {
			n += size(item)
		}
		return n
	case *Dict:
		n := 1
		for key, value := range v.values {
			n += len(key) + size(value)
		}
		return n
	}
	return 1
}

// rendering is one run of a template.
type rendering struct {
	*meter
	now func() time.Time
}

// frame is where a statement runs: what names mean, and where its text goes.
type frame struct {
	*rendering
	names *scope
	out   *builder
	body  Str // of the block whose filters are applied
}

// scope is names, and the scope round it. Setting a name sets it here: what a loop's body sets is gone after it.
type scope struct {
	names map[string]Value
	outer *scope
}

func (s *scope) get(name string) (Value, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// within is a frame with a scope of its own inside this one.
func (f *frame) within() *frame {
	inner := *f
	inner.names = &scope{names: make(map[string]Value), outer: f.names}
	return &inner
}

// render runs a body in a scope of its own and returns its text.
func (f *frame) render(b block) Str {
	inner := f.within()
	inner.out = &builder{meter: f.meter}
	b.exec(inner)
	return inner.out.str()
}

func (b block) exec(f *frame) signal {
	f.enter()
	defer f.leave()
	for _, s := range b {
		f.step(1)
		if why := s.exec(f); why != goOn {
			return why
		}
	}
	return goOn
}

func (n *textNode) exec(f *frame) signal {
	f.out.own(n.text)
	return goOn
}

func (n *printNode) exec(f *frame) signal {
	f.out.add(text(f.meter, n.value.eval(f)))
	return goOn
}

func (n *ifNode) exec(f *frame) signal {
	for i, test := range n.tests {
		if truth(test.eval(f)) {
			return n.bodies[i].exec(f)
		}
	}
	return n.other.exec(f)
}

func (n *forNode) exec(f *frame) signal {
	items := f.iterate(n.over.eval(f))
	if n.filter != nil {
		var kept []Value
		for _, item := range items {
			inner := f.within()
			inner.unpack(n.targets, item)
			if truth(n.filter.eval(inner)) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return n.other.exec(f)
	}
	l := &loop{items: items}
	for i, item := range items {
		f.step(1)
		l.at = i
		inner := f.within()
		inner.names.names["loop"] = l
		inner.unpack(n.targets, item)
		if n.body.exec(inner) == breakLoop {
			break
		}
	}
	return goOn
}

// unpack sets one name to a value, or several to its elements.
func (f *frame) unpack(names []string, v Value) {
	if len(names) == 1 {
		f.names.names[names[0]] = v
		return
	}
	items := f.iterate(v)
	if len(items) != len(names) {
		fail("%d values for %d names", len(items), len(names))
	}
	for i, name := range names {
		f.names.names[name] = items[i]
	}
}

func (n *setNode) exec(f *frame) signal {
	v := n.value.eval(f)
	if n.attr != "" {
		f.setAttr(n.targets[0], n.attr, v)
		return goOn
	}
	f.unpack(n.targets, v)
	return goOn
}

func (f *frame) setAttr(name, attr string, v Value) {
	of, _ := f.names.get(name)
	ns, ok := of.(*Dict)
	if !ok || !ns.namespace {
		fail("cannot assign attribute on non-namespace object")
	}
	ns.Set(Own(attr), v)
}

func (n *setBlockNode) exec(f *frame) signal {
	var v Value = f.render(n.body)
	if n.filters != nil {
		inner := *f
		inner.body = v.(Str)
		v = n.filters.eval(&inner)
	}
	if n.attr != "" {
		f.setAttr(n.target, n.attr, v)
		return goOn
	}
	f.names.names[n.target] = v
	return goOn
}

func (n *filterBlockNode) exec(f *frame) signal {
	inner := *f
	inner.body = f.render(n.body)
	f.out.add(text(f.meter, n.filters.eval(&inner)))
	return goOn
}

func (n *signalNode) exec(*frame) signal { return n.signal }

func (n *macroNode) exec(f *frame) signal {
	f.names.names[n.name] = n.bind(f)
	return goOn
}

// bind makes a function of a macro, in the scope where it stands.
func (n *macroNode) bind(f *frame) *Func {
	home := *f
	return &Func{n.name, func(r *rendering, a arguments) Value {
		if r.calls++; r.calls > callLimit {
			fail("macros call one another more than %d deep", callLimit)
		}
		defer func() { r.calls-- }()
		inner := home.within()
		inner.out = &builder{meter: r.meter}
		n.fill(inner, a)
		n.body.exec(inner)
		return inner.out.str()
	}}
}

// fill sets a macro's parameters.
func (n *macroNode) fill(f *frame, a arguments) {
	if len(a.positional) > len(n.params) {
		fail("macro %q takes not more than %d argument(s)", n.name, len(n.params))
	}
	set := f.names.names
	for i, v := range a.positional {
		set[n.params[i]] = v
	}
	for i, name := range a.names {
		if name == "caller" {
			set[name] = a.named[i]
			continue
		}
		if _, twice := set[name]; twice {
			fail("macro %q got two values for %q", n.name, name)
		}
		known := false
		for _, param := range n.params {
			known = known || param == name
		}
		if !known {
			fail("macro %q takes no keyword argument %q", n.name, name)
		}
		set[name] = a.named[i]
	}
	for _, param := range n.params {
		if _, ok := set[param]; ok {
			continue
		}
		set[param] = Undefined{"parameter '" + param + "' was not provided"}
		if e := n.defaults[param]; e != nil {
			set[param] = e.eval(f)
		}
	}
}

func (n *callBlockNode) exec(f *frame) signal {
	fn := n.call.fn.eval(f)
	a := n.call.args.eval(f)
	a.names = append(a.names, "caller")
	a.named = append(a.named, n.caller.bind(f))
	f.out.add(text(f.meter, f.call(fn, a)))
	return goOn
}
