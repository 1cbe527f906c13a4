package jinja

import (
	"slices"
	"strings"
)

// The filters of sequences and dicts.

func join(r *rendering, v Value, sep Str, attr string) Value {
	b := builder{meter: r.meter}
	for i, item := range r.iterate(v) {
		if i > 0 {
			b.add(sep)
		}
		if attr != "" {
			item = r.attr(item, attr)
		}
		b.add(text(r.meter, item))
	}
	return b.str()
}

func end(items []Value, at int, which string) Value {
	if len(items) == 0 {
		return Undefined{"No " + which + " item, sequence was empty."}
	}
	return items[at]
}

func reverse(r *rendering, v Value, a arguments) Value {
	items := slices.Clone(r.iterate(v))
	slices.Reverse(items)
	if _, ok := v.(Str); ok {
		return join(r, &List{items: items}, Str{}, "")
	}
	return &List{items: items, lazy: true}
}

// sorted is by value, or by an attribute; strings without regard to case unless it is asked for.
func sorted(r *rendering, v Value, a arguments) Value {
	reverse, _ := a.get(0, "reverse")
	exact, _ := a.get(1, "case_sensitive")
	attr, _ := a.get(2, "attribute")
	key := func(v Value) Value {
		if name, ok := attr.(Str); ok {
			v = r.attr(v, name.text)
		}
		if s, ok := v.(Str); ok && !truth(exact) {
			return lower(r, s)
		}
		return v
	}
	items := slices.Clone(r.iterate(v))
	slices.SortStableFunc(items, func(x, y Value) int {
		r.step(1)
		order := ordered(r.meter, "<", key(x), key(y))
		if truth(reverse) {
			return -order
		}
		return order
	})
	return &List{items: items}
}

func unique(r *rendering, v Value, a arguments) Value {
	out := &List{lazy: true}
	for _, item := range r.iterate(v) {
		seen := false
		for _, kept := range out.items {
			x, isStr := item.(Str)
			y, isStr2 := kept.(Str)
			if equal(r.meter, item, kept) || isStr && isStr2 && strings.EqualFold(x.text, y.text) {
				seen = true
				break
			}
		}
		if !seen {
			out.items = append(out.items, item)
		}
	}
	return out
}

func items(r *rendering, v Value, a arguments) Value {
	switch v := v.(type) {
	case Undefined:
		return &List{}
	case *Dict:
		if !v.namespace {
			return v.items(r)
		}
	}
	fail("Can only get item pairs from a mapping.")
	return nil
}

// mapped applies a filter to each element, or takes an attribute of it.
func mapped(r *rendering, v Value, a arguments) Value {
	apply := func(item Value) Value { return item }
	if attr, ok := a.get(-1, "attribute"); ok {
		fallback, hasFallback := a.get(-1, "default")
		apply = func(item Value) Value {
			out := r.item(item, attr)
			if _, missing := out.(Undefined); missing && hasFallback {
				return fallback
			}
			return out
		}
	} else if len(a.positional) > 0 {
		name := needStr(a.positional[0], "the name of a filter").text
		f := filters[name]
		if f == nil {
			fail("there is no filter %q", name)
		}
		rest := arguments{a.positional[1:], a.names, a.named}
		apply = func(item Value) Value { return f(r, item, rest) }
	}
	out := &List{lazy: true}
	if !truth(v) {
		return out
	}
	for _, item := range r.iterate(v) {
		out.items = append(out.items, apply(item))
	}
	return out
}

// choose keeps the elements for which a test, or truth, is as wanted: of themselves or of an attribute.
func choose(r *rendering, v Value, a arguments, byAttr, want bool) Value {
	of := func(item Value) Value { return item }
	args := a.positional
	if byAttr {
		if len(args) == 0 {
			fail("the name of an attribute is missing")
		}
		attr := args[0]
		of = func(item Value) Value { return r.item(item, attr) }
		args = args[1:]
	}
	is := func(v Value) bool { return truth(v) }
	if len(args) > 0 {
		name := needStr(args[0], "the name of a test").text
		t := tests[name]
		if t == nil {
			fail("there is no test %q", name)
		}
		rest := arguments{args[1:], a.names, a.named}
		is = func(v Value) bool { return t(r, v, rest) }
	}
	out := &List{lazy: true}
	if !truth(v) { // none is no elements here, and only here
		return out
	}
	for _, item := range r.iterate(v) {
		if is(of(item)) == want {
			out.items = append(out.items, item)
		}
	}
	return out
}

func extreme(r *rendering, v Value, sign int) Value {
	items := r.iterate(v)
	if len(items) == 0 {
		return Undefined{"No aggregated item, sequence was empty."}
	}
	best := items[0]
	for _, item := range items[1:] {
		if ordered(r.meter, "<", item, best)*sign > 0 {
			best = item
		}
	}
	return best
}
