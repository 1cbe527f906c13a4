package jinja

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

// Operations that a template may put a client's text through. c and e are clients' strings, d a client's JSON.
var operations = []string{
	"{{ c }}", "a{{ c }}b", "{{ 'x' + c + 'y' }}", "{{ c ~ e }}", "{{ c + e }}", "{{ c | trim }}", "{{ c.strip() }}", "{{ c | upper }}",
	"{{ c.lower() | title }}", "{{ c | capitalize }}", "{{ c[1:] }}", "{{ c[:-1] + 'z' }}", "{{ c[::-1] }}", "{{ c[0] }}", "{{ c[-1] }}",
	"{{ c[::2] }}", "{{ c.split('α')[-1] }}", "{{ c.split('α') | join('-') }}", "{{ c.split() | join('+') }}", "{{ c.rsplit('β', 1)[0] }}",
	"{{ c | replace('α', 'mark') }}", "{{ 'AxB' | replace('x', c) }}", "{{ c.replace('', '-') }}", "{{ c.replace(e, 'gone') }}",
	"{% for x in c %}{{ x }}.{% endfor %}", "{% for x in c if x != 'α' %}{{ loop.index }}{{ x }}{% endfor %}", "{{ c | list }}", "{{ [c, e] }}",
	"{{ {'k': c} }}", "{{ c | tojson }}", "{{ d | tojson }}", "{{ d | tojson(indent=2) }}", "{{ d }}", "{{ d | string }}", "{{ c * 3 }}",
	"{{ 'q%sq' % c }}", "{{ 'q%rq' % c }}", "{{ 'q%s' | format(c) }}", "{{ c % () if false else c }}", "{{ c | indent }}", "{{ ('a\n' + c + '\nb') | indent(2) }}",
	"{{ c | indent(c) }}", "{{ c | e }}", "{{ (c | safe) + 'x' }}", "{{ c | reverse }}", "{{ c | default('x') }}", "{{ c if c else 'x' }}",
	"{% set v = c %}{{ v }}", "{% set v %}a{{ c }}b{% endset %}{{ v }}", "{% filter upper %}a{{ c }}b{% endfilter %}",
	"{% macro m(p, q=c) %}<{{ p }}{{ q }}>{% endmacro %}{{ m(e) }}", "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ c }}{% endcall %}",
	"{% set ns = namespace(t='') %}{% for x in [c, 'own', e] %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}",
	"{{ [c, 'own', e] | join(', ') }}", "{{ [c, e] | sort | join }}", "{{ [c, e] | map('upper') | join('/') }}", "{{ [c, e] | first }}", "{{ [c, e] | last }}",
	"{{ [c, 'x'] | unique | join }}", "{{ c | string | lower }}", "{{ d.items() | list }}", "{% for k, v in d.items() %}{{ k }}:{{ v }};{% endfor %}",
	"{{ d.keys() | join }}", "{{ c.removeprefix('α') }}", "{{ c.splitlines() | join }}", "{{ e.join(['1', '2']) }}", "{{ c | min }}{{ c | max }}",
	"{{ [c] + ['x'] }}", "{{ (c, e) }}", "{{ dict(k=c).k }}", "{{ d.get('μ', c) }}", "{{ [d] | map(attribute='μ') | join }}",
}

// greek is text of Greek letters, in which a client's bytes can be told from a template's.
func greek() *rapid.Generator[string] {
	return rapid.StringOf(rapid.SampledFrom([]rune("αβγδεωΩΣμ")))
}

// Every Greek letter of a result is the client's and nothing else is, whatever was done to it.
func TestOriginSurvivesEveryOperation(t *testing.T) {
	for _, src := range operations {
		rapid.Check(t, func(t *rapid.T) {
			d := NewDict()
			d.Set(Client("μ"), Client(greek().Draw(t, "value")))
			d.Set(Client(greek().Draw(t, "key")), NewList(Client(greek().Draw(t, "item"))))
			names := NewDict()
			names.Set(Own("c"), Client(greek().Draw(t, "c")))
			names.Set(Own("e"), Client(greek().Draw(t, "e")))
			names.Set(Own("d"), d)
			out, err := render(src, names)
			if err != nil {
				return // some fail on some strings, such as min of nothing
			}
			checkOrigin(t, src, out, func(r rune) bool { return unicode.Is(unicode.Greek, r) })
		})
	}
}

func checkOrigin(t *rapid.T, src string, out Str, theirs func(rune) bool) {
	whole := ""
	for text, client := range out.Runs {
		whole += text
		// The template's own 'α' in a literal is its own: only what is drawn from it can show.
		for _, r := range text {
			if theirs(r) != client {
				t.Fatalf("%s\ngave %q; %q of it is taken for the wrong side's (client %v)", src, out, text, client)
			}
		}
	}
	if whole != out.String() {
		t.Fatalf("%s\nthe runs make %q, the text is %q", src, whole, out)
	}
}

// Escapes made of a client's characters, its numbers and its booleans are its own, too.
func TestOriginOfEscapesAndNumbers(t *testing.T) {
	v, err := FromJSON([]byte(`{"q": "\"\\\n\u0007<&'", "n": 12345678901234567890, "i": 7, "f": 1.5, "t": true}`))
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		"{{ q | tojson }}":            `"[\"\\\n\u0007<&']"`,
		"{{ n }} {{ i }} {{ f }}":     "[12345678901234567890] [7] [1.5]",
		"{{ i + 1 }} {{ -i }}":        "[8] [-7]",
		"{{ t }} {{ [t, i] }}":        "[True] [[True], [7]]",
		"{{ '7' | int }}":             "7",
		"{{ i | string | int }}":      "[7]",
		"{{ '%d' % i }}":              "[7]",
		"{{ q[5:] | e }}":             "[&amp;&#39;]",
		"{{ [q[:1]] }}":               `['["]']`,
		"{{ i | tojson }} {{ 7 }}":    "[7] 7",
		"{{ [i, 1] | sum }}":          "[8]",
		"{{ f | round }} {{ f|int }}": "[2.0] [1]",
		"{{ q | length }}":            "7", // what a client decides without writing it is the template's
		"{{ q.find('&') }}":           "5",
	} {
		out, err := render(src, v)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		var b strings.Builder
		for text, client := range out.Runs {
			if client {
				text = "[" + text + "]"
			}
			b.WriteString(text)
		}
		if b.String() != want {
			t.Errorf("%s gave %s, want %s", src, b.String(), want)
		}
	}
}

// A template cannot run on, fill memory, or overflow the stack, which Go does not survive.
func TestHostileTemplates(t *testing.T) {
	deep := func(open, close string) string { return strings.Repeat(open, 100_000) + strings.Repeat(close, 100_000) }
	for name, src := range map[string]string{
		"brackets":        "{{ " + deep("(", ")") + " }}",
		"lists":           "{{ " + deep("[", "]") + " }}",
		"nots":            "{{ " + deep("not ", "") + "x }}",
		"signs":           "{{ " + deep("-", "") + "1 }}",
		"sum":             "{{ 1" + deep("+1", "") + " }}",
		"attributes":      "{{ x" + deep(".a", "") + " }}",
		"filters":         "{{ x" + deep("|trim", "") + " }}",
		"conditions":      "{{ 1" + deep(" if 1 else 1", "") + " }}",
		"ifs":             deep("{% if x %}", "{% endif %}"),
		"comparisons":     "{% for x in range(100000) %}{% if 1" + strings.Repeat(" < 2", 100_000) + "%}{% endif %}{% endfor %}",
		"recursion":       "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"two macros":      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
		"range":           "{{ range(10000000000) }}",
		"loops":           "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
		"repeat":          "{{ 'x' * 100000000000 }}",
		"repeat nothing":  "{{ '' * 100000000000 }}",
		"doubling":        "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"doubling list":   "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"list in itself":  "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
		"equal in itself": "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l == k }}",
		"JSON of itself":  "{% set l = [] %}{% set _ = l.append(l) %}{% set _ = l.append(l) %}{{ l | tojson }}",
		"growing loop":    "{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}{{ l | length }}",
		"replace":         "{{ ('x' * 10000) | replace('', 'y' * 100000) }}",
		"join":            "{{ range(100000) | join('x' * 100000) }}",
		"indent":          "{{ ('\n' * 100000) | indent(1000, true, true) }}",
		"sorting":         "{% for i in range(1000) %}{% set _ = range(100000) | reverse | sort %}{% endfor %}",
		"slice":           "{% for i in range(100000) %}{% set _ = ('x' * 100000)[::-1] %}{% endfor %}",
		"unclosed":        strings.Repeat("{{", 100_000),
		"unclosed string": "{{ '" + strings.Repeat("x", 100_000),
		"long":            strings.Repeat("x", SourceBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			out, err := render(src, NewDict())
			if err == nil && len(out.String()) > 1000 {
				t.Errorf("gave %d bytes", len(out.String()))
			}
			if took := time.Since(start); took > 60*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	for _, src := range operations {
		f.Add(src, "αβ", `{"k": [1, null, "x"]}`)
	}
	f.Add("{%- raw -%} {{ {%- endraw -%}", "", "1")
	f.Add("{# x -#} {%+ if c %}\n{% endif +%}", "", "")
	f.Fuzz(func(t *testing.T, src, c, doc string) {
		names := NewDict()
		names.Set(Own("c"), Client(c))
		names.Set(Own("e"), Client(c+c))
		if v, err := FromJSON([]byte(doc)); err == nil {
			names.Set(Own("d"), v)
		}
		out, err := render(src, names)
		if err != nil {
			return
		}
		whole := ""
		for text := range out.Runs {
			whole += text
		}
		if whole != out.String() {
			t.Errorf("%q: the runs make %q, the text is %q", src, whole, out)
		}
	})
}
