#!/usr/bin/env python3
"""make_template_cases.py - writes tests/cases/template/snippets.json: small templates
and what Jinja2 makes of them in the environment that chat templates get.

usage: make_template_cases.py [--check]

Needs the jinja2 package. The environment is set up as transformers does: immutable
sandbox, trim_blocks, lstrip_blocks, loop controls, a generation tag, tojson without
HTML escaping, raise_exception, strftime_now (frozen). Each case says what is expected
or which error Jinja raises; "exact": our message must contain Jinja's.

"origin" cases are rendered twice, the second time with every character of the data
moved into a private plane, which shows which characters of the result are data.
"""
import datetime, json, pathlib, sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/cases/template/snippets.json"
NOW = datetime.datetime(2026, 11, 30, 12, 0, 0)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


class Namespace(jinja2.utils.Namespace):
    """Refuses names that begin with an underscore, as transformers 5 does."""

    def __init__(*args, **kwargs):
        attrs = dict(*args[1:], **kwargs)
        for name in attrs:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(args[0], attrs)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("Chat templates cannot store underscore-prefixed attributes on a "
                                                  f"namespace, but got {name!r}. Please rename the attribute.")


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    env.globals["dict"] = Dict()
    env.globals["namespace"] = Namespace
    return env


VARS = {
    "s": "Hello World", "t": "  padded\ttext \n", "u": "Grüße, Ωmega ß é 中文 🎉", "e": "", "n": 42, "f": 2.5, "neg": -7,
    "big": 9007199254740993, "yes": True, "no": False, "nil": None, "z": 0,
    "l": [3, 1, 2], "ls": ["banana", "Apple", "cherry", "apple"], "nest": [[1, 2], [3, [4, 5]]], "el": [],
    "d": {"b": 1, "a": 2, "C": 3}, "ed": {}, "mix": [1, "two", 3.0, None, True, ["x"], {"k": "v"}],
    "users": [{"name": "Ann", "age": 30, "tags": ["x", "y"], "addr": {"city": "Rome"}},
              {"name": "bob", "age": 25, "tags": [], "addr": {"city": "Oslo"}},
              {"name": "Cid", "age": 30, "addr": {"city": "rome"}}],
    "html": "<a href=\"x\">it's & that</a>", "json": "{\"a\": 1}", "lines": "one\ntwo\n\nthree\r\nfour",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": []},
                 {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}],
}

# One template a line; "\n" inside stands for a newline (use TEXTS for those with backslashes).
LINES = {}
LINES["print"] = r"""
{{ s }}{{ n }}{{ f }}{{ neg }}{{ big }}{{ yes }}{{ no }}{{ nil }}
{{ l }}|{{ ls }}|{{ nest }}|{{ el }}|{{ d }}|{{ ed }}|{{ mix }}
{{ (1,) }}{{ (1, 2) }}{{ () }}{{ [] }}{{ {} }}
{{ {'a': [1, {'b': (2, 'c')}], 2: none, 2.5: true} }}
{{ ["it's", 'say "x"', 'both \' and "', 'nl\n tab\t bs\\ nul\x00 bell\x07 del\x7f'] }}
{{ ['é', '中', '🎉', '\u200b', '\xa0', '\ue000', '\U000e0001'] }}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 1e-4 }} {{ 1e-5 }} {{ 1.5e300 }} {{ 5e-324 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1e100 }}
{{ 100000000000000000000.0 }} {{ 12345678901234567.0 }} {{ 0.00001234 }} {{ -0.0 }} {{ 2.0 ** -44 }} {{ 2.0 ** 60 }} {{ 1/3 }} {{ 2/3 }}
{{ 1.7976931348623157e308 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 2.2250738585072014e-308 }} {{ 4.35 }} {{ 0.1 + 0.7 }}
{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}
{{ undefined_thing }}|{{ d.missing }}|{{ l[9] }}
{{ 'a' 'b' "c" }}
{{ "tab\tnew\nquote\"apos\'back\\ \x41 \u0042 \U00000043 \101 \q \
joined" }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 00 }} {{ 1e3 }} {{ 1E+2 }}
{{ range(3) }} {{ range(1, 5) }} {{ range(0, 10, 3) }} {{ range(5)|list }} {{ range(5, 0, -2)|list }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ ed.items() }}
{{ namespace(a=1, b='x') }}
{% macro m(a, b=2) %}{% endmacro %}{{ m }} {{ m.name }} {{ m.arguments }}
{% print s %}{% print n, f %}
"""
LINES["operators"] = r"""
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ 2 ** 3 ** 2 }}
{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7 / 2 }} {{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }}
{{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 4 ** 0.5 }} {{ (-2) ** 2 }} {{ -2 ** 2 }} {{ 0 ** 0 }} {{ 2.0 ** 3 }}
{{ 6 / 3 }} {{ 6 // 3.0 }} {{ 1 / 4 }} {{ 10 % 2.5 }} {{ 0.0 // 3 }} {{ -0.0 % 3 }} {{ 5 // 0.3 }}
{{ true + 1 }} {{ true + true }} {{ false * 5 }} {{ 3 * true }} {{ -true }} {{ +5 }} {{ - 5 }} {{ -n }} {{ +f }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'x' * 0 }} {{ 'x' * -1 }} {{ [1] + [2] }} {{ [1, 2] * 2 }} {{ (1,) + (2,) }} {{ 2 * (1, 2) }}
{{ 1 ~ 2 }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] }} {{ 1 ~ 2 * 3 }} {{ nope ~ 'x' }} {{ 'a' ~ 'b' == 'ab' }}
{{ 1 == 1.0 }} {{ 1 == true }} {{ 0 == false }} {{ '1' == 1 }} {{ none == false }} {{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 }} {{ 1 != 2 }} {{ 1 <= 1 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ 1 < 1.5 }} {{ true < 2 }} {{ 'é' > 'z' }}
{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} {{ big < 1e300 }}
{{ 2 in l }} {{ 9 in l }} {{ 'a' in d }} {{ 'z' in d }} {{ 'ell' in s }} {{ '' in s }} {{ 2 not in l }} {{ 'x' not in s }} {{ not 2 in l }} {{ 1 in (1, 2) }} {{ 1.0 in l }} {{ none in mix }}
{{ 'b' in d.keys() }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }} {{ 3 in range(5) }} {{ 'x' in nope }} {{ nope in [1] }} {{ 'a' in 'abc' in ['abc'] }}
{{ 0 or 'x' }} {{ '' or [] or 'last' }} {{ 1 and 2 }} {{ 0 and 2 }} {{ [] and 1 }} {{ none or none }} {{ not '' }} {{ not 1 }} {{ not not s }} {{ 1 or nope.x }}
{{ 'y' if yes else 'n' }} {{ 'y' if no else 'n' }} {{ 'y' if no }}| {{ 1 if 0 else 2 if 0 else 3 }} {{ 'a' if yes if no else 'b' }}
{{ (nope if no) is defined }} {{ ('x' if no) is undefined }}
{{ nope == nope2 }} {{ nope != 1 }} {{ nope == none }} {{ nope is undefined and nope == nope }}
{{ not nope }} {{ nope or 'dflt' }} {{ nope|length }} {{ nope|list }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 9223372036854775807 - 1 + 1 }}
{{ 1 + 1.5 }} {{ 3 - 0.5 }} {{ 2 * 1.5 }} {{ 2.0 * 2 }} {{ 3.0 - 3 }}
{{ 'a' if 'a' in 'abc' and not false else 'z' }} {{ (1, 2) in [(1, 2)] }} {{ [1] in [[1]] }} {{ {} in [{}] }}
{{ 1 is defined and 2 is defined }} {{ 5 is divisibleby 5 and 1 }} {{ -5|abs }} {{ (-5)|abs }} {{ -n|abs }} {{ 2 ** 2|abs }}
{{ none is none }} {{ 1 == 1 == 1 }} {{ 1 == 1 != 2 }} {{ 'a' < 'b' < 'c' }}
"""
LINES["subscripts"] = r"""
{{ d.a }} {{ d['a'] }} {{ d["C"] }} {{ users[0].name }} {{ users[-1]['name'] }} {{ users.0.name }} {{ nest[1][1][0] }} {{ nest.1.1.0 }} {{ users[0].addr.city }}
{{ l[0] }} {{ l[-1] }} {{ l[2] }} {{ l.1 }} {{ l[true] }} {{ s[0] }} {{ s[-1] }} {{ u[4] }} {{ u[-1] }} {{ (1, 2)[1] }} {{ range(10)[3] }} {{ range(10)[-1] }}
{{ l[5] is defined }} {{ d.nope is defined }} {{ d['nope'] is defined }} {{ s.nope is defined }} {{ n.nope is defined }} {{ nil.x is defined }} {{ l.x is defined }} {{ l['0'] is defined }} {{ l[1.0] is defined }}
{{ l[:2] }} {{ l[1:] }} {{ l[::-1] }} {{ l[:] }} {{ l[-2:] }} {{ l[:-1] }} {{ l[5:] }} {{ l[:99] }} {{ l[2:1] }} {{ l[::2] }} {{ l[2:0:-1] }} {{ l[-1:-9:-1] }} {{ l[none:2] }}
{{ s[:5] }} {{ s[6:] }} {{ s[::-1] }} {{ s[1:8:2] }} {{ s[-5:-2] }} {{ s[8:2:-2] }} {{ u[:5] }} {{ u[7:12] }} {{ u[::-1] }} {{ u[::3] }} {{ u[-2:] }} {{ ''[:3] }}| {{ s[20:] }}|
{{ (1, 2, 3)[:2] }} {{ range(10)[2:8:3] }} {{ range(10)[::-1]|list }} {{ range(10)[8:] }}
{{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.get('a') }} {{ d.get('x') }} {{ d.get('x', 5) }} {{ d.get('x', default) is defined }}
{{ {'items': 1}['items'] }} {{ {'items': 1}.items is callable }} {{ {'keys': 2}.keys()|list }} {{ {'get': 1}['get'] }}
{{ 'abc'['upper']() }} {{ d['items']()|list }} {{ {1: 'one', 2.0: 'two', none: 'nil', true: 'T'}[1] }} {{ {1: 'one'}[1.0] }} {{ {2: 'x'}[2] }} {{ {(1, 2): 'pair'}[1, 2] }} {{ {(1, 2): 'pair'}[(1, 2)] }}
{{ d.copy() }} {{ l.copy() }} {{ l.index(2) }} {{ l.count(1) }} {{ (1, 1, 2).count(1) }} {{ (1, 2).index(2) }} {{ ls.index('cherry') }}
{{ l.append is defined }} {{ l.append }}| {{ d.pop is defined }} {{ d.update }}| {{ l.sort is undefined }} {{ s.__class__ is defined }} {{ d.__class__ }}| {{ l.__len__ is defined }}
{{ n.real }} {{ n.bit_length() }} {{ f.is_integer() }} {{ 2.0.is_integer() }} {{ range(2, 9, 3).start }} {{ range(2, 9, 3).stop }} {{ range(2, 9, 3).step }}
{{ messages[0]['role'] }} {{ messages[0].role }} {{ messages[1:]|length }} {{ messages[-1].content[0].text }} {{ messages[0].get('name') }} {{ messages[2].tool_calls is defined }}
{{ d|attr('items') is callable }} {{ d|attr('a') is defined }} {{ s|attr('upper') is callable }}
{{ namespace(x=1).x }} {{ namespace(x=1).y is defined }} {{ namespace({'q': 2}).q }} {{ namespace([('w', 3)]).w }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)], y=2) }} {{ dict({'m': 1}) }} {{ dict() }} {{ dict.fromkeys(['a', 'b'], 1) }} {{ d.fromkeys('xy') }}
{{ s [0] }} {{ d . a }} {{ l [ 1 : ] }} {{ s.upper () }}
"""
LINES["strings"] = r"""
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ 'ÀÉ straße ŉ ﬁ'.upper() }} {{ 'ÀÉİ ΣΑΣ Σ'.lower() }} {{ 'ß'.title() }} {{ "they're bill's".title() }} {{ 'ǆ'.title() }} {{ 'ﬁsh'.capitalize() }}
{{ 'Straße'.casefold() }} {{ '١٢٣'.isdigit() }} {{ 'ὈΔΥΣΣΕΎΣ'.lower() }} {{ 'ἀ'.upper() }} {{ 'ᾳ'.upper() }} {{ 'ΐ'.upper() }}
[{{ t.strip() }}] [{{ t.lstrip() }}] [{{ t.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcba'.strip('ab') }}] [{{ 'xyz'.lstrip('zyx') }}] [{{ 'a\n\n'.rstrip('\n') }}] [{{ '\u3000x\xa0'.strip() }}] [{{ 'éxé'.strip('é') }}] [{{ ' a '.strip(none) }}]
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'abc'.split('') if false else 'skip' }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b--c'.split('--') }} {{ 'a b'.split(' ', -1) }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a.b.c'.split(sep='.') }} {{ 'abc'.split('b', 0) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit() }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',') }} {{ 'aXXbXXc'.rsplit('XX', 1) }} {{ 'abc'.rsplit('z') }} {{ '  x y  '.rsplit(none, 0) }} {{ '  x y  '.split(none, 0) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\r\nb\rc\x0bd\x0ce\x1cf\u2028g\x85h'.splitlines() }} {{ ''.splitlines() }} {{ '\n'.splitlines() }} {{ 'a\n'.splitlines(keepends=true) }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }}
{{ s.startswith('Hell') }} {{ s.startswith('x') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith(('x', 'y')) }} {{ s.startswith('World', 6) }} {{ s.startswith('World', 6, 8) }} {{ s.endswith('lo', 0, 5) }} {{ ''.startswith('') }} {{ 'abc'.startswith('', 5) }} {{ s.startswith('') }}
{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.index('W') }} {{ s.rindex('l') }} {{ u.find('中') }} {{ u.rfind('🎉') }} {{ s.find('') }} {{ s.rfind('') }} {{ s.find('o', -4) }} {{ s.find('l', 0, 3) }} {{ s.find('', 99) }} {{ u.find('é', 3, -1) }}
{{ s.count('l') }} {{ s.count('') }} {{ 'aaaa'.count('aa') }} {{ s.count('l', 4) }} {{ u.count('') }} {{ s.count('o', 0, -5) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.replace('', '-') }} {{ u.replace('', '.') }} {{ s.replace('World', '') }} {{ 'aaa'.replace('a', 'aa') }} {{ s.replace('l', 'L', 0) }} {{ s.replace('l', 'L', -1) }} {{ ''.replace('', 'x') }} {{ 'ab'.replace('', '-', 2) }}
{{ ', '.join(['a', 'b']) }} {{ ''.join(ls) }} {{ '-'.join('abc') }} {{ ', '.join(d) }} {{ ','.join([]) }}| {{ ','.join(ls|map('upper')) }}
{{ 'a'.center(5) }}| {{ 'ab'.center(5) }}| {{ 'a'.center(4, '*') }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '+1'.zfill(4) }} {{ 'é'.zfill(3) }} {{ 'abc'.center(2) }} {{ 'abc'.ljust(-1) }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ '123'.isdigit() }} {{ '12a'.isdigit() }} {{ ' \t'.isspace() }} {{ ''.isspace() }} {{ 'ab1'.isalnum() }} {{ 'ABC'.isupper() }} {{ 'abc'.islower() }} {{ 'Abc Def'.istitle() }} {{ 'Abc def'.istitle() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '²'.isdecimal() }} {{ 'abc'.isascii() }} {{ u.isascii() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'A1'.isupper() }} {{ '1'.isupper() }} {{ '中'.isalpha() }} {{ 'É'.isupper() }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removeprefix('y') }} {{ 'x'.removesuffix('') }}
{{ 'a\tb'.expandtabs() }}| {{ 'a\tb\n\tc'.expandtabs(4) }}|
{{ '{} {}'.format(1, 'x') }} {{ '{1} {0}'.format(1, 2) }} {{ '{a} {b}'.format(a=1, b=2) }} {{ '{0[a]} {0[b]}'.format(d) }} {{ '{0.name}'.format(users[0]) }} {{ '{{}} {}'.format(5) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{!r} {!s}'.format('x', 'y') }} {{ '{l[1]}'.format(l=l) }}
{{ '{:d} {:5d} {:05d} {:+d} {: d} {:,} {:_} {:x} {:X} {:#x} {:b} {:o} {:c}'.format(42, 42, 42, 42, 42, 1234567, 1234567, 255, 255, 255, 5, 8, 65) }}
{{ '{:.2f} {:8.3f} {:08.2f} {:+.1f} {:e} {:.3e} {:g} {:.3g} {:%} {:.1%} {:,.2f}'.format(3.14159, 2.5, -1.5, 2.0, 12345.678, 0.00012, 0.0001, 1234567.0, 0.25, 0.333, 1234567.891) }}
{{ '{} {} {} {}'.format(1.0, none, true, [1]) }} {{ '{:.3}'.format('abcdef') }} {{ '{:{}}|'.format('a', 4) }} {{ '{:{w}.{p}f}'.format(3.14159, w=8, p=2) }} {{ '{:5}|{:5}|'.format(1, true) }} {{ '{:.3}'.format(3.0) }} {{ '{:.3}'.format(1234.5) }} {{ '{:10}|'.format(1.5) }} {{ '{:s}'.format('q') }}
{{ '%s %d %f' % ('a', 1, 2.5) }} {{ '%s' % 'x' }} {{ '%5s|%-5s|%05d|%+d|% d' % ('a', 'b', 42, 7, 7) }} {{ '%x %X %o %#x %e %g %%' % (255, 255, 8, 255, 12345.6, 0.0001) }} {{ '%.2f %8.3f' % (1.005, 2) }} {{ '%(a)s-%(b)d' % {'a': 'x', 'b': 3} }} {{ '%r %s' % ('q', none) }} {{ '%c%c' % (65, 'b') }} {{ '%.2s' % 'abc' }} {{ '%*d' % (5, 3) }} {{ '%s' % [1, 2] }} {{ '%s' % ((1, 2),) }} {{ '%d' % 3.9 }} {{ '%d' % true }} {{ '%i' % -5 }} {{ 'plain' % [] }} {{ '%s' % nope }}| {{ '%-8s|' % 'é' }} {{ '%.3d' % 7 }} {{ '%5.1f%%' % 99.55 }}
{{ 'Ab'.format_map({}) }} {{ '{x}'.format_map({'x': 1}) }}
{{ s|length }} {{ u|length }} {{ ''|length }} {{ '🎉'|length }} {{ s|list }} {{ 'é中'|list }} {% for c in 'añb' %}[{{ c }}]{% endfor %}
"""
LINES["filters_text"] = r"""
{{ s|upper }} {{ s|lower }} {{ 'hello wOrld-foo (bar) {baz} [q] <z> a_b'|title }} {{ 'hELLO'|capitalize }} {{ n|upper }} {{ nope|upper }}| {{ true|lower }} {{ "it's a-b"|title }} {{ '-a  -b'|title }} {{ ''|title }}
[{{ t|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ 5|trim }}] [{{ nope|trim }}] [{{ '  a'|trim(chars=none) }}]
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 2) }} {{ s|replace(old='o', new='0', count=1) }} {{ n|replace(4, 'x') }} {{ 'a.b'|replace('.', '') }}
{{ ls|join(', ') }} {{ ls|join }} {{ l|join('-') }} {{ users|join(', ', attribute='name') }} {{ users|join('|', 'age') }} {{ [1, none, true, 2.0]|join(' ') }} {{ 'abc'|join('.') }} {{ nope|join }}| {{ [[1], {}]|join(';') }} {{ d|join('+') }} {{ l|join(1) }}
{{ nope|default('D') }} {{ nope|d('D') }} {{ ''|default('D') }}| {{ ''|default('D', true) }} {{ 0|d(5, true) }} {{ none|default('x') }} {{ none|default('x', true) }} {{ nope|default }}| {{ d.q|default([]) }} {{ nope|default(default_value=3, boolean=false) }}
{{ 'abc'|center(9) }}| {{ 'ab'|center(width=5) }}| {{ 'x'|center|length }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(2, blank=true) }}| {{ 'a\nb'|indent('>>') }} {{ 'a\nb\n'|indent(1) }}| {{ ''|indent }}| {{ 'x'|indent(3, first=true) }} {{ 'a\r\nb'|indent(2) }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'short'|truncate }} {{ 'abcdefghij klm'|truncate(5, end='…', leeway=0) }} {{ 'ééééé ééééé'|truncate(6, leeway=0) }}
{{ 'one two  three-four'|wordcount }} {{ ''|wordcount }} {{ 'a_b c1 é'|wordcount }}
{{ '%s-%s'|format(1, 2) }} {{ '%(a)s'|format(a=5) }} {{ '%d%%'|format(50) }}
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|e|e }} {{ html|forceescape }} {{ html|e|forceescape }} {{ n|e }} {{ '<'|escape + '<' }} {{ '<' + '>'|escape }} {{ ('<'|safe) + '&' }} {{ ('<b>'|safe) ~ '<' }} {{ '<'|e is escaped }} {{ '<' is escaped }} {{ '<'|safe|upper is escaped }} {{ ('<%s>'|safe) % '<' }} {{ ('<{}>'|safe).format('<') }} {{ ('<'|safe).join(['<', '>'|safe]) }} {{ ('a<'|safe).replace('a', '&') }} {{ ['<'|safe] }} {{ '<'|safe|string is escaped }} {{ ('<'|safe)|replace('<', '&') }} {{ ('<'|safe * 2) + '<' }} {{ ('<a'|safe)[0] + '<' }}
{{ '<p>Hi &amp; <b>you</b>\n  x</p><!-- c <b> -->&lt;&#65;&#x42;'|striptags }} {{ 'a < b'|striptags }} {{ '1 <<b>2'|striptags }}
{{ 'a b/c?d=é&f'|urlencode }} {{ {'a': 1, 'b c': 'd/e'}|urlencode }} {{ [('x', 'y z')]|urlencode }} {{ 5|urlencode }} {{ "~_.-!*'()"|urlencode }}
{{ {'class': 'a', 'id': none, 'x<': '<&"', 'u': nope}|xmlattr }} {{ {'a': 1}|xmlattr(false) }} {{ {}|xmlattr }}|
{{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 13000|filesizeformat }} {{ 4100000|filesizeformat }} {{ 1024|filesizeformat(true) }} {{ '2048'|filesizeformat(binary=true) }} {{ 1e30|filesizeformat }} {{ 0|filesizeformat }}
{{ l|string }} {{ 1.50|string }} {{ none|string }} {{ [l|string] }} {{ s|string is string }}
{{ 'a'|upper|lower|title }} {{ s|replace('World', 'x')|upper|length }} {{ ls|first|upper }}
{{ s|reverse }} {{ u|reverse }} {{ l|reverse|list }} {{ ''|reverse }}| {{ (1, 2, 3)|reverse|list }} {{ d|reverse|list }} {{ range(3)|reverse|list }} {{ d.items()|reverse|list }}
"""
LINES["filters_number"] = r"""
{{ -5|abs }} {{ (-2.5)|abs }} {{ neg|abs }} {{ true|abs }} {{ (-0.0)|abs }}
{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1A'|int(0, 16) }} {{ '1A'|int(base=16) }} {{ '101'|int(0, 2) }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ '-5'|int }} {{ '1e3'|int }} {{ ''|int }} {{ l|int }} {{ '0b11'|int(0, 0) }} {{ '012'|int(9, 0) }} {{ '٣'|int(1) if false else 'skip' }} {{ '+7'|int }} {{ '1__0'|int }} {{ 'inf'|int(5) }} {{ 'nan'|int(6) }}
{{ '3.14'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 5|float }} {{ '1e3'|float }} {{ 'inf'|float }} {{ '-Infinity'|float }} {{ 'nan'|float }} {{ none|float }} {{ ' 2.5 '|float }} {{ '1_0.5'|float }} {{ '.5'|float }} {{ '5.'|float }} {{ true|float }} {{ '1e999'|float }} {{ '-1e-999'|float }} {{ 'infin'|float }} {{ '0x10'|float }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 0.5|round }} {{ -2.5|round }} {{ 42|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ -1250|round(-2) }} {{ 2.675|round(2) }} {{ 1234.5|round(-2) }} {{ 42|round(0, 'floor') }} {{ 1e20|round(2) }} {{ 55.0|round(-1) }} {{ 45.0|round(-1) }} {{ 4.0|round(-1) }} {{ 6.0|round(-1) }} {{ 5|round(-1) }} {{ 15|round(-1) }} {{ 0.1|round(20) }} {{ true|round }}
{{ l|sum }} {{ [1.5, 2]|sum }} {{ []|sum }} {{ users|sum(attribute='age') }} {{ l|sum(start=10) }} {{ [[1], [2]]|sum(start=[]) }} {{ nope|sum }} {{ [true, true]|sum }} {{ [0.1, 0.2, 0.3]|sum }}
{{ l|min }} {{ l|max }} {{ ls|min }} {{ ls|max }} {{ ls|min(true) }} {{ ls|max(case_sensitive=true) }} {{ users|max(attribute='age') }} {{ users|min(attribute='name')|attr('x') is defined }} {{ []|min is defined }} {{ 'hello'|max }} {{ [1, 1.0]|max }} {{ d|min }}
"""
LINES["filters_sequence"] = r"""
{{ l|length }} {{ l|count }} {{ d|length }} {{ range(7)|length }} {{ d.items()|length }} {{ (1, 2)|count }}
{{ l|first }} {{ l|last }} {{ []|first is defined }} {{ []|last }}| {{ s|first }} {{ s|last }} {{ d|first }} {{ d|last }} {{ range(3)|last }} {{ u|last }} {{ d.items()|first }} {{ d.items()|last }} {{ nope|first }}| {{ nope|last }}| {{ (1, 2)|last }}
{{ l|list }} {{ d|list }} {{ nope|list }} {{ range(3)|list }} {{ (1, 2)|list }} {{ d.values()|list }} {{ d|items|list }} {{ nope|items|list }}
{{ users|map(attribute='name')|list }} {{ users|map(attribute='addr.city')|join(',') }} {{ users[:2]|map(attribute='tags.0')|list|length }} {{ users|map(attribute='zz', default='-')|join }} {{ ls|map('upper')|list }} {{ ls|map('replace', 'a', 'A')|list }} {{ l|map('string')|join('+') }} {{ users|map(attribute='tags', default=['q'])|list }} {{ [[1, 2], [3]]|map('length')|list }} {{ nest|map(attribute=0)|list }} {{ nest|map('first')|list }} {{ l|map('default', 5)|list }} {{ ls|map('truncate', 3, leeway=0)|list }}
{{ l|select|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ l|select('odd')|list }} {{ l|select('>', 1)|list }} {{ l|select('divisibleby', 2)|list }} {{ ls|select('equalto', 'Apple')|list }} {{ l|select('in', [1, 2])|list }} {{ mix|select('string')|list }} {{ [1, nope]|select('defined')|list }}
{{ l|reject('odd')|list }} {{ [0, 1, '']|reject|list }} {{ mix|reject('none')|list|length }} {{ l|reject('eq', 3)|list }}
{{ users|selectattr('age', 'equalto', 30)|map(attribute='name')|list }} {{ users|selectattr('tags')|map(attribute='name')|list }} {{ users|selectattr('tags', 'defined')|list|length }} {{ users|selectattr('addr.city', 'eq', 'Rome')|list|length }} {{ messages|selectattr('role', 'in', ['user', 'system'])|list|length }} {{ messages|selectattr('role', '==', 'assistant')|first|attr('x') is defined }} {{ users|selectattr('age', 'gt', 26)|map(attribute='age')|sum }}
{{ users|rejectattr('tags')|map(attribute='name')|list }} {{ messages|rejectattr('role', 'equalto', 'system')|list|length }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ users|sort(attribute='name')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|list }} {{ users|sort(attribute='age', reverse=true)|map(attribute='name')|list }} {{ d|sort }} {{ 'hello'|sort }} {{ [(2, 'a'), (1, 'b')]|sort }} {{ nest|sort(attribute='0') }} {{ [2.5, 1, true]|sort }} {{ []|sort }} {{ users|sort(true, false, 'age')|map(attribute='age')|list }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(false, 'value') }} {{ d|dictsort(reverse=true) }} {{ d|dictsort(by='value', reverse=true) }} {% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{{ [1, 2, 1, 3, 2]|unique|list }} {{ ls|unique|list }} {{ ls|unique(true)|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }} {{ [1, 1.0, true, '1']|unique|list }} {{ 'hello'|unique|join }}
{{ l|batch(2)|list }} {{ range(7)|batch(3, 'x')|list }} {{ []|batch(3)|list }} {% for r in range(5)|batch(2) %}{{ r|length }}{% endfor %} {{ range(3)|batch(5, 0)|list }} {{ range(4)|batch(2, none)|list }}
{{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }} {{ range(2)|slice(3)|list }} {{ []|slice(2)|list }} {{ range(6)|slice(3, 0)|list }}
{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join(',') }};{% endfor %} {% for c, us in users|groupby('addr.city') %}{{ c }}={{ us|length }} {% endfor %} {% for c, us in users|groupby('addr.city', case_sensitive=true) %}{{ c }}={{ us|length }} {% endfor %} {% for k, v in users|groupby('tags.0', default='none') %}{{ k }}{{ v|length }} {% endfor %} {{ ([{'a': 1}]|groupby('a'))[0] }} {{ ([{'a': 1}]|groupby('a'))[0][0] }}
{{ (l|map('string')) is iterable }} {{ (l|map('string')) is sequence }} {{ (l|select('odd')) is mapping }} {% if l|select('gt', 99) %}always{% endif %} {% set g = l|map('string') %}{{ g|list }}{{ g|list }} {% set g = l|select %}{{ g|first }}{{ g|list }}
{{ [nope, 1]|map('default', 'u')|list }} {{ nope|map('upper')|list }} {{ nope|selectattr('x')|list }} {{ none|select|list if false else 'skip' }} {{ [[3, 1], [2]]|map('sort')|map('first')|list }}
{{ users|map(attribute='age')|unique|sort|join(',') }} {{ users|map('attr', 'items')|list|length }} {{ ls|map('length')|max }} {{ l|map('float')|sum }} {{ [' a ', 'b ']|map('trim')|join('|') }}
"""
LINES["tojson"] = r"""
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ n|tojson }} {{ f|tojson }} {{ yes|tojson }} {{ nil|tojson }} {{ mix|tojson }} {{ ed|tojson }} {{ el|tojson }} {{ (1, 2)|tojson }} {{ html|tojson }} {{ u|tojson }}
{{ 'q"b\\s/n\n r\r t\t b\b f\f \x01 \x1f \x7f \u2028 </script>'|tojson }}
{{ u|tojson(ensure_ascii=true) }} {{ u|tojson(true) }} {{ '\x7f\x80🎉'|tojson(ensure_ascii=true) }}
{{ users[0]|tojson(indent=2) }}
{{ {'a': [], 'b': {}, 'c': [1, {'d': 2}]}|tojson(indent=4) }}
{{ l|tojson(indent=0) }} {{ l|tojson(indent='--') }} {{ d|tojson(indent=1, sort_keys=true) }} {{ l|tojson(indent=none) }} {{ l|tojson(indent=true) }} {{ l|tojson(indent=-1) }}
{{ d|tojson(separators=(',', ':')) }} {{ d|tojson(separators=[' , ', ' : '], indent=2) }} {{ d|tojson(sort_keys=true) }}
{{ {1: 2, 1.5: 3, none: 4, true: 5, false: 6, 'x': 7}|tojson }} {{ 1e100|tojson }} {{ 1.0|tojson }} {{ (1e308 * 10)|tojson }} {{ 'nan'|float|tojson }} {{ 0.1|tojson }} {{ 1e16|tojson }} {{ -0.0|tojson }}
{{ {'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=2) }}
{{ messages|tojson }}
{{ (s|safe)|tojson }} {{ d|dictsort|tojson }} {{ d.items()|list|tojson }} {{ l|map('string')|list|tojson }} {{ [nope|default(none)]|tojson }}
"""
LINES["tests"] = r"""
{{ n is defined }} {{ q is defined }} {{ q is undefined }} {{ n is not defined }} {{ n is not undefined }} {{ nil is defined }} {{ d.a is defined }} {{ d.q is not defined }}
{{ nil is none }} {{ n is none }} {{ nil is not none }} {{ s is string }} {{ n is string }} {{ q is string }} {{ (s|safe) is string }}
{{ n is number }} {{ f is number }} {{ yes is number }} {{ s is number }} {{ n is integer }} {{ yes is integer }} {{ f is integer }} {{ f is float }} {{ n is float }} {{ yes is boolean }} {{ 0 is boolean }} {{ yes is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }}
{{ d is mapping }} {{ l is mapping }} {{ s is mapping }} {{ namespace() is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ d is iterable }} {{ q is iterable }} {{ nil is iterable }} {{ range(3) is iterable }} {{ d.items() is iterable }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ nil is sequence }} {{ (1,) is sequence }} {{ range(3) is sequence }} {{ d.items() is sequence }} {{ q is sequence }}
{{ range is callable }} {{ s.upper is callable }} {{ s is callable }} {{ namespace is callable }} {{ q is callable }} {% macro m() %}{% endmacro %}{{ m is callable }} {{ joiner() is callable }} {{ cycler(1) is callable }}
{{ 3 is odd }} {{ 4 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 0 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 2.0 is even }} {{ 10 is divisibleby 2.5 }}
{{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is lessthan 2 }} {{ 2 is le 2 }} {{ 2 is gt 1 }} {{ 2 is greaterthan 3 }} {{ 2 is ge 2 }} {{ 1 is eq(1.0) }}
{{ 1 is in [1, 2] }} {{ 3 is in([1, 2]) }} {{ 'a' is in 'abc' }} {{ 'a' is not in 'xyz' }} {{ 'b' is in d }}
{{ nil is sameas none }} {{ 1 is sameas 1 }} {{ yes is sameas true }} {{ 1 is sameas true }} {{ l is sameas l }} {{ [] is sameas [] }} {{ 1 is sameas 1.0 }}
{{ 'abc' is lower }} {{ 'Abc' is lower }} {{ 'ABC' is upper }} {{ '1' is upper }} {{ 'É' is upper }}
{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ 'tojson' is filter }} {{ '==' is test }}
{{ 'x' if n is defined and n is number else 'y' }} {{ not n is defined }} {{ n is defined == true }} {{ (n is odd) is false }} {{ 'a' is string or 1/0 }} {{ [1, 2] is eq [1, 2] }} {{ 4 is divisibleby 2 and 3 is odd }} {{ n is not none and n > 3 }}
{% if users[0].tags is defined and users[0].tags is iterable and users[0].tags is not string %}ok{% endif %}
{% if messages[3].content is string %}a{% elif messages[3].content is iterable %}b{% endif %}
"""
LINES["statements"] = r"""
{% if yes %}a{% endif %}{% if no %}b{% else %}c{% endif %}{% if no %}d{% elif n == 42 %}e{% else %}f{% endif %}{% if no %}{% elif no %}{% elif yes %}g{% endif %}
{% if l and d and s %}t{% endif %}{% if el or ed or e or z or nil or nope %}f{% else %}none{% endif %}{% if 1, 2 %}tuple{% endif %}
{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}
{% for x in el %}{{ x }}{% else %}empty{% endfor %}{% for x in nope %}x{% else %}undef{% endfor %}{% for x in l %}.{% else %}no{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{% endfor %}{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in range(5) %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %} {% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}
{% for x in l if x > 1 %}{{ x }}:{{ loop.index }}/{{ loop.length }};{% endfor %}{% for x in l if x > 9 %}x{% else %}none{% endfor %}{% for u in users if u.age == 30 and u.tags %}{{ u.name }}{{ loop.last }}{% endfor %}
{% set ns = namespace(hit=false) %}{% for x in [1, 2, 3, 4] if not ns.hit %}{{ x }}{% if x == 2 %}{% set ns.hit = true %}{% endif %}{% endfor %}
{% set ns = namespace(hit=false) %}{% for x in [1, 2, 3, 4] if not ns.hit %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.hit = true %}{% endif %}{% endfor %}
{% for x in [1, 2, 3, 4, 5] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1] %}{% break %}{% else %}else after break{% endfor %}{% for x in [1, 2] %}{% continue %}{% else %}else after continue{% endfor %}{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}.{% else %}no{% endfor %}
{% for a in [1, 2] %}{% for b in [3, 4] %}{{ a }}{{ b }}{{ loop.index }}{% if b == 3 %}{% continue %}{% endif %}!{% endfor %}{{ loop.index }};{% endfor %}
{% for item in nest recursive %}{% if item is iterable %}[{{ loop(item) }}]{% else %}{{ item }}@{{ loop.depth }}{% endif %}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i * 10 %}{{ x }};{% endfor %}{{ x }}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}{% if no %}{% set y = 1 %}{% endif %}{{ y is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set a, b = b, a %}{{ a }}{{ b }}{% set t2 = 1, 2 %}{{ t2 }}{% set q = () %}{{ q }}
{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}{% set t2 = 1, 2 %}{{ t2 }}{% set u1 = 5, %}{{ u1 }}
{% set ns = namespace(i=0, s='') %}{% for x in l %}{% set ns.i = ns.i + x %}{% set ns.s = ns.s ~ x %}{% endfor %}{{ ns.i }}{{ ns.s }}{% set ns.new = 'n' %}{{ ns.new }}{% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }}
{% set body %}x{{ n }}y{% endset %}[{{ body }}]{{ body is string }}{% set up | upper %}abc{% endset %}{{ up }}{% set two | upper | replace('A', '4') %}abc{% endset %}{{ two }}
{% set ns = namespace() %}{% set ns.text %}in block{% endset %}{{ ns.text }}
{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aaa{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}
{% block one %}B{{ n }}{% endblock %}{% block two %}x{% endblock two %}{% for i in [1] %}{% block three scoped %}{{ i }}{% endblock %}{% block four %}{{ i is defined }}{% endblock %}{% endfor %}{% set late = 1 %}{% block five %}{{ late }}{% endblock %}
{% generation %}gen {{ s }}{% set inner = 1 %}{% endgeneration %}{{ inner is defined }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.role }}{% endgeneration %}{% endif %}{% endfor %}
{# comment #}a{# multi
line #}b{#- strip -#}  c{#
#}
{% raw %}{{ not }} {% if %} {# x #}{% endraw %}{%- raw -%}  {{ x }}  {%- endraw -%}  z
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}{% set j = joiner() %}{{ j() }}a{{ j() }}b{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{% for x in 'abc' %}{{ x }}{{ loop.index }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in range(2, 0, -1) %}{{ x }}{% endfor %}{% for i, x in [(0, 'a')] %}{{ i }}{{ x }}{% endfor %}
{% for m in messages[1:] %}{{ loop.index0 }}{{ m.role }}{% endfor %}{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}{% for x in l|sort(reverse=true) %}{{ x }}{{ loop.revindex }}{% endfor %}
{% for x in l|map('string') %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}{% for x in l|select('gt', 1) %}{{ loop.revindex }}{% endfor %}
{% if true: %}colon{% endif %}{% for x in l: %}{{ x }}{% endfor %}
{% set loop = 5 %}{{ loop }}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %d, %Y %H:%M:%S %p %I %j %y %%') }} {{ strftime_now('%-d %-m %e|%k|%l %U %W %V %G %u %w %a %h %C %D %F %T %R %r %c %x %X %n%t|%f|%z|%Z|%s') if false else '' }}{{ strftime_now('%-d %-m %e|%k|%l %U %W %V %G %u %w %a %h %C %D %F %T %R %r %c %x %X %n%t|%f|%z|%Z|') }} {{ strftime_now('') }}| {{ strftime_now('%_d %^a %^B %02d') if false else '' }}{{ strftime_now('é %Y') }}
{{ range(3)|list + [9] }} {% for i in range(messages|length - 1, -1, -1) %}{{ i }}{% endfor %} {{ range(0)|list }} {{ range(-3)|list }} {{ range(2, 2)|list }}
"""
LINES["macros"] = r"""
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='z') }} {{ m(b=5, a=4) }} {{ m() }} {{ m(1, 2, 3) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{% macro k(a, b=c, c=5) %}{{ b }}{{ c }}{% endmacro %}{{ k(1) }}{{ k(1, 2, 3) }}{{ k(1, c=9) }}
{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }}{{ v() }}{% macro w(a) %}{{ a }}{{ varargs|length }}{{ kwargs.keys()|list }}{% endmacro %}{{ w(1, 2, 3, q=1) }}{{ w(a=5) }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in {{ n }}{% endcall %}{% macro lst(xs) %}{% for x in xs %}[{{ caller(x) }}]{% endfor %}{% endmacro %}{% call(x) lst(l) %}{{ x * 2 }}{% endcall %}{% call(x, y=7) lst(l) %}{{ x }}{{ y }}{% endcall %}
{% macro maybe() %}{% if caller is defined %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ maybe() }}{% call maybe() %}yes{% endcall %}{% macro dflt(caller=none) %}{{ caller is none }}{% endmacro %}{{ dflt() }}{% call dflt() %}x{% endcall %}
{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1)|int) }}{% endmacro %}{{ fact(10) }}{% macro tree(x) %}{% if x is iterable %}({% for y in x %}{{ tree(y) }}{% endfor %}){% else %}{{ x }}{% endif %}{% endmacro %}{{ tree(nest) }}
{% set g = 1 %}{% macro uses() %}{{ g }}{% endmacro %}{{ uses() }}{% set g = 2 %}{{ uses() }}{% macro sets() %}{% set g = 3 %}{{ g }}{% endmacro %}{{ sets() }}{{ g }}
{% for i in [1, 2] %}{% macro inner() %}{{ i }}{{ loop.index }}{% endmacro %}{{ inner() }}{% endfor %}{% macro a() %}{% macro b() %}b{% endmacro %}a{{ b() }}{% endmacro %}{{ a() }}{{ b is defined }}
{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}][{{ m() ~ 'y' }}]{{ m() is string }}{{ m()|length }}{% set r = m() %}{{ r }}
{% macro s(a, a2) %}{{ a is defined }}{{ a2 is defined }}{{ a2 is none }}|{{ a2 }}{% endmacro %}{{ s(1) }}
{{ ns_late is defined }}{% macro late() %}{{ defined_later }}{% endmacro %}{% set defined_later = 'L' %}{{ late() }}
{% set args = [1, 2] %}{% set kw = {'c': 9} %}{% macro m(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*args) }}{{ m(*args, **kw) }}{{ m(0, *[1], **{'c': 2}) }}{{ m(*'ab') }}
{% macro t(x) -%}  {{ x }}  {%- endmacro %}[{{ t('v') }}]{{ m is defined }}
"""
LINES["whitespace"] = r"""
a {%- if yes %} b {% endif -%} c
a {{- ' b ' -}} c
  {% if yes %}\n  x\n  {% endif %}\n  y
a\n  {%- if yes -%}  \n b \n {%- endif %}\n c
  {%+ if yes %}x\n  {%+ endif %}y
  {%+ if yes %}x{%+ endif +%}\n  y
  {% set x = 1 %}  \n  {{ x }}  \n  {# c #}  \n  end
\n\n{% if yes %}\n\nx\n\n{% endif %}\n\n
line1\n    {% for x in l %}\n    - {{ x }}\n    {% endfor %}\nline2
{% for x in l -%}\n   {{ x }}\n{%- endfor %}|
text {% if yes %} inner {% endif %} tail\n
  text {% if yes %}\n  {% endif %}x
\t{% if yes %}\tx{% endif %}\n
a\r\nb\r{% if yes %}\r\nc{% endif %}\n\n
x{{ 1 }}\n{{ 2 }}\n\n{{ 3 }}
{%- set a = 1 -%}\n\n  x
  {#- c -#}  x  {# d #}\n  y {#+ e +#}\n z
  {#  c  #}\nx
  {% raw %}\n a {{ b }}\n  {% endraw %}\n c
  {%- raw %} a {% endraw -%} c
x {% raw -%}  y {%- endraw %} z
{%raw%}x{%endraw%}\n y
{%if yes%}x{%endif%}{%-if yes-%}y{%-endif-%}
{{'a'}}{{-'b'-}}{{+5}}{{- -5 }}
{{ {'a': {'b': 1}}['a'] }} {{ {'x': {}} }} {% set q = {'a': {'b': {}}} %}{{ q }}
{{ "}}" }} {{ '%}' }} {{ "{{" }} {{ '{%' }} {# }} %} #} {{ '#}' }}
{ {{ '{' }} } } { % } {{ '}' }} %} }} #}
{{\n  s\n  |\n  upper\n}}
{% if\n yes\n%}x{% endif %}
 {% if yes %} {% if yes %} x {% endif %} {% endif %}
{% if yes %}\n{% if yes %}\nx\n{% endif %}\n{% endif %}
  a  {% if yes -%}  b  {%- else -%}  c  {%- endif %}  d
no tags at all\n
\n
x\n\n
{{ s }}\n
{% if yes %}x{% endif %}\n\n
é{%- if yes %} ü{% endif %} \u3000{%- if yes %}x{% endif -%}\u3000 y
{{ s }}{#
{% raw %}
"""
LINES["errors"] = r"""
{{ nope.x }}
{{ nope['x'] }}
{{ nope.x.y }}
{{ d.nope.x }}
{{ d['nope']['x'] }}
{{ l[9].x }}
{{ nil.x.y }}
{{ s.nope.x }}
{{ n.nope() }}
{{ nope() }}
{{ d.nope() }}
{{ nope + 1 }}
{{ 'a' + nope }}
{{ 1 + nope }}
{{ nope < 1 }}
{{ -nope }}
{{ nope[1:] }}
{{ ('x' if no).y }}
{{ []|first + 1 }}
{{ []|max + 1 }}
{% for x in l %}{{ loop.previtem.x }}{% endfor %}
{{ l.append(1) }}
{% set ns = namespace(_x=1) %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ s.__class__.x }}
{{ raise_exception('Custom message: ' ~ s) }}
{{ raise_exception(s) }}
{% if no %}{{ raise_exception('no') }}{% else %}{{ raise_exception('Conversation roles must alternate!') }}{% endif %}
{{ 'a' + 1 }}
{{ 'a' + ['b'] }}
{{ ['a'] + 'b' }}
{{ 1 + 'a' }}
{{ none + 'a' }}
{{ d + d }}
{{ 'a' - 'b' }}
{{ 'a' * 'b' }}
{{ 'a' * 1.5 }}
{{ [1] * none }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 1.0 // 0 }}
{{ 1.0 % 0 }}
{{ 0 ** -1 }}
{{ 10.0 ** 400 }}
{{ -'a' }}
{{ 1 < 'a' }}
{{ [1] < 'a' }}
{{ none < 1 }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ 'a' in none }}
{{ [1] in d }}
{{ {[1]: 2} }}
{{ 5() }}
{{ 'x'() }}
{{ s.upper(1) }}
{{ s.upper(x=1) }}
{{ s.replace('a') }}
{{ s.split('') }}
{{ s.index('zz') }}
{{ l.index(99) }}
{{ ','.join([1]) }}
{{ ','.join(5) }}
{{ s.center() }}
{{ s.center(5, 'ab') }}
{{ s.startswith(5) }}
{{ s[::0] }}
{{ s['a':] }}
{{ d[1:] }}
{{ n[1:] }}
{{ 5|length }}
{{ none|length }}
{{ (l|map('upper'))|length }}
{{ 5|list }}
{{ none|first }}
{{ (l|map('string'))|last }}
{{ none|join }}
{{ 'a'|abs }}
{{ 'a'|round }}
{{ nope|int }}
{{ nope|float }}
{{ [1, 'a']|sort }}
{{ [1, 'a']|max }}
{{ ['a', 1]|sum }}
{{ [1, 'a']|sum }}
{{ [[1]]|unique|list }}
{{ nope|tojson }}
{{ (l|map('upper'))|tojson }}
{{ range(3)|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ s|nofilter }}
{{ s is notest }}
{% if no %}{{ s|nofilter }}{% endif %}ok
{% if yes %}{{ s|nofilter }}{% endif %}ok
{{ s|nofilter if no else 'ok' }}
{{ 'ok' if yes else (s is notest) }}
{% if no %}{% for x in l %}{{ s|nofilter }}{% endfor %}{% endif %}ok
{{ l|map('nofilter')|list }}
{{ l|select('notest')|list }}
{{ l|map|list }}
{{ users|selectattr|list }}
{{ l|map(attribute='x', q=1)|list }}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1,)] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% set a, b = 1 %}
{% set x.y = 1 %}
{% set d.y = 1 %}
{% set ns = {} %}{% set ns.x = 1 %}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{{ range(100001) }}
{{ range(1, 5, 0) }}
{{ range('a') }}
{{ range() }}
{{ cycler() }}
{{ dict(1) }}
{{ namespace(1) }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ 'x' % 'a' }}
{{ '%q' % 1 }}
{{ '%(a)s' % {} }}
{{ '%(a)s' % 5 }}
{{ '%' % 1 }}
{{ '%x' % 1.5 }}
{{ '%f' % 'a' }}
{{ '{}'.format() }}
{{ '{a}'.format() }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{0} {}'.format(1, 2) }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(5) }}
{{ '{:5}'.format(none) }}
{{ '{!z}'.format(1) }}
{{ '{:.2d}'.format(5) }}
{{ 'x'|truncate(1) }}
{{ {'a b': 1}|xmlattr }}
{{ 5|xmlattr }}
{{ 5|items|list }}
{{ 5|dictsort }}
{{ d|dictsort(by='x') }}
{{ 42.5|round(1, 'bad') }}
{{ 5|indent }}
{{ s|trim(5) }}
{{ s|replace('a') }}
{{ s|upper(1) }}
{{ s|default(1, 2, 3) }}
{{ s|default(foo=1) }}
{{ 1 is divisibleby }}
{{ 1 is divisibleby 0 }}
{{ 'a' is odd }}
{{ strftime_now() }}
{{ raise_exception() }}
"""
LINES["syntax"] = r"""
{{
{{ s
{{ s }
{{ }}
{% %}
{%
{% if %}x{% endif %}
{% if yes %}x
{% if yes %}x{% endfor %}
{% for %}{% endfor %}
{% for x %}{% endfor %}
{% for x in %}{% endfor %}
{% for x in l %}
{% endif %}
{% else %}
{% nosuchtag %}
{% do x %}
{{ 1 + }}
{{ + }}
{{ (1 }}
{{ 1) }}
{{ [1 }}
{{ [1) }}
{{ {1} }}
{{ {'a': } }}
{{ 'abc }}
{{ "abc }}
{{ 'abc" }}
{{ s| }}
{{ s|5 }}
{{ s. }}
{{ s.'a' }}
{{ s[ }}
{{ s[] }}
{{ s is }}
{{ s is not }}
{{ s is string is string }}
{{ a b }}
{{ 1 2 }}
{{ f(a=1, 2) }}
{{ f(**a, *b) }}
{{ f(*a, *b) }}
{{ f(a=1, a=2) }}
{{ f(,) }}
{{ a ! b }}
{{ a $ b }}
{{ a ? b }}
{{ a && b }}
{{ ; }}
{{ a == }}
{{ a not b }}
{{ not }}
{{ x if }}
{{ x if y else }}
{% set %}
{% set x %}
{% set x = %}
{% set 1 = 2 %}
{% set none = 2 %}
{% set true = 1 %}
{% set x + 1 = 2 %}
{% set x.y.z = 1 %}
{% set x[0] = 1 %}
{% set (a, 1) = 2 %}
{% macro %}{% endmacro %}
{% macro m %}{% endmacro %}
{% macro m( %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(1) %}{% endmacro %}
{% macro m() %}
{% macro m(caller) %}{{ caller() }}{% endmacro %}
{% call %}{% endcall %}
{% call x %}{% endcall %}
{% call x() %}
{% filter %}{% endfilter %}
{% filter nofilter %}{% endfilter %}
{% filter upper %}
{% with a %}{% endwith %}
{% with a = 1 %}
{% block %}{% endblock %}
{% block a-b %}{% endblock %}
{% raw %}x
{# comment
{% break %}
{% continue %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% for loop in l %}{% endfor %}
{% if yes %}{% elif %}{% endif %}
{% if yes %}{% else %}{% elif yes %}{% endif %}
{% endraw %}
{{ '\x4' }}
{{ '\u12' }}
{{ 1__0 }}
{{ 0x }}
{{ 1.e5 }}
{{ é }}{{ naïve_ñ }}
{{ 1é }}
{{ a.1.2 }}{{ a.b.3c }}
{{ x.if }}{{ x.for is defined }}
{% if x is defined y %}{% endif %}
{% include 'x' %}
{% if no %}{% include 'x' %}{% endif %}ok
{% extends 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% if yes %}{%- endif %}{% if yes -%}{% endif -%}
{{ [1, 2,] }}{{ (1, 2,) }}{{ {'a': 1,} }}{{ dict(a=1,) }}{{ [] }}
{% generation %}x
{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% autoescape false %}{{ html }}{% set q9 = 1 %}{% endautoescape %}{{ q9 is defined }}
{{ x is in y is z }}
{{ "a" "b" 'c'|upper }}
"""

TEXTS = {       # written out in full
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + (message['content'] if message['content'] is string else 'parts') + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "think split": "{% for m in messages %}{% if m.content is string and '</think>' in m.content %}{% set r = m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{% set c = m.content.split('</think>')[-1].lstrip('\n') %}[{{ r }}][{{ c }}]{% endif %}{% endfor %}",
    "reverse search": "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi_step_tool and message.role == \"user\" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n        {%- set ns.multi_step_tool = false %}\n        {%- set ns.last_query_index = index %}\n    {%- endif %}\n{%- endfor %}\n{{ ns.last_query_index }}",
    "nested schema": "{% macro render(p, depth=0) %}{% for k, v in p.items() %}{{ '  ' * depth }}{{ k }}: {% if v is mapping %}\n{{ render(v, depth + 1) }}{% elif v is string %}{{ v }}\n{% elif v is iterable %}{{ v | join(', ') }}\n{% else %}{{ v | tojson }}\n{% endif %}{% endfor %}{% endmacro %}{{ render({'a': {'b': 'c', 'd': [1, 2]}, 'e': none, 'f': true}) }}",
    "unicode names": "{% set größe = 3 %}{{ größe }}",
    "backslash e acute": "{{ '\\é' }}",
    "crlf": "a\r\n{% if yes %}\r\n  b\r\n{% endif %}\r\nc\r\n",
    "string newline": "{{ 'a\r\nb' }}|{{ 'x\ny' }}",
    "filter indent": "{% filter indent(2) %}a\nb{% endfilter %}",
    "octal": "{{ '\\12\\101\\777' }}",
    "long chain": "{{ " + " + ".join(["1"] * 200) + " }}",
    "long concat": "{{ " + " ~ ".join(["n"] * 200) + " }}",
    "deep parens": "{{ " + "(" * 40 + "1" + ")" * 40 + " }}",
    "deep ifs": "{% if yes %}" * 18 + "x" + "{% endif %}" * 18,
}

# Templates over DATA whose every character of data is followed through (see above).
DATA = {"s": "Hello World", "p": "  pad \n", "l": ["b", "a", "c"], "d": {"k": "v"}, "k": "key", "x": "<&>", "m": "one\ntwo",
        "w": "foo bar baz qux", "q": "a,b,c"}
ORIGIN = r"""
{{ s }}|{{ 'lit' }}|{{ s ~ 'x' ~ k }}|{{ 'a' + s + 'b' }}
{{ s[1:4] }}{{ 'T' }}{{ s[::-1] }}{{ s[0] }}{{ (s ~ 'lit')[9:13] }}{{ ('lit' ~ s)[2:5] }}
{{ (' ' ~ k ~ ' ')|trim }}|{{ ('  ' ~ k).strip() ~ '|' }}{{ ('..' ~ k ~ '..').strip('.') }}
{{ l|join(', ') }}{{ ', '.join(l) }}{{ k.join(['x', 'y']) }}{{ l|map('title')|join('-') if false else '' }}
{{ s * 2 }}{{ ('<' ~ k ~ '>') * 3 }}{{ 'ab' * 2 }}
{{ 'lit' ~ s|replace('lit', 'x') }}{{ 'a-b-a'|replace('-', k) }}{{ 'a-b'.replace('-', s) }}
{% set b %}<{{ s }}>{% endset %}{{ b }}{{ b[1:4] }}{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(k) }}{{ m('t') }}{% filter trim %} {{ k }} {% endfilter %}
{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t ~ x ~ ',' %}{% endfor %}{{ ns.t }}{{ ns.t[:-1] }}
{{ '%s=%s' % (k, 'v') }}{{ '{}:{}'.format(s, 't') }}{{ '%5s|%-5s|' % (k, k) }}{{ '{:>6}|{:<6}|{:^6}'.format(k, k, k) }}{{ '{0}{0}'.format(k) }}
{{ k|center(9) }}|{{ k.ljust(5) ~ '|' }}{{ k.rjust(5, '.') }}{{ k.zfill(5) }}
{{ (k ~ '=lit').split('=') | join('/') }}{{ (k ~ ' lit').partition(' ')[0] }}{{ (k ~ '=' ~ s).rsplit('=', 1)[1] }}
{{ k|indent(2, true) }}{{ (k ~ '\n' ~ k)|indent(2) }}{{ k|default('x') }}{{ nope|default(k) }}{{ k if true else 'x' }}{{ (k or 'x') ~ ('' or 'y') }}
{{ s|list|join('.') }}{{ s|first }}{{ s|last }}{% for c in k %}{{ c }}_{% endfor %}{{ l|reverse|join }}{{ (k ~ 'L')|reverse }}
{{ l|first ~ l|last ~ l[1] }}{{ d.k }}{{ d['k'] }}{{ d.values()|first }}{{ d.items()|list|first|last }}
{{ (k ~ 'lit').removeprefix('zz') }}{{ ('lit' ~ k).removeprefix('lit') }}{{ ('lit' ~ k)|truncate(4, true, '', 0) }}
{% macro m2() %}({{ caller() }}){% endmacro %}{% call m2() %}{{ k }}c{% endcall %}{% for x in l recursive %}{{ x }}-{% endfor %}
{{ [k, 't']|join(k) }}{{ (k ~ 't' ~ k)[1:6] ~ 'end' }}{{ ('a' ~ k ~ 'b' ~ k ~ 'c')[::2] }}{{ (('a' ~ k) ~ ('b' ~ k))[2:7] }}
"""


def unescape(line):
    return line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\u3000", "\u3000")


def render(env, source, variables):
    try:
        return {"expect": env.from_string(source).render(**variables)}
    except RecursionError:
        return {"error": "RecursionError: too deep"}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


PRIVATE = 0xF0000


def shifted(x):
    if isinstance(x, str):
        return "".join(chr(PRIVATE + ord(c)) for c in x)
    if isinstance(x, list):
        return [shifted(v) for v in x]
    if isinstance(x, dict):
        return {k: shifted(v) for k, v in x.items()}
    return x


def origin_case(env, source):
    """expect: the text; data: [begin, end) in characters of what is data."""
    text = env.from_string(source).render(**DATA)
    # Keys of mappings are looked up by the template, so they stay as they are and count as unknown ('?').
    moved = env.from_string(source).render(**shifted(DATA))
    mask = "".join("d" if ord(c) >= PRIVATE else "t" for c in moved)
    back = "".join(chr(ord(c) - PRIVATE) if ord(c) >= PRIVATE else c for c in moved)
    if back != text:
        sys.exit(f"not an origin case: {source}")
    return {"template": source, "expect": text, "mask": mask}


def main():
    env = environment()
    cases = []
    for group, text in LINES.items():
        joined = text.strip("\n").split("\n")
        lines = []
        for line in joined:                 # a line that doesn't begin a template continues one
            if group in ("print", "statements") and lines and lines[-1].count("{{") + lines[-1].count("{%") + lines[-1].count("{#") != \
                    lines[-1].count("}}") + lines[-1].count("%}") + lines[-1].count("#}") and "raw" not in lines[-1]:
                lines[-1] += "\n" + line
            else:
                lines.append(line)
        for line in lines:
            source = unescape(line) if group == "whitespace" else line
            cases.append({"name": group, "template": source, **render(env, source, VARS)})
    for name, source in TEXTS.items():
        cases.append({"name": name, "template": source, **render(env, source, VARS)})
    exact = ("UndefinedError: ", "TemplateError: ", "SecurityError: ", "TypeError: can only", "TypeError: unsupported",
             "ZeroDivisionError: ")
    for c in cases:
        if "error" in c and c["error"].startswith(exact) and c["name"] not in ("syntax",):
            c["exact"] = True
    origins = [origin_case(env, line) for line in ORIGIN.strip("\n").split("\n")]
    out = {"about": f"written by tools/make_template_cases.py with jinja2 {jinja2.__version__}", "vars": VARS,
           "cases": cases, "data": DATA, "origins": origins}
    text = json.dumps(out, ensure_ascii=True, indent=1) + "\n"
    if "--check" in sys.argv:
        sys.exit(0 if OUT.read_text() == text else "snippets.json differs from what this script writes")
    OUT.write_text(text)
    print(len(cases), "cases,", sum("error" in c for c in cases), "errors,", len(origins), "origins")


if __name__ == "__main__":
    main()
