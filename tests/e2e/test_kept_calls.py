"""A conversation that comes back with a tool call has the very tokens of it: all its pages are found again."""
import copy
import json

import pytest

from conftest import PAGE, ROOT, TINY

FIND = {"type": "function", "function": {"name": "find", "parameters": {
    "type": "object", "additionalProperties": False, "required": ["text"], "properties": {"text": {"type": "string", "pattern": "^[a-z ]{30,40}$"}}}}}
ASK = [{"role": "user", "content": "Find the thing that was lost in the garden, please."}]


def chat(server, messages, **body):
    status, r = server.post("/v1/chat/completions", {"messages": messages, "tools": [FIND], "max_tokens": 200, "temperature": 1.5, "parallel_tool_calls": False, **body})
    assert status == 200, r
    return r["choices"][0], r["usage"]


FORCED = 12                 # tokens at a reply's end that the grammar leaves no choice about are never run: not in any page


def pages_of(usage):
    return (usage["prompt_tokens"] + usage["completion_tokens"] - FORCED) // PAGE * PAGE


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


def answer(reply):
    return [reply["message"], {"role": "tool", "tool_call_id": reply["message"]["tool_calls"][0]["id"], "content": "It was found."}]


@pytest.fixture(params=["codecs/llama3", "plain"])
def server(request, serve):
    """Families; and a template that knows nothing of calls."""
    return serve(TINY, *([] if request.param == "plain" else ["--chat-template", str(ROOT / f"tests/data/{request.param}.jinja")]))


@pytest.mark.parametrize("stream", [False, True])
def test_the_whole_turn_is_found(server, stream):
    for seed in range(4):
        if stream:
            name = server.client().models.list().data[0].id
            chunks = list(server.client().chat.completions.create(model=name, messages=ASK, tools=[FIND], tool_choice="required", seed=seed, stream=True,
                                                                  max_tokens=200, temperature=1.5, parallel_tool_calls=False, stream_options={"include_usage": True}))
            deltas = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices and c.choices[0].delta.tool_calls]
            call = {"id": deltas[0].id, "type": "function", "function": {"name": "find", "arguments": "".join(d.function.arguments or "" for d in deltas)}}
            reply = {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}
            usage = json.loads(chunks[-1].usage.model_dump_json())
        else:
            reply, usage = chat(server, ASK, tool_choice="required", seed=seed)
        messages = ASK + answer(reply)
        _, again = chat(server, messages, seed=seed)
        assert cached(again) >= pages_of(usage) > usage["prompt_tokens"] // PAGE * PAGE

        changed = copy.deepcopy(messages)
        changed[1]["tool_calls"][0]["function"]["arguments"] = json.dumps({"text": "something else"})
        changed[1]["emitted"] = [1, 2, 3]                                  # isn't a client's to say
        _, other = chat(server, changed, seed=seed, cache_salt="other")
        changed[1].pop("emitted")
        changed[1]["tool_calls"][0]["id"] = "call_of_nobody"
        _, plain = chat(server, changed, seed=seed, cache_salt="third")
        assert other["prompt_tokens"] == plain["prompt_tokens"]


def test_two_calls(serve):
    s = serve(TINY)
    seen = 0
    for seed in range(40):
        if seen > 1:
            break
        reply, usage = chat(s, ASK, tool_choice="required", seed=seed, parallel_tool_calls=True, max_tokens=350)
        if reply["finish_reason"] != "tool_calls":
            continue
        seen = max(seen, len(reply["message"]["tool_calls"]))
        had = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        results = [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in reply["message"]["tool_calls"]]
        _, again = chat(s, ASK + [reply["message"]] + results, seed=seed)
        assert cached(again) >= pages_of(usage)
    assert seen > 1
