"""The unmodified openai client against the server: what it sends is honoured, what it gets is whole."""
import json
import math
import signal
import threading
import time

import pytest

openai = pytest.importorskip("openai")

from conftest import PAGE, TINY, TINY_QWEN, until  # noqa: E402

HELLO = [{"role": "user", "content": "Tell me about the sea."}]
LONG_TEXT = "the river ran past old stone walls while seven quiet birds watched from green hills and nobody counted "


def chat(server, **body):
    body = {"model": server.name_in_api, "messages": HELLO, "temperature": 0, "max_tokens": 12, **body}
    return server.client().chat.completions.create(**body)


def complete(server, **body):
    body = {"model": server.name_in_api, "prompt": "Once upon a time", "temperature": 0, "max_tokens": 12, **body}
    return server.client().completions.create(**body)


@pytest.fixture(autouse=True)
def named(request):
    for s in ("tiny", "smol"):
        if s in request.fixturenames or ("server" in request.fixturenames and
                                         request.node.callspec.params.get("server") == s):
            request.getfixturevalue(s).name_in_api = s
    yield


def text_of(chunks):
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


# ---- Chat -------------------------------------------------------------------------------------


def test_chat_shape(server):
    before = int(time.time()) - 1
    r = chat(server)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-") and before <= r.created <= time.time() + 1
    assert r.model == server.name_in_api and len(r.choices) == 1
    c = r.choices[0]
    assert c.index == 0 and c.message.role == "assistant" and isinstance(c.message.content, str)
    assert c.finish_reason in ("stop", "length") and c.logprobs is None
    u = r.usage
    assert u.prompt_tokens > 0 and 0 < u.completion_tokens <= 12 and u.total_tokens == u.prompt_tokens + u.completion_tokens
    assert r.system_fingerprint


def test_greedy_is_deterministic_and_ids_differ(server):
    a, b = chat(server), chat(server)
    assert a.choices[0].message.content == b.choices[0].message.content
    assert a.id != b.id


@pytest.mark.parametrize("usage", [None, True, False])
def test_chat_stream_equals_whole(server, usage):
    whole = chat(server)
    options = {} if usage is None else {"stream_options": {"include_usage": usage}}
    chunks = list(chat(server, stream=True, **options))
    assert text_of(chunks) == whole.choices[0].message.content
    assert len({c.id for c in chunks}) == 1 and {c.object for c in chunks} == {"chat.completion.chunk"}
    assert chunks[0].choices[0].delta.role == "assistant"
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] == whole.choices[0].finish_reason and set(reasons[:-1]) == {None}
    last = chunks[-1]
    if usage:
        assert last.choices == [] and last.usage.completion_tokens == whole.usage.completion_tokens
        assert last.usage.prompt_tokens == whole.usage.prompt_tokens
        assert all(c.usage is None for c in chunks[:-1])
    else:
        assert last.choices and all(c.usage is None for c in chunks)


def test_stream_bytes(tiny):
    """What the client library hides: the framing, the end mark, the headers."""
    body = {"messages": HELLO, "stream": True, "max_tokens": 3, "ignore_eos": True}
    status, head, data = tiny.request("POST", "/v1/chat/completions", body)
    assert status == 200 and head["content-type"].startswith("text/event-stream") and head["x-request-id"]
    events = data.decode().split("\n\n")
    assert events[-1] == "" and events[-2] == "data: [DONE]"
    for e in events[:-2]:
        assert e.startswith("data: ") and "\n" not in e
        assert head["x-request-id"] in json.loads(e[6:])["id"]


def test_text_arrives_as_it_is_made(smol):
    times = []
    for c in chat(smol, stream=True, max_tokens=30, extra_body={"ignore_eos": True}):
        if c.choices and c.choices[0].delta.content:
            times.append(time.monotonic())
    assert len(times) > 15 and times[-1] - times[0] > 0.02


def test_real_model_answers(smol):
    assert complete(smol, prompt="The capital of France is", max_tokens=4).choices[0].text.startswith(" Paris")
    r = chat(smol, messages=[{"role": "user", "content": "What is gravity?"}], max_tokens=32)
    assert r.choices[0].message.content.startswith("Gravity is")


def test_chat_roles_and_parts(server):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "Three."},
        {"role": "user", "content": "Go on. Zürich, 東京, 🙂"},
    ]
    r = chat(server, messages=messages)
    joined = json.loads(json.dumps(messages))
    joined[1]["content"] = "One\ntwo"
    assert chat(server, messages=joined).choices[0].message.content == r.choices[0].message.content
    developer = json.loads(json.dumps(messages))
    developer[0]["role"] = "developer"
    assert chat(server, messages=developer).usage.prompt_tokens == r.usage.prompt_tokens


def test_streams_whole_characters(tiny):
    """Random models emit halves of characters: no chunk may hold a broken one, the whole must equal the parts."""
    body = dict(max_tokens=200, temperature=1.5, seed=3, extra_body={"ignore_eos": True})
    whole = chat(tiny, **body).choices[0].message.content
    assert text_of(chat(tiny, stream=True, **body)) == whole


def test_special_tokens_in_messages_stay_text(tiny):
    plain = chat(tiny, messages=[{"role": "user", "content": "x"}]).usage.prompt_tokens
    forged = chat(tiny, messages=[{"role": "user", "content": "<|eot_id|>"}]).usage.prompt_tokens
    assert forged > plain + 1


# ---- Completions ------------------------------------------------------------------------------


def test_completion_shape(server):
    r = complete(server)
    assert r.object == "text_completion" and r.id.startswith("cmpl-") and r.model == server.name_in_api
    assert isinstance(r.choices[0].text, str) and r.choices[0].logprobs is None
    assert r.usage.completion_tokens <= 12


def test_completion_default_is_16_tokens(tiny):
    r = tiny.client().completions.create(model="tiny", prompt="a", extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 16 and r.choices[0].finish_reason == "length"


def test_completion_list_of_prompts(server):
    prompts = ["The sea", "A mountain is", "Seven birds"]
    r = complete(server, prompt=prompts)
    assert [c.index for c in r.choices] == [0, 1, 2]
    alone = [complete(server, prompt=p) for p in prompts]
    assert [c.text for c in r.choices] == [a.choices[0].text for a in alone]
    assert r.usage.prompt_tokens == sum(a.usage.prompt_tokens for a in alone)


def test_completion_ids(tiny):
    ids = [5, 17, 300, 42]
    r = complete(tiny, prompt=ids)
    assert r.usage.prompt_tokens == 4
    assert complete(tiny, prompt=[ids]).choices[0].text == r.choices[0].text
    both = complete(tiny, prompt=[ids, [7, 8]])
    assert both.choices[0].text == r.choices[0].text and len(both.choices) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_completion_echo(server, stream):
    plain = complete(server).choices[0].text
    r = complete(server, echo=True, stream=stream)
    text = "".join(c.choices[0].text for c in r) if stream else r.choices[0].text
    assert text == "Once upon a time" + plain


def test_echo_without_new_tokens(tiny):
    r = complete(tiny, echo=True, max_tokens=0)
    assert r.choices[0].text == "Once upon a time" and r.usage.completion_tokens == 0


def test_completion_stream_of_several(tiny):
    prompts = ["The sea", "A mountain is"]
    whole = complete(tiny, prompt=prompts, n=2, seed=5, temperature=1)
    parts = ["" for _ in range(4)]
    for c in complete(tiny, prompt=prompts, n=2, seed=5, temperature=1, stream=True):
        parts[c.choices[0].index] += c.choices[0].text
    assert parts == [c.text for c in whole.choices]


# ---- Sampling ------------------------------------------------------------------------------------


def test_seed(server):
    draw = lambda seed: chat(server, temperature=1.2, seed=seed, max_tokens=20).choices[0].message.content  # noqa: E731
    assert draw(7) == draw(7)
    assert len({draw(s) for s in range(4)}) > 1
    unseeded = {chat(server, temperature=1.2, max_tokens=20).choices[0].message.content for _ in range(4)}
    assert len(unseeded) > 1


def test_choices_differ_and_are_stable(server):
    a = chat(server, n=3, temperature=1.2, seed=1, max_tokens=20)
    b = chat(server, n=3, temperature=1.2, seed=1, max_tokens=20)
    texts = [c.message.content for c in a.choices]
    assert [c.index for c in a.choices] == [0, 1, 2] and len(set(texts)) > 1
    assert texts == [c.message.content for c in b.choices]
    parts = ["", "", ""]
    for c in chat(server, n=3, temperature=1.2, seed=1, max_tokens=20, stream=True):
        parts[c.choices[0].index] += c.choices[0].delta.content or ""
    assert parts == texts
    one = chat(server, temperature=1.2, seed=1, max_tokens=20)
    assert one.choices[0].message.content == texts[0]
    assert a.usage.completion_tokens <= 60 and a.usage.prompt_tokens == one.usage.prompt_tokens


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_limits(tiny, name):
    r = tiny.client().chat.completions.create(model="tiny", messages=HELLO, extra_body={"ignore_eos": True}, **{name: 5})
    assert r.usage.completion_tokens == 5 and r.choices[0].finish_reason == "length"


def test_without_limit_to_the_contexts_end(tiny):
    r = tiny.client().chat.completions.create(model="tiny", messages=HELLO, extra_body={"ignore_eos": True})
    assert r.usage.total_tokens == 512 and r.choices[0].finish_reason == "length"


def cut_at(text, i, j):
    return text[:text.index(text[i:j])], text[i:j]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("span", [(3, 4), (5, 9), (8, 20)])
def test_stop_strings_cross_tokens(server, stream, span):
    text = complete(server, max_tokens=30).choices[0].text
    if len(text) < 22:
        text = complete(server, max_tokens=30, prompt="One two three four").choices[0].text
    before, stop = cut_at(text, *span)
    prompt = "Once upon a time" if complete(server, max_tokens=30).choices[0].text == text else "One two three four"
    for value in (stop, ["\x00never", stop], [stop, stop + "x"]):
        r = complete(server, prompt=prompt, max_tokens=30, stop=value, stream=stream)
        if stream:
            chunks = list(r)
            got, reason = "".join(c.choices[0].text for c in chunks), chunks[-1].choices[0].finish_reason
        else:
            got, reason = r.choices[0].text, r.choices[0].finish_reason
        assert got == before and reason == "stop"


def test_stop_that_never_comes_changes_nothing(server):
    text = complete(server).choices[0].text
    assert complete(server, stop=["never in a random text", text + "!"]).choices[0].text == text


def test_logit_bias(tiny):
    only = 77
    r = complete(tiny, logit_bias={str(only): 100}, max_tokens=4, logprobs=1)
    assert len(set(r.choices[0].logprobs.tokens)) == 1
    first = complete(tiny, max_tokens=1, logprobs=0, prompt=[3, 4, 5]).choices[0].logprobs.tokens[0]
    banned = {str(i): -100 for i in range(512) if tiny_tokens(tiny)[i] == first}
    assert banned
    assert complete(tiny, max_tokens=1, logprobs=0, prompt=[3, 4, 5], logit_bias=banned).choices[0].logprobs.tokens[0] != first


_tokens = []


def tiny_tokens(tiny):
    """The text of each id, by way of echo."""
    if not _tokens:
        for low in range(0, 512, 128):
            r = complete(tiny, prompt=[[i] for i in range(low, low + 128)], echo=True, max_tokens=0)
            _tokens.extend(c.text for c in r.choices)
    return _tokens


# ---- Log-probabilities ------------------------------------------------------------------------------


def check_logprobs(items, n_top):
    for t in items:
        assert t.logprob <= 0 and bytes(t.bytes).decode(errors="replace") == t.token or "�" in t.token
        assert len(t.top_logprobs) == n_top
        values = [x.logprob for x in t.top_logprobs]
        assert values == sorted(values, reverse=True) and sum(map(math.exp, values)) < 1.001
        if n_top:
            assert math.isclose(values[0], t.logprob, abs_tol=1e-6)        # greedy


@pytest.mark.parametrize("n_top", [0, 1, 5, 20])
def test_chat_logprobs(server, n_top):
    r = chat(server, logprobs=True, top_logprobs=n_top, max_tokens=6)
    items = r.choices[0].logprobs.content
    assert r.usage.completion_tokens - len(items) in (0, 1)         # an end token has none
    check_logprobs(items, n_top)
    streamed = []
    for c in chat(server, logprobs=True, top_logprobs=n_top, max_tokens=6, stream=True):
        if c.choices and c.choices[0].logprobs:
            streamed += c.choices[0].logprobs.content
    assert streamed == items


def test_logprobs_do_not_change_the_text(server):
    assert chat(server, logprobs=True, top_logprobs=3).choices[0].message.content == chat(server).choices[0].message.content


def test_completion_logprobs(server):
    r = complete(server, logprobs=3, max_tokens=6)
    l, text = r.choices[0].logprobs, r.choices[0].text
    assert len(l.tokens) == len(l.token_logprobs) == len(l.top_logprobs) == len(l.text_offset)
    assert all(len(t) <= 3 for t in l.top_logprobs) and all(x <= 0 for x in l.token_logprobs)
    if not any(t.startswith("bytes:") for t in l.tokens) and r.choices[0].finish_reason == "length":
        assert "".join(l.tokens) == text
        assert [text[a:b] for a, b in zip(l.text_offset, l.text_offset[1:] + [None])] == l.tokens


# ---- Extensions of this server ------------------------------------------------------------------------


def test_top_k_one_is_greedy(server):
    greedy = chat(server).choices[0].message.content
    assert chat(server, temperature=2, extra_body={"top_k": 1}).choices[0].message.content == greedy
    assert chat(server, temperature=2, top_p=0).choices[0].message.content == greedy
    assert chat(server, temperature=2, extra_body={"min_p": 1}).choices[0].message.content == greedy


def test_penalties_change_the_text(server):
    r = lambda **k: complete(server, max_tokens=40, extra_body={"ignore_eos": True, **k}).choices[0].text  # noqa: E731
    plain = r()
    assert r(repetition_penalty=1) == plain and r(frequency_penalty=0, presence_penalty=0) == plain
    assert r(repetition_penalty=1.8) != plain or r(frequency_penalty=2) != plain


def test_stop_token_ids_and_min_tokens(tiny):
    bias = {"77": 100}
    one = complete(tiny, logit_bias=bias, max_tokens=9, extra_body={"stop_token_ids": [77]})
    assert one.choices[0].finish_reason == "stop" and one.choices[0].text == ""
    held = complete(tiny, logit_bias=bias, max_tokens=9, extra_body={"stop_token_ids": [77], "min_tokens": 3})
    assert held.usage.completion_tokens > 3 or held.choices[0].finish_reason == "stop"


def test_eos_and_ignore_eos(tiny):
    stopped = complete(tiny, logit_bias={"509": 100}, max_tokens=5)
    assert stopped.choices[0].finish_reason == "stop" and stopped.choices[0].text == ""
    on = complete(tiny, logit_bias={"509": 100}, max_tokens=5, extra_body={"ignore_eos": True})
    assert on.choices[0].finish_reason == "length" and on.usage.completion_tokens == 5


def test_cache_salt_separates(tiny):
    prompt = [int(i) for i in range(100, 100 + 3 * PAGE + 5)]
    ask = lambda salt: complete(tiny, prompt=prompt, extra_body={"cache_salt": salt})  # noqa: E731
    first, again, other = ask("a"), ask("a"), ask("b")
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert again.usage.prompt_tokens_details.cached_tokens == 3 * PAGE
    assert other.usage.prompt_tokens_details.cached_tokens == 0
    assert first.choices[0].text == again.choices[0].text == other.choices[0].text


def test_cached_tokens_are_whole_pages(server):
    messages = [{"role": "user", "content": f"{time.time()} " + LONG_TEXT * 2}]
    first, second = chat(server, messages=messages), chat(server, messages=messages)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    n = second.usage.prompt_tokens_details.cached_tokens
    assert n > 0 and n % PAGE == 0 and n >= (second.usage.prompt_tokens - 1) // PAGE * PAGE
    assert first.choices[0].message.content == second.choices[0].message.content


# ---- Models --------------------------------------------------------------------------------------------


def test_models(tiny):
    c = tiny.client()
    assert [m.id for m in c.models.list()] == ["tiny", "tiny-alias"]
    m = c.models.retrieve("tiny-alias")
    assert m.id == "tiny-alias" and m.object == "model" and m.owned_by
    assert complete(tiny, model="tiny-alias").model == "tiny-alias"
    with pytest.raises(openai.NotFoundError) as e:
        c.models.retrieve("other/model")
    assert e.value.code == "model_not_found"


def test_model_may_be_left_out(tiny):
    status, r = tiny.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert status == 200 and r["model"] == "tiny"


# ---- Errors ----------------------------------------------------------------------------------------------

BAD_CHAT = [
    ({"temperature": 2.5}, "temperature"), ({"temperature": -1}, "temperature"), ({"temperature": "hot"}, "temperature"),
    ({"top_p": 1.5}, "top_p"), ({"n": 0}, "n"), ({"n": 1.5}, "n"), ({"n": 129}, "n"), ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -5}, "max_tokens"), ({"max_tokens": True}, "max_tokens"), ({"stop": 5}, "stop"), ({"stop": [1]}, "stop"),
    ({"stop": ""}, "stop"), ({"stop": ["x"] * 100}, "stop"), ({"seed": "x"}, "seed"), ({"seed": 1.5}, "seed"),
    ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logit_bias": {"5": 101}}, "logit_bias"), ({"logit_bias": [1]}, "logit_bias"),
    ({"logit_bias": {"999999": 1}}, "logit_bias"), ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"logprobs": 1}, "logprobs"), ({"frequency_penalty": 3}, "frequency_penalty"),
    ({"presence_penalty": -2.1}, "presence_penalty"), ({"stream": "yes"}, "stream"), ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"), ({"messages": [{"role": "user"}]}, "messages[0]"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0]"), ({"messages": [5]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[1]"),
    ({"stream_options": {"include_usage": True}}, "stream_options"), ({"stream": True, "stream_options": 1}, "stream_options"),
    ({"stream": True, "stream_options": {"what": 1}}, "stream_options"),
    ({"response_format": {"type": "yaml"}}, "response_format"), ({"model": 5}, "model"), ({"not_a_field": 1}, "not_a_field"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"), ({"tool_choice": "required"}, "tool_choice"),
    ({"functions": [{"name": "f"}]}, "functions"), ({"reasoning_effort": "high"}, "reasoning_effort"), ({"top_k": 1.5}, "top_k"),
    ({"top_k": -2}, "top_k"), ({"min_p": 2}, "min_p"), ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"min_tokens": -1}, "min_tokens"), ({"min_tokens": 9, "max_tokens": 3}, "min_tokens"), ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"stop_token_ids": [100000]}, "stop_token_ids"), ({"ignore_eos": 1}, "ignore_eos"), ({"cache_salt": "a\x00b"}, "cache_salt"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
]


@pytest.mark.parametrize("fields, param", BAD_CHAT, ids=[f"{p}-{i}" for i, (_, p) in enumerate(BAD_CHAT)])
def test_bad_chat_request(tiny, fields, param):
    status, r = tiny.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, **fields})
    assert status == 400, r
    e = r["error"]
    assert e["param"] == param and param.split("[")[0] in e["message"] and e["type"] == "invalid_request_error"
    assert set(e) == {"message", "type", "param", "code"} and "\n" not in e["message"]


BAD_COMPLETION = [
    ({"prompt": None}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": [1, "x"]}, "prompt"),
    ({"prompt": ["x", 1]}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [-1]}, "prompt"), ({"prompt": [512]}, "prompt"),
    ({"prompt": ["x"] * 257}, "prompt"), ({"suffix": "x"}, "suffix"), ({"logprobs": 21}, "logprobs"), ({"best_of": 3}, "best_of"),
    ({"logprobs": True}, "logprobs"), ({"echo": True, "logprobs": 1}, "echo"), ({"messages": HELLO}, "messages"),
]


@pytest.mark.parametrize("fields, param", BAD_COMPLETION, ids=[f"{p}-{i}" for i, (_, p) in enumerate(BAD_COMPLETION)])
def test_bad_completion_request(tiny, fields, param):
    status, r = tiny.post("/v1/completions", {"prompt": "x", "max_tokens": 2, **fields})
    assert status == 400 and r["error"]["param"] == param, r


def test_exception_classes(tiny):
    with pytest.raises(openai.BadRequestError) as e:
        chat(tiny, temperature=9)
    assert e.value.param == "temperature" and e.value.type == "invalid_request_error" and e.value.request_id
    with pytest.raises(openai.NotFoundError) as e:
        chat(tiny, model="gpt-4")
    assert e.value.param == "model" and e.value.code == "model_not_found" and "tiny" in str(e.value)
    with pytest.raises(openai.NotFoundError):
        tiny.client().images.generate(prompt="x")
    with pytest.raises(openai.BadRequestError):
        list(chat(tiny, temperature=9, stream=True))


def test_context_length(tiny):
    with pytest.raises(openai.BadRequestError) as e:
        chat(tiny, messages=[{"role": "user", "content": "a b c d e " * 400}])
    assert e.value.code == "context_length_exceeded"
    assert "512" in str(e.value) and sum(w.strip(".,;").isdigit() for w in str(e.value).split()) >= 2
    fits = [7] * 511
    assert complete(tiny, prompt=fits, max_tokens=50).usage.completion_tokens == 1
    with pytest.raises(openai.BadRequestError):
        complete(tiny, prompt=[7] * 512)


def test_methods_and_routes(tiny):
    status, head, data = tiny.request("GET", "/v1/chat/completions")
    assert status == 405 and head["allow"] == "POST" and json.loads(data)["error"]["code"] == "method_not_allowed"
    for method in ("POST", "DELETE", "PUT"):
        status, head, data = tiny.request(method, "/v1/models", "{}")
        assert status == 405 and "GET" in head["allow"] and json.loads(data)["error"]["message"]
    for path in ("/nope", "/v1", "/v1/chat", "/v1/chat/completions/", "//", "/v1/images/generations"):
        status, _, data = tiny.request("POST", path, "{}")
        assert status == 404 and json.loads(data)["error"]["type"] == "not_found_error"


def test_ignored_openai_fields(tiny):
    plain = chat(tiny).choices[0].message.content
    r = chat(tiny, user="u", metadata={"a": "b"}, store=False, service_tier="auto", safety_identifier="s",
             prompt_cache_key="k", parallel_tool_calls=True, response_format={"type": "text"}, modalities=["text"],
             tool_choice="none", tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    assert r.choices[0].message.content == plain


def test_null_is_absent(tiny):
    fields = ["temperature", "top_p", "n", "stop", "seed", "logit_bias", "logprobs", "top_logprobs", "user", "tools",
              "stream_options", "response_format", "max_completion_tokens", "stream", "top_k", "functions"]
    status, r = tiny.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 2, **{f: None for f in fields}})
    assert status == 200, r


def test_lenient_fields(serve):
    s = serve(TINY, "--lenient-fields")
    body = {"messages": HELLO, "max_tokens": 2, "future": 1, "other": [], "stream": True, "stream_options": {"x": 1}}
    status, head, _ = s.request("POST", "/v1/chat/completions", body)
    assert status == 200 and head["x-fornax-ignored-fields"] == "future, other, x"
    hostile = {f"a\r\nSet-Cookie: x{i}": 1 for i in range(500)}
    status, head, _ = s.request("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, **hostile})
    assert status == 200 and "set-cookie" not in head and len(head["x-fornax-ignored-fields"]) < 1000
    assert s.request("POST", "/v1/completions", {"prompt": "x", "n": "many"})[0] == 400


def test_full_queue_is_429(serve, smol_path, background):
    s = serve(smol_path, "--max-batch", "1", "--queue", "1", "--name", "smol")
    stop = threading.Event()

    def hold():
        with s.client().chat.completions.create(model="smol", messages=HELLO, stream=True,
                                                extra_body={"ignore_eos": True}) as r:
            for _ in r:
                if stop.is_set():
                    return

    background(hold)
    assert until(lambda: s.health()["running"] == 1)
    waiting = background(lambda: s.post("/v1/completions", {"prompt": "x", "max_tokens": 1}))
    assert until(lambda: s.health()["waiting"] == 1)
    with pytest.raises(openai.RateLimitError) as e:
        s.client().completions.create(model="smol", prompt="x")
    assert int(e.value.response.headers["retry-after"]) >= 1 and e.value.code == "queue_full"
    assert s.metric("requests_rejected_total") == 1
    stop.set()
    waiting.join(60)
    assert s.quiet()


# ---- Many at once, and clients that leave ------------------------------------------------------------------


@pytest.mark.parametrize("count", [12])
def test_concurrent_streams_equal_solo(server, count):
    ask = lambda i: dict(messages=[{"role": "user", "content": f"{i}: tell me about city number {i}"}], max_tokens=16,  # noqa: E731
                         temperature=[0, 1][i % 2], seed=i)
    solo = [chat(server, **ask(i)).choices[0].message.content for i in range(count)]
    got = [None] * count

    def run(i):
        got[i] = text_of(chat(server, stream=True, **ask(i)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == solo


ENDLESS = {"messages": HELLO, "ignore_eos": True, "temperature": 1}


def send_raw(s, body, path="/v1/chat/completions"):
    data = json.dumps(body).encode()
    c = s.connect()
    c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
              (path.encode(), len(data)) + data)
    return c


def cancelled_after(s, connection, seconds=90):
    before = s.metric("requests_cancelled_total")
    connection.close()
    assert until(lambda: s.metric("requests_cancelled_total") > before, seconds), s.metrics()
    assert s.quiet(seconds)


def test_client_leaves_a_stream(smol):
    c = send_raw(smol, {**ENDLESS, "stream": True})
    assert c.recv(10)
    cancelled_after(smol, c)


def test_client_leaves_while_not_streaming(smol):
    c = send_raw(smol, ENDLESS)
    assert until(lambda: smol.health()["running"] >= 1)
    cancelled_after(smol, c)


def test_client_leaves_in_prefill(smol):
    words = (LONG_TEXT * 400).split()[:5000]
    c = send_raw(smol, {"prompt": f"{time.time()} " + " ".join(words), "max_tokens": 5}, "/v1/completions")
    assert until(lambda: smol.health()["running"] >= 1)
    cancelled_after(smol, c)


def test_client_leaves_the_queue(serve, smol_path):
    s = serve(smol_path, "--max-batch", "1")
    first = send_raw(s, {**ENDLESS, "stream": True})
    assert first.recv(10)
    second = send_raw(s, {"messages": HELLO, "max_tokens": 2})
    assert until(lambda: s.health()["waiting"] == 1)
    before = s.metric("requests_cancelled_total")
    second.close()
    assert until(lambda: s.health()["waiting"] == 0)
    assert s.metric("requests_cancelled_total") == before + 1 and s.health()["running"] == 1
    cancelled_after(s, first)


def test_openai_client_closes_a_stream(smol):
    before = smol.metric("requests_cancelled_total")
    r = chat(smol, stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    next(iter(r))
    r.close()
    assert until(lambda: smol.metric("requests_cancelled_total") > before)
    assert smol.quiet()


def test_slow_reader_gets_everything(smol):
    """A client that reads nothing for a while loses nothing."""
    body = {"messages": HELLO, "max_tokens": 60, "ignore_eos": True, "temperature": 0, "stream": True}
    whole = smol.post("/v1/chat/completions", {**body, "stream": False})[1]["choices"][0]["message"]["content"]
    c = send_raw(smol, {**body})
    time.sleep(3)
    c.settimeout(60)
    data = b""
    while b"[DONE]" not in data:
        data += c.recv(50)
    c.close()
    # chunked framing stands between events, never within one that was sent whole
    events = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: {")]
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events) == whole


def test_two_servers_at_once(tiny, serve):
    other = serve(TINY_QWEN, "--name", "q", "--port", "0")
    assert other.port != tiny.port
    alone = complete(tiny).choices[0].text
    other.name_in_api = "q"
    results = []
    threads = [threading.Thread(target=lambda s=s: results.append((s, complete(s).choices[0].text)))
               for s in (tiny, other) * 3]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {text for s, text in results if s is tiny} == {alone}
    assert len({text for s, text in results if s is other}) == 1


def test_term_while_streaming(serve, smol_path):
    """Streams in progress end with an error event, not with what looks like a finished reply."""
    s = serve(smol_path, "--name", "smol")
    s.name_in_api = "smol"
    r = chat(s, stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
    got = [next(r)]
    s.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError) as e:
        got += list(r)
    assert "shutting down" in str(e.value)
    assert all(c.choices[0].finish_reason is None for c in got)
    assert s.process.wait(30) == 0


def test_term_lets_a_short_reply_finish(serve, smol_path):
    s = serve(smol_path, "--name", "smol")
    s.name_in_api = "smol"
    r = chat(s, stream=True, max_tokens=20, extra_body={"ignore_eos": True})
    got = [next(r)]
    s.process.send_signal(signal.SIGTERM)
    got += list(r)
    assert got[-1].choices[0].finish_reason == "length" and s.process.wait(30) == 0


def test_term_while_waiting(serve, smol_path):
    s = serve(smol_path)
    c = send_raw(s, ENDLESS)
    assert until(lambda: s.health()["running"] == 1)
    s.process.send_signal(signal.SIGTERM)
    c.settimeout(30)
    answer = b"".join(iter(lambda: c.recv(4096), b""))
    assert b" 503 " in answer.split(b"\r\n")[0] and b"shutting_down" in answer
    assert s.process.wait(30) == 0
    c.close()


# ---- What watches it -------------------------------------------------------------------------------------------


def test_metrics_count(serve):
    s = serve(TINY)
    s.name_in_api = None
    for i in range(3):
        assert s.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": True})[0] == 200
    s.post("/v1/completions", {"prompt": 5})
    m = s.metrics()
    assert m["fornax_requests_total"] == m["fornax_requests_done_total"] == 3
    assert m["fornax_prompt_tokens_total"] == 9 and m["fornax_generated_tokens_total"] == 12
    assert m['fornax_http_responses_total{status="4xx"}'] == 1 and m['fornax_http_responses_total{status="2xx"}'] >= 3
    assert m["fornax_steps_total"] > 0
    for name in ("fornax_time_to_first_token_seconds", "fornax_request_seconds"):
        buckets = [v for k, v in m.items() if k.startswith(name + "_bucket")]
        assert len(buckets) == 13 and buckets == sorted(buckets) and buckets[-1] == m[name + "_count"] == 3
        assert m[name + "_sum"] > 0


def test_health_shows_progress(smol):
    c = send_raw(smol, {**ENDLESS, "stream": True})
    assert c.recv(10)
    assert until(lambda: smol.health()["running"] == 1, 10)
    a = smol.health()
    assert until(lambda: smol.health()["steps"] > a["steps"], 10)
    cancelled_after(smol, c)


def test_idle_costs_nothing(smol):
    def ticks():
        fields = open(f"/proc/{smol.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])            # user and system time, in 1/100 s

    chat(smol)
    time.sleep(1)
    before = ticks()
    time.sleep(4)
    assert ticks() - before <= 4                            # 1 % at most
