package jinja

// Methods of lists and dicts.

var listMethods = map[string]method[*List]{
	"append": func(r *rendering, l *List, a arguments) Value {
		l.items = append(l.items, first(a, "append"))
		return nil
	},
	"pop": func(r *rendering, l *List, a arguments) Value {
		n, ok := place(intArg(a, 0, "index", -1), len(l.items))
		if !ok {
			fail("pop index out of range")
		}
		v := l.items[n]
		r.step(len(l.items))
		l.items = append(l.items[:n:n], l.items[n+1:]...)
		return v
	},
	"index": func(r *rendering, l *List, a arguments) Value {
		want := first(a, "index")
		for i, v := range l.items {
			if equal(r.meter, v, want) {
				return Int{n: int64(i)}
			}
		}
		fail("the value is not in the list")
		return nil
	},
	"count": func(r *rendering, l *List, a arguments) Value {
		want, n := first(a, "count"), int64(0)
		for _, v := range l.items {
			if equal(r.meter, v, want) {
				n++
			}
		}
		return Int{n: n}
	},
}

var dictMethods = map[string]method[*Dict]{
	"get": func(r *rendering, d *Dict, a arguments) Value {
		if key, ok := first(a, "get").(Str); ok {
			if v, ok := d.values[key.text]; ok {
				return v
			}
		}
		fallback, _ := a.get(1, "default")
		return fallback
	},
	"items": func(r *rendering, d *Dict, a arguments) Value { return d.items(r) },
	"keys": func(r *rendering, d *Dict, a arguments) Value {
		r.step(len(d.keys))
		return strList(d.keys)
	},
	"values": func(r *rendering, d *Dict, a arguments) Value {
		l := &List{}
		for _, key := range d.keys {
			r.step(1)
			l.items = append(l.items, d.values[key.text])
		}
		return l
	},
	"update": func(r *rendering, d *Dict, a arguments) Value {
		if from, ok := a.get(0, ""); ok {
			other, ok := from.(*Dict)
			if !ok {
				fail("'%s' object is not a mapping", kind(from))
			}
			for _, key := range other.keys {
				r.step(1)
				d.Set(key, other.values[key.text])
			}
		}
		for i, name := range a.names {
			d.Set(Own(name), a.named[i])
		}
		return nil
	},
	"pop": func(r *rendering, d *Dict, a arguments) Value {
		key, _ := first(a, "pop").(Str)
		v, ok := d.values[key.text]
		if !ok {
			if fallback, ok := a.get(1, ""); ok {
				return fallback
			}
			fail("there is no key %q", key.text)
		}
		r.step(len(d.keys))
		d.delete(key.text)
		return v
	},
}

func (d *Dict) items(r *rendering) *List {
	l := &List{}
	for _, key := range d.keys {
		r.step(1)
		l.items = append(l.items, &List{items: []Value{key, d.values[key.text]}, tuple: true})
	}
	return l
}
