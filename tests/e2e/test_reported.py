"""Faults of tool calls and structured output that people met in other servers, each as a test of this one.

The names begin as the reports are called: d01 to d10 are about tools, e02 to e13 about structured output, the rest bears the
name of the server and the number there. Some have their test elsewhere: a call's parts at every cut (d03, d05, d10,
vllm-21544) in tests/unit/test_reply.c, masks and caches (e07, e09, e11, vllm-36138, xgr-stop) in test_reported.c, schemas
of those servers in test_schema.c."""
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

from conftest import FORNAX, TINY

HELLO = [{"role": "user", "content": "Go on."}]
ITEMS = ("{% for m in messages %}{% for t in m.tool_calls or [] %}{% for k, v in t.function.arguments|items %}{{ k }}={{ v|tojson }};"
         "{% endfor %}{% endfor %}{% endfor %}")
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TREE = {"$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
        "kids": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/t"}}}, "required": ["v", "kids"],
        "additionalProperties": False}}, "$ref": "#/$defs/t"}


def tool(name, parameters=EMPTY):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def schema(s):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": s}}


def ask(server, **body):
    status, r = server.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 300, "temperature": 1.5, "seed": 1, **body})
    assert status == 200, r
    return r["choices"][0]


def stream(server, **body):
    """The deltas and the reasons of one choice."""
    body = {"messages": HELLO, "max_tokens": 300, "temperature": 1.5, "seed": 1, "stream": True, **body}
    status, _, data = server.request("POST", "/v1/chat/completions", body)
    assert status == 200, data
    chunks = [json.loads(e[6:]) for e in data.decode().split("\n\n") if e.startswith("data: {")]
    return [c["choices"][0]["delta"] for c in chunks], [c["choices"][0]["finish_reason"] for c in chunks]


# ---- Arguments of earlier calls ------------------------------------------------------------------------


def called(arguments):
    return [{"role": "user", "content": "Call"}, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}]}]


def render(model, arguments):
    r = subprocess.run([FORNAX, "template", model], input=json.dumps({"messages": called(arguments)}), capture_output=True, text=True)
    return r.stdout if r.returncode == 0 else r.stderr


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """A model whose template walks over the arguments of calls."""
    folder = tmp_path_factory.mktemp("items") / "m"
    shutil.copytree(TINY, folder)
    (Path(folder) / "chat_template.jinja").write_text(ITEMS)
    return str(folder)


@pytest.mark.parametrize("arguments", ['{"city": "Oslo", "n": 2}', {"city": "Oslo", "n": 2}, ' {"city":"Oslo","n":2}\n'])
def test_d01_templates_see_an_object(items, arguments):
    assert render(items, arguments) == 'city="Oslo";n=2;'


@pytest.mark.parametrize("arguments", ["", "{}", {}, None])
def test_d01_no_arguments_are_an_empty_object(items, arguments):
    assert render(items, arguments) == ""


@pytest.mark.parametrize("arguments", ["not json", "[1]", '{"a": 1', '"x"', "7", [1], 7, True])
def test_d01_what_is_no_object_is_refused(items, serve, arguments):
    assert "messages[1].tool_calls[0].function.arguments: " in render(items, arguments)
    if arguments in ("not json", "[1]"):
        s = serve(items)
        status, r = s.post("/v1/chat/completions", {"messages": called(arguments), "max_tokens": 1})
        assert status == 400 and r["error"]["param"] == "messages[1].tool_calls[0]", r


# ---- Calls that stream ------------------------------------------------------------------------


def join(deltas):
    """As client libraries do: by index, ids and names from a call's first delta only."""
    calls, last = [], 0
    for d in (x for delta in deltas for x in delta.get("tool_calls", [])):
        if d["index"] == len(calls):
            assert d["id"] and d["type"] == "function" and d["function"]["name"]
            calls.append({"id": d["id"], "name": d["function"]["name"], "arguments": ""})
        else:
            assert set(d) == {"index", "function"} and set(d["function"]) == {"arguments"}
        assert d["index"] >= last                  # none is opened again
        last = d["index"]
        calls[d["index"]]["arguments"] += d["function"].get("arguments", "")
    assert len({c["id"] for c in calls}) == len(calls)
    return calls


def test_d03_empty_arguments_come_whole(server):
    (call,) = join(stream(server, tools=[tool("ping")], tool_choice=named("ping"))[0])
    assert call["name"] == "ping" and call["arguments"] == "{}"
    c = ask(server, tools=[tool("ping")], tool_choice=named("ping"))
    assert c["message"]["tool_calls"][0]["function"] == {"name": "ping", "arguments": "{}"}


TWO = [tool("a", {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"],
                  "additionalProperties": False}), tool("b")]


@pytest.mark.parametrize("seed", range(6))
def test_d05_d06_several_calls(tiny, seed):
    """min_tokens makes the model go on after its first call."""
    body = dict(tools=TWO, tool_choice="required", seed=seed, min_tokens=90, max_tokens=3000)
    c = ask(tiny, **body)
    calls = [t["function"] for t in c["message"]["tool_calls"]]
    assert len(calls) >= 2 and c["message"]["content"] is None and c["finish_reason"] == "tool_calls"
    for f in calls:
        arguments = json.loads(f["arguments"])
        assert list(arguments) == (["x"] if f["name"] == "a" else [])
    deltas, reasons = stream(tiny, **body)
    assert [(c["name"], c["arguments"]) for c in join(deltas)] == [(f["name"], f["arguments"]) for f in calls]
    assert reasons[-1] == "tool_calls" and set(reasons[:-1]) == {None} and not any(d.get("content") for d in deltas)


def test_d05_one_call_and_generation_stops(tiny):
    c = ask(tiny, tools=TWO, tool_choice="required", parallel_tool_calls=False, min_tokens=90, max_tokens=3000)
    assert len(c["message"]["tool_calls"]) == 1 and c["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stop", ["</tool_call_x>", "</tool_call>x", "}}\n\n", "<tool_call>\n\n"])
def test_d10_what_a_stop_string_holds_back_is_still_the_calls(server, stop):
    deltas, reasons = stream(server, tools=[tool("a")], tool_choice=named("a"), stop=[stop])
    assert not any(d.get("content") for d in deltas) and reasons[-1] == "tool_calls"
    assert [(c["name"], c["arguments"]) for c in join(deltas)] == [("a", "{}")]
    c = ask(server, tools=[tool("a")], tool_choice=named("a"), stop=[stop])
    assert c["message"]["content"] is None and len(c["message"]["tool_calls"]) == 1


def test_vllm_21544_arguments_with_unclosed_braces(server):
    command = 'mkdir -p t/{a,b && echo "}}]"'
    run = tool("run", {"type": "object", "properties": {"command": {"const": command}}, "required": ["command"],
                       "additionalProperties": False})
    c = ask(server, tools=[run], tool_choice="required", parallel_tool_calls=False)
    (f,) = [t["function"] for t in c["message"]["tool_calls"]]
    assert json.loads(f["arguments"]) == {"command": command}
    (call,) = join(stream(server, tools=[run], tool_choice="required", parallel_tool_calls=False)[0])
    assert call["arguments"] == f["arguments"]


# ---- Structured output ------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["^a(b$", "[z-a]", "(?<n>a)\\k<m>", "a{3,2}"])
def test_e02_a_pattern_that_cannot_be_held_is_refused(tiny, pattern):
    for body in ({"response_format": schema({"type": "string", "pattern": pattern})},
                 {"tools": [tool("f", {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})]}):
        status, r = tiny.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 4, **body})
        assert status == 400 and r["error"]["param"].endswith("/pattern") and r["error"]["message"], r


def test_e03_a_schema_that_cannot_be_compiled_fails_by_the_tools_name(tiny):
    bad = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    status, r = tiny.post("/v1/chat/completions", {"messages": HELLO, "tools": [tool("noop"), tool("bad", bad)]})
    assert status == 400 and r["error"]["param"] == "tools[1].function.parameters#/properties/a/pattern", r


def test_e07_values_beyond_ascii(server):
    for text in ('{"enum":["\\u00dcber","\\ud83d\\ude42"]}', '{"enum":["Über","🙂"]}'):
        seen = {json.loads(ask(server, response_format=schema(json.loads(text)), seed=i)["message"]["content"]) for i in range(12)}
        assert seen <= {"Über", "🙂"}


def test_e13_each_choice_has_a_place_of_its_own(server):
    lengths = set()
    for seed in range(3, 9):
        status, r = server.post("/v1/chat/completions", {"messages": HELLO, "n": 4, "response_format": schema(TREE), "temperature": 1.0,
                                                         "seed": seed, "max_tokens": 300})
        assert status == 200 and len(r["choices"]) == 4
        for c in (c for c in r["choices"] if c["finish_reason"] == "stop"):
            jsonschema.Draft202012Validator(TREE).validate(json.loads(c["message"]["content"]))
            lengths.add(len(c["message"]["content"]))
    assert len(lengths) > 1                        # one that ended early didn't end the others


A = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99999}}, "required": ["n"], "additionalProperties": False}
B = {"type": "object", "properties": {"s": {"enum": ["x", "y"]}}, "required": ["s"], "additionalProperties": False}


def test_sgl_2414_requests_of_a_batch_do_not_leak_into_each_other(server):
    bodies = [dict(messages=[{"role": "user", "content": f"Tell me about {w}."}], temperature=0, max_tokens=300 if extra else 24, **extra)
              for w, extra in (("rain", {}), ("it", {"response_format": schema(A)}), ("snow", {}), ("it", {"response_format": schema(B)}),
                               ("wind", {}), ("that", {"response_format": schema(A)}), ("fog", {}), ("that", {"response_format": schema(B)}))]
    alone = [ask(server, **b)["message"]["content"] for b in bodies]
    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda b: ask(server, **b)["message"]["content"], bodies)) == alone
    for text, s in ((alone[1], A), (alone[5], A), (alone[3], B), (alone[7], B)):
        jsonschema.Draft202012Validator(s).validate(json.loads(text))


def test_max_5497_requests_without_a_grammar_are_as_ever(serve):
    plain = dict(temperature=0, max_tokens=20)
    fresh = ask(serve(TINY), **plain)["message"]["content"]
    s = serve(TINY)
    ask(s, response_format=schema(A))
    assert ask(s, **plain)["message"]["content"] == fresh
    ask(s, tools=[tool("a")], tool_choice="required")
    assert ask(s, **plain)["message"]["content"] == fresh


def test_ollama_17183_held_however_it_is_asked_for(server):
    for route, prompt in (("chat/completions", {"messages": HELLO}), ("completions", {"prompt": "Go on."})):
        body = {**prompt, "response_format": schema(B), "temperature": 2, "seed": 5, "max_tokens": 400}
        status, r = server.post(f"/v1/{route}", body)
        assert status == 200, r
        c = r["choices"][0]
        whole = c["text"] if "text" in c else c["message"]["content"]
        jsonschema.Draft202012Validator(B).validate(json.loads(whole))
        _, _, data = server.request("POST", f"/v1/{route}", {**body, "stream": True})
        parts = [json.loads(e[6:])["choices"][0] for e in data.decode().split("\n\n") if e.startswith("data: {")]
        assert "".join(p["text"] if "text" in p else p["delta"].get("content") or "" for p in parts) == whole
