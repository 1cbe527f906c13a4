package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filter is what stands behind a bar.
type filter func(r *rendering, v Value, a arguments) Value

var filters map[string]filter

// onText is a filter of text: anything else is made text first, as jinja2's soft_str does.
func onText(f func(r *rendering, s Str, a arguments) Value) filter {
	return func(r *rendering, v Value, a arguments) Value { return f(r, text(r.meter, v), a) }
}

func init() {
	filters = map[string]filter{
		"tojson": tojson,
		"safe": onText(func(r *rendering, s Str, a arguments) Value {
			s.markup = true
			return s
		}),
		"string":     func(r *rendering, v Value, a arguments) Value { return text(r.meter, v) },
		"trim":       onText(func(r *rendering, s Str, a arguments) Value { return strip(s, a, true, true) }),
		"upper":      onText(func(r *rendering, s Str, a arguments) Value { return upper(r, s) }),
		"lower":      onText(func(r *rendering, s Str, a arguments) Value { return lower(r, s) }),
		"capitalize": onText(func(r *rendering, s Str, a arguments) Value { return capitalize(r, s) }),
		"title": onText(func(r *rendering, s Str, a arguments) Value {
			return title(r, s, func(c rune) bool { return !isSpace(c) && !strings.ContainsRune("-({[<", c) })
		}),
		"replace": onText(func(r *rendering, s Str, a arguments) Value { return replace(r, s, a) }),
		"indent":  onText(indent),
		"escape":  onText(func(r *rendering, s Str, a arguments) Value { return escaped(r.meter, s) }),
		"e":       onText(func(r *rendering, s Str, a arguments) Value { return escaped(r.meter, s) }),
		"format": onText(func(r *rendering, s Str, a arguments) Value {
			return format(r.meter, s, &List{items: a.positional, tuple: true})
		}),
		"wordcount": onText(func(r *rendering, s Str, a arguments) Value {
			return Int{n: int64(len(strings.FieldsFunc(s.text, isSpace)))}
		}),
		"join": func(r *rendering, v Value, a arguments) Value {
			sep, _ := a.get(0, "d")
			attr, _ := a.get(1, "attribute")
			name, _ := attr.(Str)
			if sep == nil {
				sep = Str{}
			}
			return join(r, v, text(r.meter, sep), name.text)
		},
		"default": defaultTo,
		"d":       defaultTo,
		"length":  length,
		"count":   length,
		"first":   func(r *rendering, v Value, a arguments) Value { return end(r.iterate(v), 0, "first") },
		"last": func(r *rendering, v Value, a arguments) Value {
			items := r.iterate(v)
			return end(items, len(items)-1, "last")
		},
		"list":    func(r *rendering, v Value, a arguments) Value { return &List{items: slices.Clone(r.iterate(v))} },
		"reverse": reverse,
		"sort":    sorted,
		"unique":  unique,
		"items":   items,
		"dictsort": func(r *rendering, v Value, a arguments) Value {
			d, ok := v.(*Dict)
			if !ok {
				fail("dictsort needs a dict, not %s", kind(v))
			}
			l := &List{}
			for _, key := range sortedKeys(d) {
				r.step(1)
				l.items = append(l.items, &List{items: []Value{key, d.values[key.text]}, tuple: true})
			}
			return l
		},
		"map":        mapped,
		"select":     func(r *rendering, v Value, a arguments) Value { return choose(r, v, a, false, true) },
		"reject":     func(r *rendering, v Value, a arguments) Value { return choose(r, v, a, false, false) },
		"selectattr": func(r *rendering, v Value, a arguments) Value { return choose(r, v, a, true, true) },
		"rejectattr": func(r *rendering, v Value, a arguments) Value { return choose(r, v, a, true, false) },
		"int":        toInt,
		"float":      toFloat,
		"abs": func(r *rendering, v Value, a arguments) Value {
			if _, f, _, _, _ := number(defined(v)); f < 0 {
				return arithmetic(r.meter, "-", Int{}, v)
			}
			return arithmetic(r.meter, "+", Int{}, v)
		},
		"round": round,
		"sum": func(r *rendering, v Value, a arguments) Value {
			var total Value = Int{}
			for _, item := range r.iterate(v) {
				total = arithmetic(r.meter, "+", total, item)
			}
			return total
		},
		"min": func(r *rendering, v Value, a arguments) Value { return extreme(r, v, -1) },
		"max": func(r *rendering, v Value, a arguments) Value { return extreme(r, v, 1) },
	}
}

func tojson(r *rendering, v Value, a arguments) Value {
	defined(v)
	st := jsonStyle{item: Own(", "), key: Own(": ")}
	if indent, ok := a.get(1, "indent"); ok && indent != nil {
		st.pretty, st.item = true, Own(",")
		if s, ok := indent.(Str); ok {
			st.indent = s
		} else {
			width := min(max(intArg(a, 1, "indent", 0), 0), 64)
			st.indent = Own(strings.Repeat(" ", int(width)))
		}
	}
	if separators, ok := a.get(2, "separators"); ok && separators != nil {
		pair := r.iterate(separators)
		if len(pair) != 2 {
			fail("tojson: separators must be two strings")
		}
		st.item, st.key = needStr(pair[0], "separator"), needStr(pair[1], "separator")
	}
	if sort, ok := a.get(3, "sort_keys"); ok {
		st.sorted = truth(sort)
	}
	b := builder{meter: r.meter}
	b.json(v, st, 0)
	return b.str()
}

func sortedKeys(d *Dict) []Str {
	return slices.SortedStableFunc(slices.Values(d.keys), func(a, b Str) int { return strings.Compare(a.text, b.text) })
}

func indent(r *rendering, s Str, a arguments) Value {
	width := Own("    ")
	if v, ok := a.get(0, "width"); ok {
		if w, ok := v.(Str); ok {
			width = w
		} else {
			width = Own(strings.Repeat(" ", int(min(max(intArg(a, 0, "width", 4), 0), 1000))))
		}
	}
	firstToo, _ := a.get(1, "first")
	blankToo, _ := a.get(2, "blank")
	b := builder{meter: r.meter}
	for i, line := range s.split("\n", -1) {
		r.step(1)
		if i > 0 {
			b.own("\n")
		}
		if (i > 0 || truth(firstToo)) && (line.text != "" || truth(blankToo) || i == 0) {
			b.add(width)
		}
		b.add(line)
	}
	return b.str()
}

func defaultTo(r *rendering, v Value, a arguments) Value {
	other, ok := a.get(0, "default_value")
	if !ok {
		other = Str{}
	}
	boolean, _ := a.get(1, "boolean")
	if _, missing := v.(Undefined); missing || truth(boolean) && !truth(v) {
		return other
	}
	return v
}

func length(r *rendering, v Value, a arguments) Value {
	switch v := v.(type) {
	case Undefined:
		return Int{}
	case Str:
		return Int{n: int64(utf8.RuneCountInString(v.text))}
	case *List:
		if !v.lazy {
			return Int{n: int64(len(v.items))}
		}
	case *Dict:
		if !v.namespace {
			return Int{n: int64(len(v.keys))}
		}
	}
	fail("object of type '%s' has no len()", kind(v))
	return nil
}

func toInt(r *rendering, v Value, a arguments) Value {
	client := isClient(v)
	if s, ok := v.(Str); ok {
		digits := strings.TrimSpace(s.text)
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return Int{n, client}
		}
		f, err := strconv.ParseFloat(digits, 64)
		if err == nil && math.Abs(f) < 1<<62 {
			return Int{int64(f), client}
		}
	} else if n, f, whole, ok, _ := number(v); ok && math.Abs(f) < 1<<62 {
		if !whole {
			n = int64(f)
		}
		return Int{n, client}
	}
	if fallback, ok := a.get(0, "default"); ok {
		return fallback
	}
	return Int{}
}

func toFloat(r *rendering, v Value, a arguments) Value {
	client := isClient(v)
	if s, ok := v.(Str); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(s.text), 64); err == nil {
			return Float{f: f, client: client}
		}
	} else if _, f, _, ok, _ := number(v); ok {
		return Float{f: f, client: client}
	}
	if fallback, ok := a.get(0, "default"); ok {
		return fallback
	}
	return Float{}
}

func round(r *rendering, v Value, a arguments) Value {
	_, f, whole, ok, client := number(defined(v))
	if !ok {
		fail("type %s cannot be rounded", kind(v))
	}
	if _, method := a.get(1, "method"); whole && !method && intArg(a, 0, "precision", 0) >= 0 {
		return v
	}
	scale := math.Pow(10, float64(intArg(a, 0, "precision", 0)))
	how := math.RoundToEven
	if m, ok := a.get(1, "method"); ok {
		switch text(r.meter, m).text {
		case "ceil":
			how = math.Ceil
		case "floor":
			how = math.Floor
		}
	}
	return Float{f: how(f*scale) / scale, client: client}
}
