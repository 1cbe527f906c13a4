#!/usr/bin/env python3
"""Writes snippets.json: what Python's jinja2, set up as Hugging Face does, makes of small templates.

Needs jinja2 3.1 (Debian: python3-jinja2). Errors are kept as their class only: messages differ between versions."""
import json, os
import jinja2, jinja2.sandbox, jinja2.ext

VARS = {
    "s": "Hello, World", "empty": "", "sp": "  \n x y\t ", "n": 7, "neg": -3, "f": 2.5, "big": 1e20, "t": True, "none": None,
    "l": [3, 1, 2], "words": ["b", "A", "c"], "d": {"b": 1, "a": [1, "x"], "items": 5}, "uni": "Ünïcödé ß 漢字🦙",
    "ms": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "x": None}, {"role": "user", "content": "<b>"}],
    "q": "it's \"q\" \\ \n", "lines": "a\nb\n\nc",
}

SNIPPETS = r"""
{{ s }}|{{ missing }}|{{ none }}|{{ t }}|{{ f }}|{{ n }}|{{ big }}|{{ 1.0 }}|{{ 1e-7 }}|{{ 100000.0 }}|{{ 123456789012345678.0 }}
{{ l }}|{{ d }}|{{ (1, 'a') }}|{{ (1,) }}|{{ () }}|{{ [] }}|{{ {} }}|{{ q }}|{{ [q] }}|{{ [uni, "\x00\x7f"] }}|{{ [true, none, 1.5] }}
{{ n + 1 }} {{ n - 10 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ neg // 2 }} {{ n % 4 }} {{ neg % 4 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -n }} {{ +n }} {{ f * 2 }} {{ true + 1 }}
{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 10 - 2 - 3 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ not true or true }} {{ not (true or true) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' == 'a' }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 == true }} {{ none == missing }} {{ missing == missing2 }} {{ '1' == 1 }}
{{ 'a' in 'abc' }} {{ 3 in l }} {{ 9 not in l }} {{ 'b' in d }} {{ 'x' in missing }} {{ not 3 in l }} {{ 1 in [true] }}
{{ 'yes' if n > 5 else 'no' }} {{ 'yes' if n < 5 }} {{ ('a' if false) is defined }} {{ 1 if 0 else 2 if 0 else 3 }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[:-1] }} {{ s[::-1] }} {{ s[::2] }} {{ s[99] }}| {{ uni[1:3] }} {{ uni[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:] }} {{ s[-3:-1] }} {{ s[100:] }}| {{ l[:0] }} {{ s[4:1:-1] }}
{{ d.b }} {{ d['b'] }} {{ d.a[1] }} {{ d['items'] }} {{ d.missing }}| {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 4) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }}
{{ ms[0].role }} {{ ms[-1]['content'] }} {{ ms[7] }}| {{ none.x }}| {{ none['x'] }}| {{ l.x }}| {{ s.x }}| {{ l['x'] }}|
{{ missing.x }}
{{ d.missing.x }}
{{ missing + 'a' }}
{{ 'a' + missing }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' + none }}
{{ none + 'a' }}
{{ missing < 1 }}
{{ missing() }}
{{ s() }}
{{ -missing }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ none in none }}
{{ 1 in 'a' }}
{{ missing | tojson }}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in missing %}a{% else %}none{% endfor %}
{{ missing ~ 'a' }} {{ missing | length }} {{ missing | trim }}| {{ missing | join(',') }}| {{ missing | list }} {{ missing | lower }}| {{ missing | default('x') }} {{ none | default('x') }} {{ none | default('x', true) }} {{ '' | d('y', boolean=true) }}
{{ s | upper }} {{ s | lower }} {{ 'heLLo wOrld' | title }} {{ 'heLLo wOrld' | capitalize }} {{ uni | upper }} {{ uni | lower }} {{ "it's o'neil's" | title }} {{ "it's".title() }} {{ 'x-y z' | title }}
[{{ sp | trim }}] [{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abc' | trim('ac') }}] [{{ '\x1c a\u2003' | trim }}]
{{ 'a,b,,c'.split(',') }} {{ 'a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c d'.split(none, 2) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split(',') }} {{ ''.split() }}
{{ 'abc'.split('') }}
{{ '<t>x</t>y'.split('</t>')[-1] }} {{ 'a\nb\r\nc'.splitlines() }} {{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('o') }} {{ uni.find('漢') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.count('l') }} {{ 'ab'.join(['1','2']) }} {{ s.removeprefix('Hell') }} {{ s.removesuffix('x') }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'aB'.isupper() }} {{ 'AB1'.isupper() }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ s | replace('o', '0') }} {{ s | replace('o', '0', 1) }} {{ 5 | replace('5', 'x') }}
{{ l | join(', ') }} {{ words | join }} {{ ms | join(',', attribute='role') }} {{ l | length }} {{ d | length }} {{ uni | length }} {{ l | first }} {{ l | last }} {{ [] | first }}| {{ s | first }} {{ s | list }} {{ d | list }}
{{ l | sort }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ ms | sort(attribute='content') | map(attribute='content') | list }} {{ d | dictsort | length }} {{ ['a', 'A', 'b', 'a', 1, 1.0] | unique | list }} {{ l | reverse | list }} {{ s | reverse }}
{{ l | sum }} {{ l | min }} {{ l | max }} {{ [] | max }}| {{ neg | abs }} {{ 2.567 | round(1) }} {{ 2.5 | round }} {{ 7 | round }} {{ 2.1 | round(method='ceil') }} {{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ 3.9 | int }} {{ '2.5' | float }} {{ none | string }} {{ true | string }} {{ 5 | string + 'x' }}
{{ ms | map(attribute='role') | list }} {{ words | map('upper') | list }} {{ words | map('replace', 'b', 'z') | join }} {{ ms | map(attribute='x', default='-') | list }} {{ ms | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ ms | selectattr('x', 'defined') | list | length }} {{ ms | rejectattr('role', 'eq', 'user') | list | length }} {{ l | select('gt', 1) | list }} {{ l | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ ms | selectattr('x') | list }} {{ none | selectattr('x') | list }} {{ ms | selectattr('role', 'in', ['user']) | list | length }}
{{ ms | map(attribute='role') | tojson }}
{{ ms | map(attribute='role') | length }}
{{ (ms | map(attribute='role'))[0] }}|
{{ d | tojson }} {{ q | tojson }} {{ uni | tojson }} {{ [1.0, 1e20, none, true, '<&>'] | tojson }} {{ "\x01\x7f\u2028" | tojson }} {{ (1, 2) | tojson }} {{ [] | tojson }} {{ {} | tojson }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {'a': {}} | tojson(indent=4) }} {{ l | tojson(separators=(',', ':')) }} {{ d | tojson(indent=1, separators=(',', ':')) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}
{{ lines | indent }} {{ lines | indent(2) }} {{ lines | indent(2, true) }} {{ lines | indent(2, blank=true) }} {{ lines | indent(width='> ', first=true) }} {{ '' | indent(2, true) }}| {{ "\nx" | indent(2, true) }}|
{{ '<a href="x">\'' | e }} {{ ('<'|safe) + '<' }} {{ '<' + ('>'|safe) }} {{ ('<'|safe) ~ '<' }} {{ ('x<'|safe).replace('x', '<') }} {{ ('%s<'|safe) % '<' }} {{ (('a<'|safe)[0:2]) + '<' }} {{ ('a<'|safe)|upper + '<' }} {{ ('a'|safe) * 2 + '<' }}
{{ '%s-%d-%.2f-%%' % ('a', 3, 1.5) }} {{ '%s' % 'x' }} {{ '%r' % 'x' }} {{ '%s %s' | format('a', 1) }} {{ 'a' * 3 }} {{ 3 * 'ab' }} {{ 'a' * 0 }}|{{ 'a' * -1 }}|
{{ '%s %s' % 'x' }}
{{ '%s' % ('a', 'b') }}
{{ s is string }} {{ n is number }} {{ n is integer }} {{ f is float }} {{ t is boolean }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ d is mapping }} {{ l is sequence }} {{ s is sequence }} {{ none is none }} {{ missing is defined }} {{ missing is undefined }} {{ missing is iterable }} {{ s is defined }} {{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'A' is upper }} {{ 'a' is lower }} {{ range is callable }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 is eq 1 }} {{ 1 is sameas 1 }} {{ 1 is in [1] }} {{ 1 is not none }} {{ not s is string }} {{ s is string and n is string }} {{ true is number }} {{ 1 is ge(1) }}
{{ 'a' + 'b' is string }}
{{ 1 + 2 | abs }} {{ -5 | abs }} {{ (-5) | abs }} {{ n is defined and n > 3 }} {{ 'a' 'b' }} {{ "a" 'b' ~ 'c' }} {{ 1_000 }} {{ '\u00e9\x41\n\q\'' }} {{ "\"" }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }} {{ loop.changed(x > 1) }};{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %} {{ range(3) | list }} {{ range(1, 7, 2) | list }} {{ range(3, 0, -1) | list }}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }};{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns.b }}| {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }}
{% set x %}  body {{ n }} {% endset %}[{{ x }}] {% set y | upper | trim %} body {% endset %}[{{ y }}] {% filter upper %}abc{{ s }}{% endfilter %} {% filter trim | replace('a', 'b') %} aa {% endfilter %}
{% macro m(a, b='d', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(c=3, a=1) }}{{ m() }} {{ m('x') | length }}
{% macro m(a) %}{{ a }}{% if a > 0 %}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in {{ n }}{% endcall %}{% macro k(x) %}{{ caller(x) }}{% endmacro %}{% call(v) k(4) %}v={{ v }}{% endcall %}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% set x = d.update({'z': 1}) %}{{ d | tojson }}
{{ dict(a=1, b=2) }} {% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c
{% if n > 100 %}a{% elif n > 5 %}b{% else %}c{% endif %}{% if none %}x{% endif %}{% if '' %}x{% elif [] %}y{% elif 0.0 %}z{% else %}e{% endif %}
{% raw %}{{ not }} {% if %}{% endraw %}{# comment {{ x }} #}after
{%- if true -%}   x   {%- endif -%}   y
   {% if true %}\n   x\n   {% endif %}\ny {% if true %} z {% endif %}\n
a\n  {%- if true %}\n  b\n{%- endif %}\nc\n\n
  {%+ if true %}x{% endif +%}\n z {{- 'a' -}}  b {{+ 'c' }}
a\n  {# c #}\nb {# d #} c\n  {#- e -#}  f
{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }} {{ {'a': '}}'} }} {{ '%}' }} {{ "{{" }}
{{ 'a'.b.c }}
{{ raise_exception('no way') }}
{{ 'x' | nofilter }}
{{ 1 is notest }}
{% if %}{% endif %}
{% for %}{% endfor %}
{{ 1 + }}
{{ (1 }}
{% if true %}
{% endif %}
{% include 'x' %}
{{ 'a
{{ 1 2 }}
{{ l.0 }}{{ d.a.1 }}
{{ [1,2,3][1:][0] }} {{ 'abc'[1] | upper }} {{ ('a', 'b')[1] }} {{ {'x': 1}['x'] }} {{ 'a,b'.split(',')[0] }} {{ l[0] == 3 and l[1] == 1 }} {{ [[1, 2], [3]][0][1] }} {{ l.index(2) }} {{ l.count(3) }}
{% set content = '<think>a</think>\n\nb' %}{% if '</think>' in content %}{{ content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}|{{ content.split('</think>')[-1].lstrip('\n') }}{% endif %}
{%- set loop_messages = ms %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = '<s>' + content %}{% endif %}{{ content }}{% endfor %}
{{ strftime_now('%Y') | length }} {{ strftime_now('%d %b') | length }} {{ strftime_now('%%x') }}
"""

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)

def strftime_now(format):
    from datetime import datetime
    return datetime.now().strftime(format)

env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = strftime_now

out = []
for line in SNIPPETS.strip("\n").split("\n"):
    src = line.replace("\\n", "\n") if "{%" in line or "{#" in line else line
    try:
        out.append({"template": src, "want": env.from_string(src).render(**json.loads(json.dumps(VARS)))})
    except Exception as e:
        out.append({"template": src, "error": type(e).__name__})
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "snippets.json"), "w") as f:
    json.dump({"names": VARS, "snippets": out}, f, ensure_ascii=False, indent=1)
    f.write("\n")
