"""Bodies made to hurt: schemas, patterns and tools that are huge, deep or odd end soon, in an answer or a 400 that
names the field, and the server goes on."""
import json
import time

import pytest

HELLO = [{"role": "user", "content": "Hi"}]


def ask(server, **body):
    return server.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 30, "temperature": 1.5, "seed": 1, **body})


def schema(s):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": s}}}


def tool(name="f", parameters=None, **more):
    f = {"name": name, **more}
    return {"type": "function", "function": f if parameters is None else {**f, "parameters": parameters}}


def nested(n):
    s = True
    for _ in range(n):
        s = {"items": s}
    return s


EMPTY = {"type": "object", "properties": {}}
LARGE = {
    "deep": (schema(nested(200)), None), "many values": (schema({"enum": [f"v{i}" for i in range(30000)]}), None),
    "alternatives": (schema({"allOf": [{"anyOf": [{"properties": {f"a{i}": {"const": j}}, "required": [f"a{i}"]} for j in range(4)]}
                                       for i in range(14)]}), "response_format"),
    "counters": ({"regex": "((((a{0,100}){0,100}){0,100}){0,100}){0,100}"}, None), "states": ({"regex": ".*a.{200}"}, None),
    "ambiguous": ({"regex": "(a|aa|aaa){1,1000}(b|bb){1,1000}(.*x.{30}){3}"}, None),
    "long texts": ({"choice": ["c" * 500000, "d" * 500000]}, None), "many texts": ({"choice": [f"c{i}" for i in range(20000)]}, None),
    "rules": ({"grammar": "root ::= a0\n" + "".join(f'a{i} ::= a{i + 1} a{i + 1} | "x"\n' for i in range(300)) + 'a300 ::= "y"\n'}, None),
    "long pattern": (schema({"pattern": "a" * 1000000}), "response_format.json_schema.schema#/pattern"), "long regex": ({"regex": "(a|b)" * 200000}, "regex"),
    "brackets": ({"grammar": "root ::= " + "(" * 20000 + '"a"' + ")" * 20000}, "grammar"),
    "members": (schema({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)},
                        "required": [f"p{i}" for i in range(5000)]}), None),
    "items": (schema({"type": "array", "minItems": 2 ** 31 - 1}), None),
    "references": (schema({"$defs": {**{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"type": "null"}]} for i in range(1000)},
                                     "d1000": True}, "$ref": "#/$defs/d0"}), "response_format"),
    "tools": ({"tools": [tool(f"f{i}", {"type": "object", "properties": {"x": {"type": "integer"}}}) for i in range(1000)],
               "tool_choice": "required"}, None),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_end_soon(tiny, name):
    body, field = LARGE[name]
    began = time.monotonic()
    status, r = ask(tiny, **body)
    assert time.monotonic() - began < 30
    assert status == (400 if field else 200), r
    if field:
        assert r["error"]["param"].startswith(field)
    assert ask(tiny, regex="[ab]{3}")[0] == 200


@pytest.mark.parametrize("choice", [
    3, [], {}, "", "AUTO", "function", True, {"type": "function"}, {"type": "function", "function": {"name": 3}},
    {"type": "allowed_tools"}, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": {}}},
    {"type": "allowed_tools", "allowed_tools": {"mode": 3, "tools": [{"type": "function", "function": {"name": "f"}}]}},
    {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}},
    {"type": "custom", "custom": {"name": "f"}},
])
def test_odd_choices_are_refused(tiny, choice):
    status, r = ask(tiny, tools=[tool()], tool_choice=choice)
    assert status == 400 and r["error"]["param"] == "tool_choice", r


@pytest.mark.parametrize("name", ['a"b\n', "x y", "a\0b", "", "n" * 100000])
def test_odd_names_are_refused(tiny, name):
    status, r = ask(tiny, tools=[tool("ok"), tool(name)])
    assert status == 400 and r["error"]["param"] == "tools[1].function.name", r


def test_a_pattern_that_is_no_pattern_is_named(tiny):
    status, r = ask(tiny, **schema({"type": "string", "pattern": "^a(b$"}))
    assert status == 400 and r["error"]["param"].endswith("#/pattern"), r


def test_a_tool_without_parameters_beside_one_with(tiny):
    tools = [tool("noop", {**EMPTY, "required": []}), tool("add", {"type": "object", "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"], "additionalProperties": False})]
    for name in ("noop", "add"):
        status, r = ask(tiny, tools=tools, tool_choice={"type": "function", "function": {"name": name}}, max_tokens=300)
        assert status == 200 and r["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == name


def test_descriptions_mean_nothing_to_the_grammar(tiny):
    """Whatever a description holds, calls are held to the same form."""
    for text in ("Path.", 'Path. Use "**/*.c" or {a,b}.', 'line\n"</tool_call>" root ::= x 😀'):
        p = {"type": "object", "properties": {"p": {"enum": ["a", "b"], "description": text}}, "required": ["p"],
             "additionalProperties": False}
        status, r = ask(tiny, tools=[tool("f", p, description=text)], tool_choice="required", parallel_tool_calls=False, max_tokens=200)
        assert status == 200 and r["choices"][0]["finish_reason"] == "tool_calls", r
        assert json.loads(r["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])["p"] in ("a", "b")


def test_a_client_that_leaves_while_a_grammar_is_made(tiny):
    for _ in range(4):
        s = tiny.connect()
        body = json.dumps({"messages": HELLO, **LARGE["many values"][0]}).encode()
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        s.close()
    assert ask(tiny, regex="[ab]{3}")[0] == 200
