#!/usr/bin/env python3
"""Writes tests/data/text/jinja2.jsonl: templates with what Jinja2, set up as Hugging Face's transformers does, renders.

The first line holds the variables that all templates see. `rendered` is absent where Jinja2 refuses to render.
  python3 tools/generate_jinja_vectors.py        (needs Debian's python3-jinja2)
"""
import json
import pathlib
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "messages": [
        {"role": "system", "content": "  Be brief.\n"},
        {"role": "user", "content": "Größe <b> & 'x' \"y\" 🙂\tend"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nfine", "tool_calls": [
            {"function": {"name": "f", "arguments": {"b": 1, "a": [True, None, 1.5]}}}]},
        {"role": "tool", "content": "", "name": "f"},
    ],
    "items": [3, 1, 2, 1], "words": ["pear", "Apple", "fig", "apple"], "empty": [], "nothing": None, "yes": True,
    "text": "one two  three", "n": 7, "x": -2.5, "big": 1e20, "small": 1e-7,
    "mapping": {"b": {"k": [1, 2]}, "a": "A", "items": 5, "get": 6},
    "people": [{"name": "Bo", "age": 3, "tags": ["x"]}, {"name": "al", "age": 12}, {"name": "Cy", "age": 3}],
    "lines": "first\n\nsecond\nthird\n",
}

TEMPLATES = r"""
{{ 1 + 2 * 3 ** 2 - 7 // 2 }} {{ 7 / 2 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** -1 }} {{ 4 / 2 }} {{ 7.5 // 2 }}
{{ -n }} {{ +n }} {{ - -n }} {{ not n }} {{ x }} {{ big }} {{ small }} {{ 1.0 }} {{ 1e3 }} {{ 1_000 }} {{ 0x1F }} {{ 1e16 }} {{ 123456789.125 }}
{{ "a" ~ 1 ~ none ~ true ~ 1.5 }} {{ "ab" * 3 }} {{ 3 * "-" }} {{ [1] * 2 }} {{ [1] + [2] }} {{ "a" + "b" }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 }} {{ "a" < "b" }} {{ 1 != 2 }} {{ true == 1 }} {{ none == none }} {{ [1, 2] == [1, 2] }} {{ {"a": 1} == {"a": 1} }}
{{ 1 in items }} {{ 9 not in items }} {{ "two" in text }} {{ "a" in mapping }} {{ not 1 in items }} {{ "zz" in missing }}
{{ yes and n }} {{ nothing or "else" }} {{ empty or nothing }} {{ n and not nothing }} {{ not yes or n }}
{{ "a" if n > 5 else "b" }} {{ "a" if n > 50 }}| {{ "a" if n > 50 else "b" if n > 5 else "c" }}
{{ missing }}|{{ missing is defined }}|{{ mapping.zzz is undefined }}|{{ missing | default("d") }}|{{ nothing | default("d") }}|{{ nothing | default("d", true) }}|{{ "" | d("e", boolean=true) }}
{{ mapping.a }} {{ mapping["a"] }} {{ mapping.b.k[1] }} {{ mapping["items"] }} {{ items[0] }} {{ items[-1] }} {{ items.1 }} {{ text[0] }} {{ text[-1] }} {{ items[99] is defined }}
{{ items[::-1] }} {{ items[1:] }} {{ items[:2] }} {{ items[1:3] }} {{ items[-2:] }} {{ items[::2] }} {{ items[5:] }} {{ text[::-1] }} {{ text[4:7] }} {{ text[:-6] }} {{ items[3:0:-2] }} {{ messages[1].content[:5] }} {{ text[100:] }}| {{ items[-100:100] }}
{{ mapping.items() | list }} {{ mapping.keys() | list }} {{ mapping.values() | list }} {{ mapping.get("a") }} {{ mapping.get("q") }} {{ mapping.get("q", 4) }}
{% for k, v in mapping.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in mapping | items %}{{ loop.index }}{{ k }}{% endfor %}{% for k in mapping %}{{ k }}{% endfor %}
{% for i in items %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.previtem }}/{{ loop.nextitem }} {% endfor %}
{% for i in items if i > 1 %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}{% for i in empty %}x{% else %}none{% endfor %}{% for i in items if i > 9 %}x{% else %}none{% endfor %}
{% for i in items %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for j in range(i) %}{{ loop.depth }}{{ i }}{{ j }} {% endfor %}{{ loop.cycle("a", "b") }}{% endfor %} {{ range(1, 10, 3) | list }} {{ range(5, 0, -2) | list }}
{% for m in messages %}{{ loop.changed(m.role) }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for c in "añ" %}[{{ c }}]{% endfor %}
{% set a = 1 %}{% for i in items %}{% set a = i %}{% endfor %}{{ a }} {% set ns = namespace(a=1) %}{% for i in items %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {% set b, c = 1, 2 %}{{ b }}{{ c }} {{ ns.zz is defined }}
{% if n > 9 %}a{% elif n > 6 %}b{% else %}c{% endif %}{% if nothing %}{% else %}e{% endif %}{% if n %}{% set inner = 5 %}{% endif %}{{ inner }}
{% set block %}  x{{ n }}  {% endset %}[{{ block }}]{% set up | upper | trim %} abc {% endset %}[{{ up }}]
{% macro f(a, b=2, c="z") %}<{{ a }},{{ b }},{{ c }}>{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(b=1, a=2) }}{{ f() }}{{ f(1) | upper }}
{% macro g() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ g(1, 2, k=3) }}{% macro outer(x) %}{% macro inner(y) %}{{ x }}{{ y }}{% endmacro %}{{ inner(2) }}{% endmacro %}{{ outer(1) }}
{% macro w(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call w("a") %}body{{ n }}{% endcall %}{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) each(items) %}({{ i }}){% endcall %}
{% macro fact(k) %}{{ 1 if k == 0 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(6) }}{% macro late() %}{{ later }}{% endmacro %}{% set later = 4 %}{{ late() }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}{% filter upper %}abc{{ n }}{% endfilter %}{% raw %}{{ not }} {% if %}{% endraw %}{# comment {{ x }} #}|
{{ messages[0].content | trim }}|{{ "xxaxx" | trim("x") }}|{{ text | upper }}|{{ "ABC" | lower }}|{{ "hello wORLD-foo (bar" | title }}|{{ "hELLO w" | capitalize }}|{{ "ß" | upper }}
{{ items | length }} {{ text | length }} {{ messages[1].content | length }} {{ mapping | count }} {{ missing | length }} {{ "🙂" | length }}
{{ items | join(", ") }} {{ words | join }} {{ people | join("|", attribute="name") }} {{ [1, none, "a"] | join("-") }}
{{ items | first }} {{ items | last }} {{ empty | first }}| {{ "xyz" | first }} {{ "xyz" | list }} {{ mapping | list }} {{ (1, 2) | list }}
{{ items | sort }} {{ items | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute="age") | map(attribute="name") | join(",") }} {{ people | sort(attribute="name") | map(attribute="name") | join(",") }}
{{ items | unique | list }} {{ words | unique | list }} {{ items | reverse | list }} {{ "abc" | reverse }} {{ items | min }} {{ items | max }} {{ items | sum }} {{ people | sum(attribute="age") }} {{ items | batch(3) | list }} {{ items | batch(3, 0) | list }}
{{ mapping | dictsort }} {{ {"b": 1, "A": 2} | dictsort(by="value", reverse=true) }} {{ {"b": 1, "A": 2} | dictsort(true) }}
{{ people | selectattr("age", "equalto", 3) | map(attribute="name") | list }} {{ people | rejectattr("age", "gt", 3) | list | length }} {{ people | selectattr("tags") | list | length }} {{ people | map(attribute="tags.0", default="-") | list }} {{ people | selectattr("tags", "defined") | map(attribute="name") | first }}
{{ items | select("odd") | list }} {{ items | reject("eq", 1) | list }} {{ [0, 1, "", "a"] | select | list }} {{ words | map("upper") | list }} {{ words | map("replace", "p", "q") | list }} {{ items | map("string") | join }}
{{ "3" | int + 1 }} {{ "x" | int }} {{ "x" | int(5) }} {{ "3.9" | int }} {{ 3.9 | int }} {{ "0x1f" | int(base=16) if false else "1f" | int(0, 16) }} {{ "2.5" | float }} {{ "q" | float(1.5) }} {{ 3 | float }} {{ n | string + "!" }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.345 | round(2) }} {{ 2.1 | round(method="ceil") }} {{ 2.19 | round(1, "floor") }} {{ -3 | abs }} {{ (-3) | abs }} {{ x | abs }} {{ 5 | round }}
{{ "a-b-a" | replace("a", "c") }} {{ "a-b-a" | replace("a", "c", 1) }} {{ lines | indent }}| {{ lines | indent(2, true) }}| {{ lines | indent(2, blank=true) }}| {{ "a\nb" | indent(">> ", first=true) }} {{ text | wordcount }} [{{ "ab" | center(7) }}]
{{ messages | tojson }} {{ mapping | tojson(indent=2) }} {{ messages[1] | tojson(ensure_ascii=true) }} {{ mapping | tojson(separators=(",", ":")) }} {{ mapping | tojson(sort_keys=true) }}
{{ empty | tojson }} {{ {} | tojson(indent=4) }} {{ [1, [2, {"a": []}]] | tojson(indent=1) }} {{ "\u0001\u007f/<>&'" | tojson }} {{ none | tojson }} {{ 1.0 | tojson }} {{ {1: 2, none: 3, true: 4} | tojson }} {{ (1, 2) | tojson }}
{{ "<a href='x'>&\"" | e }} {{ "<b>" | escape }} {{ "<b>" | safe }} {{ [1] | string }}
{{ n is number }} {{ n is integer }} {{ x is float }} {{ yes is boolean }} {{ yes is true }} {{ yes is false }} {{ yes is number }} {{ n is string }} {{ text is string }} {{ mapping is mapping }} {{ items is sequence }} {{ text is sequence }} {{ mapping is sequence }} {{ n is sequence }} {{ items is iterable }} {{ n is iterable }} {{ nothing is none }} {{ nothing is not none }} {{ yes is integer }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is gt 3 }} {{ n is lt 3 }} {{ n is ge 7 }} {{ n is le 7 }} {{ 1 is in items }} {{ "ab" is lower }} {{ "AB" is upper }} {{ n is sameas n }} {{ text is defined and n is defined }} {{ f is callable }} {{ range is callable }}
{{ text.split() }} {{ text.split(" ") }} {{ text.split(" ", 1) }} {{ text.split(None, 1) }} {{ "a,b,c".rsplit(",", 1) }} {{ "a,b,c".split(",")[-1] }} {{ "".split() }} {{ "".split(",") }} {{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ "a=b=c".partition("=") }} {{ "a=b=c".rpartition("=") }} {{ "abc".partition("z") }}
[{{ "  a ".strip() }}] [{{ "  a ".lstrip() }}] [{{ "  a ".rstrip() }}] [{{ "xyaxy".strip("yx") }}] [{{ "\n\nx".lstrip("\n") }}] [{{ "x--".rstrip("-") }}]
{{ text.startswith("one") }} {{ text.endswith("three") }} {{ text.startswith(("a", "o")) }} {{ text.startswith("two", 4) }} {{ text.find("two") }} {{ text.find("zz") }} {{ text.rfind("e") }} {{ text.count("e") }} {{ text.index("t") }} {{ "ab".replace("a", "x") }} {{ "aaa".replace("a", "b", 2) }} {{ "ab".replace("", "-") }}
{{ "aB c".upper() }} {{ "aB c".lower() }} {{ "aB c".title() }} {{ "they're bill's".title() }} {{ "aB c".capitalize() }} {{ "a".isalpha() }} {{ "1".isdigit() }} {{ "a1".isalnum() }} {{ " ".isspace() }} {{ "A1".isupper() }} {{ "a".islower() }} {{ "".isalpha() }} {{ "abc".removeprefix("a") }} {{ "abc".removesuffix("c") }}
[{{ "ab".ljust(5) }}] [{{ "ab".rjust(5, "*") }}] [{{ "ab".center(7, "-") }}] [{{ "abc".center(6, "-") }}] [{{ "-5".zfill(4) }}] {{ ",".join(["a", "b"]) }} {{ items.count(1) }} {{ items.index(2) }}
{{ [1, "a", none, true, 1.5, {"k": 'it\'s "q"'}, (1,), "it's", "a\nb\\c\t\x01ü\u200b"] }} {{ () }} {{ {} }} {{ {"a": [1], 2: "b"} }} {{ [missing] }}
{{ "a" "b" }} {{ 'x\'y' }} {{ "\x41\u00e9\n\101" }} {{ "a\qb" }} {{ {"a": {"b": {}}} }} {{ [1, 2,] }} {{ (1) }} {{ (1,) }} {{ 1, 2 }}
{{ dict(a=1, b=2) }} {{ dict({"x": 1}, y=2) }} {{ namespace is callable }} {{ strftime_now("%Y-%m-%d %d %b %Y %H:%M") }}
  {% if true %}   
  a   
  {% endif %}   
b
x {%- if true -%}  y  {%- endif -%}  z {{- " w " -}}   v   {#- c -#}   u
    {%+ if true +%}
 a {% endif %}	
	{# comment #}
b {{ n }}
c
{% for i in [1, 2] %}
  line {{ i }}
{% endfor %}
  {% set q = 1 %}  
tail {{ q }}
{% generation %}a{% set hidden = 1 %}{% endgeneration %}{{ hidden is defined }}{% for i in [] %}{% endfor %}
{% for i in [1,2] %}{{ seen }}{% set seen = i %}{% endfor %}{{ loop is defined }}{{ messages | selectattr("role", "equalto", "zzz") and "always" }}
{{ messages | map(attribute="role") | list | tojson }}{{ messages | length - 1 }}{{ messages[-1].role == "tool" and messages[0]["role"] != "x" }}
{{ ("a" if yes else "b") + "c" }} {{ {"a": 1}["a"] + 1 }} {{ "abc"[1] ~ "abc"[1:] }} {{ [[1, 2], [3]][0][1] }} {{ "%s" is string }} {{ n|string|length }}
{{ text | attr("zz") is defined }} {{ items | sort | first }} {{ -1 | abs }} {{ 2 + 3 | string | length }} {{ not missing }} {{ missing == missing2 }} {{ missing ~ "x" }}
{{ undefined_thing.attribute }}
{{ nothing.attribute }}|{{ n.foo is defined }}|{{ text.foo is defined }}|{{ nothing["a"] is defined }}
{{ 1 + "a" }}
{{ "a" + 1 }}
{{ missing + 1 }}
{{ 1 < "a" }}
{{ n | length }}
{{ nothing | length }}
{{ 1 // 0 }}
{{ 1 in 5 }}
{{ 1 in "abc" }}
{% for i in n %}{% endfor %}
{% for a, b in items %}{% endfor %}
{% set mapping.x = 1 %}
{{ items.append(1) }}
{{ raise_exception("no") }}
{{ range(3)(1) }}
{{ f(1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{{ missing | tojson }}
{{ items | zzz }}
{{ items is zzz }}
{% zzz %}
{% if %}{% endif %}
{% for %}
{{ 
{{ 1 }
{% if true %}
{% endif %}
{{ (1 }}
{{ "abc }}
{# open
{{ text.split("") }}
{{ items | join(attribute=1, zz=2) }}
"""

# Templates that span lines, each with the lines above that begin it.
JOINED = {"  {% if true %}   ": 4, "    {%+ if true +%}": 5, "{% for i in [1, 2] %}": 5}


class Generation(Extension):
    """Hugging Face's generation tag marks a part of the output and changes nothing of it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass", []), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime(2024, 7, 26, 9, 5, 3).strftime(form)
    return made


def templates():
    lines = TEMPLATES.strip("\n").split("\n")
    at = 0
    while at < len(lines):
        count = JOINED.get(lines[at], 1)
        yield "\n".join(lines[at:at + count])
        at += count


def main():
    made = environment()
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/data/text/jinja2.jsonl"
    with path.open("w", encoding="utf-8") as file:
        print(json.dumps(VARIABLES, ensure_ascii=False), file=file)
        for template in templates():
            entry = {"template": template}
            try:
                entry["rendered"] = made.from_string(template).render(**VARIABLES)
            except Exception as error:  # pylint: disable=broad-except  (whatever Jinja2 and Python raise)
                entry["refused"] = str(error)
            print(json.dumps(entry, ensure_ascii=False), file=file)


if __name__ == "__main__":
    main()
