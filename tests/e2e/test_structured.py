"""Output held to a schema, a pattern, a grammar or a choice; tool calls in the model's own format. The models
are tiny and random or small: what they say means nothing, its shape must be right all the same."""
import json
import re
import subprocess
from typing import Literal, Optional

import pytest

openai = pytest.importorskip("openai")

from conftest import FORNAX, TINY  # noqa: E402
from made_models import byte_ids  # noqa: E402

PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"], "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b", "ü"]}}}}
HELLO = [{"role": "user", "content": "Who is it?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a place", "parameters": {
    "type": "object", "additionalProperties": False, "required": ["city"], "properties": {
        "city": {"type": "string", "enum": ["Paris", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}}}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "additionalProperties": False, "properties": {}}}}


def ask(server, **body):
    return server.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 400, "temperature": 1.5, **body})


def check_person(text):
    p = json.loads(text)
    assert set(p) == {"name", "age", "tags"} and isinstance(p["name"], str) and 1 <= len(p["name"]) <= 8
    assert type(p["age"]) is int and 0 <= p["age"] <= 120
    assert len(p["tags"]) <= 2 and set(p["tags"]) <= {"a", "b", "ü"}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}


def test_json_schema(server):
    for seed in range(8):
        status, r = ask(server, response_format=schema_format(PERSON), seed=seed)
        assert status == 200, r
        assert r["choices"][0]["finish_reason"] == "stop"
        check_person(r["choices"][0]["message"]["content"])


def test_many_choices_penalties_and_bias(tiny):
    status, r = ask(tiny, response_format=schema_format(PERSON), n=8, seed=1, presence_penalty=1, frequency_penalty=1,
                    logit_bias={str(i): 100 for i in range(40)})
    assert status == 200, r
    for c in r["choices"]:
        check_person(c["message"]["content"])


def test_streams_join_to_the_same_text(tiny):
    body = {"messages": HELLO, "max_tokens": 480, "temperature": 1, "seed": 5, "response_format": schema_format(PERSON)}
    whole = tiny.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
    chunks = list(tiny.client().chat.completions.create(model="tiny", stream=True, **body))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == whole
    check_person(whole)


def test_json_object(tiny):
    status, r = ask(tiny, response_format={"type": "json_object"}, max_tokens=60, seed=3)
    assert status == 200
    if r["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(r["choices"][0]["message"]["content"]), dict)
    else:
        assert r["choices"][0]["message"]["content"].startswith("{")


def test_cut_text_is_a_prefix(tiny):
    status, r = ask(tiny, regex="[ab]{40}", max_tokens=3)
    text = r["choices"][0]["message"]["content"]
    assert status == 200 and r["choices"][0]["finish_reason"] == "length" and re.fullmatch("[ab]{1,39}", text)


@pytest.mark.parametrize("field, value, pattern", [
    ("regex", r"[0-9]{4}-[0-9]{2}", r"[0-9]{4}-[0-9]{2}"),
    ("choice", ["yes", "no", "nö"], "yes|no|nö"),
    ("grammar", 'root ::= "<" [a-c]+ ">"\n', "<[abc]+>"),
])
def test_extensions(server, field, value, pattern):
    for route, prompt in (("chat/completions", {"messages": HELLO}), ("completions", {"prompt": "It is"})):
        status, r = server.post(f"/v1/{route}", {**prompt, "max_tokens": 100, "temperature": 1, "seed": 2, field: value})
        assert status == 200, r
        c = r["choices"][0]
        text = c["text"] if "text" in c else c["message"]["content"]
        assert c["finish_reason"] == "length" or re.fullmatch(pattern, text), text


@pytest.mark.parametrize("body, param", [
    ({"response_format": schema_format({"type": "nothing"})}, "response_format.json_schema.schema"),
    ({"response_format": schema_format({"properties": {"a": {"pattern": "("}}})}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schem": {}}}}, "response_format.json_schema"),
    ({"regex": "(a"}, "regex"), ({"regex": r"(a)\1"}, "regex"), ({"grammar": "root ::= nowhere\n"}, "grammar"),
    ({"choice": []}, "choice"), ({"choice": ["a", 1]}, "choice"), ({"choice": "a"}, "choice"),
    ({"regex": "a", "choice": ["a"]}, "choice"), ({"regex": "a", "ignore_eos": True}, "ignore_eos"),
    ({"tools": [{"type": "function"}]}, "tools"), ({"tools": [WEATHER, WEATHER]}, "tools"),
    ({"tools": [WEATHER], "tool_choice": "maybe"}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "odd"}}}}}]}, "tools"),
])
def test_what_cannot_be_held_is_refused(tiny, body, param):
    status, r = ask(tiny, **body)
    assert status == 400, r
    assert r["error"]["param"].startswith(param) and r["error"]["message"], r


def test_others_in_the_batch_are_untouched(tiny):
    """A free request beside held ones gives what it gives alone."""
    from concurrent.futures import ThreadPoolExecutor
    free = {"messages": HELLO, "max_tokens": 24, "temperature": 1, "seed": 9}
    alone = tiny.post("/v1/chat/completions", free)[1]["choices"][0]["message"]["content"]
    with ThreadPoolExecutor(8) as pool:
        held = [pool.submit(ask, tiny, response_format=schema_format(PERSON), seed=i) for i in range(6)]
        beside = [pool.submit(tiny.post, "/v1/chat/completions", free) for _ in range(2)]
        for f in held:
            check_person(f.result()[1]["choices"][0]["message"]["content"])
        assert all(f.result()[1]["choices"][0]["message"]["content"] == alone for f in beside)


# ---- Tools ------------------------------------------------------------------------------------


def check_call(call):
    assert call["type"] == "function" and call["id"]
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "get_time":
        assert arguments == {}
    else:
        assert call["function"]["name"] == "get_weather" and arguments["city"] in ("Paris", "Oslo")
        assert set(arguments) <= {"city", "days"} and arguments.get("days", 1) in (1, 2, 3)


def test_required_calls(server):
    for seed in range(4):
        status, r = ask(server, tools=[WEATHER, CLOCK], tool_choice="required", parallel_tool_calls=False, seed=seed)
        assert status == 200, r
        c = r["choices"][0]
        assert c["finish_reason"] == "tool_calls" and c["message"]["content"] is None and len(c["message"]["tool_calls"]) == 1
        check_call(c["message"]["tool_calls"][0])


def test_named_call(tiny):
    status, r = ask(tiny, tools=[WEATHER, CLOCK], tool_choice={"type": "function", "function": {"name": "get_weather"}})
    assert status == 200, r
    (call,) = r["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    check_call(call)


def test_streamed_calls_join_to_the_whole(tiny):
    body = dict(model="tiny", messages=HELLO, tools=[WEATHER, CLOCK], tool_choice="required", temperature=1.5, max_tokens=200)
    client = tiny.client()
    for seed in range(4):
        whole = client.chat.completions.create(seed=seed, **body).choices[0]
        calls, reason = {}, None
        for chunk in client.chat.completions.create(seed=seed, stream=True, **body):
            reason = chunk.choices[0].finish_reason or reason
            for d in chunk.choices[0].delta.tool_calls or []:
                call = calls.setdefault(d.index, {"name": "", "arguments": ""})
                call["name"] += d.function.name or ""
                call["arguments"] += d.function.arguments or ""
        assert reason == whole.finish_reason
        assert [(c["name"], c["arguments"]) for _, c in sorted(calls.items())] == \
            [(c.function.name, c.function.arguments) for c in whole.message.tool_calls or []]


def test_auto_never_calls_what_is_not_there(tiny):
    for seed in range(6):
        status, r = ask(tiny, tools=[CLOCK], seed=seed, max_tokens=60)
        assert status == 200
        for call in r["choices"][0]["message"].get("tool_calls", []):
            assert call["function"]["name"] == "get_time"


def test_conversation_with_calls_goes_on(smol):
    """What came back is taken again, as the client library sends it."""
    client = smol.client()
    messages = [{"role": "user", "content": "Weather in Oslo?"}]
    first = client.chat.completions.create(model="smol", messages=messages, tools=[WEATHER], tool_choice="required",
                                           parallel_tool_calls=False, max_tokens=100, temperature=0).choices[0].message
    messages += [first.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sunny"}]
    r = client.chat.completions.create(model="smol", messages=messages, tools=[WEATHER], max_tokens=8, temperature=0)
    assert r.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_client_helpers(tiny):
    """The client's own helpers, with classes for the shape of texts and arguments; whole, and streamed."""
    pydantic = pytest.importorskip("pydantic")

    class Place(pydantic.BaseModel):
        city: Literal["Oslo", "Zürich"]
        floor: Optional[int] = pydantic.Field(ge=0, le=99)

    class Event(pydantic.BaseModel):
        title: str = pydantic.Field(max_length=6)
        kind: bool
        place: Place

    class Call(pydantic.BaseModel):
        city: str = pydantic.Field(max_length=5)

    client = tiny.client()
    completions = client.chat.completions if hasattr(client.chat.completions, "parse") else client.beta.chat.completions
    r = completions.parse(model="tiny", messages=HELLO, response_format=Event, temperature=0.3, seed=2, max_tokens=450)
    assert isinstance(r.choices[0].message.parsed, Event)
    r = completions.parse(model="tiny", messages=HELLO, tools=[openai.pydantic_function_tool(Call)],
                                           tool_choice="required", parallel_tool_calls=False, temperature=0.3, seed=2, max_tokens=450)
    assert isinstance(r.choices[0].message.tool_calls[0].function.parsed_arguments, Call)
    with completions.stream(model="tiny", messages=HELLO, response_format=Event, temperature=0.3, seed=2, max_tokens=450) as events:
        deltas = "".join(e.delta for e in events if e.type == "content.delta")
    last = events.get_final_completion().choices[0].message
    assert isinstance(last.parsed, Event) and last.content == deltas
    with completions.stream(model="tiny", messages=HELLO, tools=[openai.pydantic_function_tool(Call)], tool_choice="required",
                            parallel_tool_calls=False, temperature=0.3, seed=2, max_tokens=450) as events:
        done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
    assert len(done) == 1 and isinstance(done[0].parsed_arguments, Call)
    assert events.get_final_completion().choices[0].message.tool_calls[0].function.arguments == done[0].arguments


# ---- The program ------------------------------------------------------------------------------


def run(*args):
    return subprocess.run([FORNAX, *args], capture_output=True, text=True, timeout=300)


def test_generate(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(PERSON))
    (tmp_path / "g.gbnf").write_text('root ::= "x"{3} "y"?\n')
    base = ["generate", TINY, "-p", "It is", "-n", "400", "-T", "1", "--seed", "4"]
    r = run(*base, "--schema", str(tmp_path / "s.json"))
    assert r.returncode == 0, r.stderr
    check_person(r.stdout)
    assert re.fullmatch("[0-9]{3}\n", run(*base, "--regex", "[0-9]{3}").stdout)
    assert run(*base, "--grammar", str(tmp_path / "g.gbnf")).stdout in ("xxx\n", "xxxy\n")
    assert run(*base, "--choice", "red", "--choice", "blue").stdout in ("red\n", "blue\n")
    assert run(*base, "--regex", "a", "--choice", "b").returncode == 2
    r = run(*base, "--regex", "(")
    assert r.returncode == 1 and "--regex: " in r.stderr
    (tmp_path / "s.json").write_text(json.dumps({"properties": {"a": {"pattern": "("}}}))
    r = run(*base, "--schema", str(tmp_path / "s.json"))
    assert r.returncode == 1 and "--schema: #/properties/a/pattern: " in r.stderr


def test_check_for_programs(tmp_path):
    """Lines of token ids: verdicts, every mask against each token tried, and the masks of many sequences together."""
    texts = ['{"name":"ab","age":7,"tags":["a","ü"]}', '{"tags":[],"age":7,"name":"ab"}', '{"name":"ab","age":121,"tags":[]}', '{"name":"ab"']
    (tmp_path / "s.json").write_text(json.dumps(PERSON))
    lines = "".join(json.dumps({"i": i, "tokens": byte_ids(t.encode())}) + "\n" for i, t in enumerate(texts))
    r = subprocess.run([FORNAX, "grammar", "check", "--schema", str(tmp_path / "s.json"), "--tokenizer", TINY, "--verify-mask", "1",
                        "--slots", "64"], input=lines, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and r.stderr == "", r
    head, *rows = map(json.loads, r.stdout.splitlines())
    assert head["compile"] == "ok" and [x["accept"] for x in rows] == [True, True, False, False]
    assert rows[2]["fail_at"] == texts[2].index("1,") and rows[3]["fail_at"] == len(texts[3])
    for text, x in zip(texts, rows):
        assert len(x["mask_ns"]) == len(x["commit_ns"]) + 1
        assert len(x.get("slots_ns", [])) == (len(text.encode()) + 1 if x["accept"] else 0)


def test_chat_program(tmp_path):
    r = subprocess.run([FORNAX, "chat", TINY, "-n", "100", "--regex", "[0-9]{3}"], input="Which?\nAnd then?\n", capture_output=True,
                       text=True, timeout=300)
    assert r.returncode == 0 and re.fullmatch("([0-9]{3}\n){2}", r.stdout), r
    assert run("chat", TINY, "--regex", "a", "--choice", "b").returncode == 2
