"""Clients that go away, and a server that is told to: nothing runs on for nobody, nobody is cut off without a word. By raw sockets,
on a tiny model with a long context."""
import json
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import FORNAX, ROOT, until
from made_models import change, changed_copy, long_copy

CHAT, RAW = "/v1/chat/completions", "/v1/completions"
SHORT = {"prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}
ENDLESS = {"prompt": [9, 8, 7], "max_tokens": 100000, "ignore_eos": True, "temperature": 1}
LONG = {"prompt": [i % 400 for i in range(60000)], "max_tokens": 50}


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    return long_copy(tmp_path_factory.mktemp("long") / "m")


@pytest.fixture
def one(serve, long_model):
    """A server that runs one request at a time."""
    return serve(long_model, "--max-batch", "1", "--prefill-chunk", "256", "--kv-mib", "256", "--no-prefix-cache")


def send(s, body, path=RAW):
    data = json.dumps(body).encode()
    c = s.connect()
    c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return c


def reset(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()


def read_to_end(c, seconds=60):
    c.settimeout(seconds)
    return b"".join(iter(lambda: c.recv(65536), b""))


def running(s, n=1):
    assert until(lambda: s.health()["running"] == n, 30, 0.01)


def gone(s, before):
    """It was cancelled, nothing runs, and the next request is served at once."""
    assert until(lambda: s.metric("requests_cancelled_total") == before + 1, 10, 0.01)
    assert until(lambda: s.health()["running"] == 0, 10, 0.01)
    steps = s.health()["steps"]
    assert s.post(RAW, SHORT)[0] == 200
    assert s.health()["steps"] - steps < 10         # its own and no others


@pytest.mark.parametrize("leave", [reset, socket.socket.close])
@pytest.mark.parametrize("stream", [True, False])
def test_leaving_in_the_middle_of_an_answer(one, stream, leave):
    c = send(one, {**ENDLESS, "stream": stream})
    if stream:
        got = b""
        while got.count(b"data: ") < 3:
            got += c.recv(4096)
    running(one)
    assert until(lambda: one.health()["generated_tokens"] > 3, 30, 0.01)
    leave(c)
    gone(one, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_while_the_prompt_is_computed(one, stream):
    c = send(one, {**LONG, "stream": stream})
    assert until(lambda: one.health()["prefill_done"] > 0, 30, 0.01)
    reset(c)
    assert until(lambda: one.metric("requests_cancelled_total") == 1, 10, 0.01)
    m = one.metrics()
    assert m["fornax_generated_tokens_total"] == 0 and m["fornax_prompt_tokens_total"] == 0     # it never came to its end
    gone(one, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_leaving_the_queue(one, stream):
    first = send(one, {**ENDLESS, "stream": True})
    assert first.recv(10)
    second = send(one, {**LONG, "stream": stream})
    assert until(lambda: one.health()["waiting"] == 1, 30, 0.01)
    third = threading.Thread(target=lambda: one.post(RAW, SHORT))
    third.start()
    assert until(lambda: one.health()["waiting"] == 2, 30, 0.01)
    reset(second)
    assert until(lambda: one.health()["waiting"] == 1, 10, 0.01)
    assert one.metric("requests_cancelled_total") == 1 and one.health()["running"] == 1
    reset(first)
    third.join(20)
    assert not third.is_alive()
    m = one.metrics()
    assert m["fornax_prompt_tokens_total"] == 6                 # of the first and the third: the second's was never touched
    assert m["fornax_requests_cancelled_total"] == 2 and m["fornax_requests_done_total"] == 1


# ---- A server that is patient --------------------------------------------------------------------------


def test_streams_that_wait_get_comments(serve, long_model):
    """While nothing can be sent yet, something keeps the connection alive; and no other limit than the client's ends it."""
    s = serve(long_model, "--max-batch", "1", "--keep-alive", "1", "--timeout", "2")
    holder = send(s, {**ENDLESS, "stream": True})
    assert holder.recv(10)
    waits = send(s, {**SHORT, "stream": True})
    quiet = send(s, {**SHORT})
    assert until(lambda: s.health()["waiting"] == 2, 30)
    waits.settimeout(10)
    start, got = time.monotonic(), b""
    while got.count(b"\n: ") + got.count(b": still") < 3:
        got += waits.recv(4096)
    assert 2 < time.monotonic() - start < 8 and b" 200 " in got.split(b"\r\n")[0] and b"data:" not in got
    time.sleep(1)
    holder.close()
    while b"[DONE]" not in got:
        got += waits.recv(4096)
    assert b'"finish_reason": "length"' in got
    quiet.settimeout(10)
    assert b" 200 " in quiet.recv(4096).split(b"\r\n")[0]
    waits.close()
    quiet.close()


def test_the_openai_client_reads_over_comments(serve, long_model, background):
    pytest.importorskip("openai")
    s = serve(long_model, "--max-batch", "1", "--keep-alive", "1", "--name", "m")
    holder = send(s, {**ENDLESS, "stream": True})
    assert holder.recv(10)
    chunks = []
    asks = background(lambda: chunks.extend(s.client().completions.create(model="m", prompt=[1, 2, 3], max_tokens=4, stream=True,
                                                                          extra_body={"ignore_eos": True})))
    assert until(lambda: s.health()["waiting"] == 1, 30)
    time.sleep(2.5)
    holder.close()
    asks.join(20)
    assert chunks and chunks[-1].choices[0].finish_reason == "length" and all(c.choices for c in chunks)


def test_a_long_prompt_hides_nothing(serve, long_model):
    """Probes are answered at once while it is computed, and see how far it has come."""
    s = serve(long_model)
    c = send(s, LONG)
    assert until(lambda: s.health()["prefill_done"] > 0, 30, 0.01)
    seen, slowest = [], 0
    for _ in range(40):
        start = time.monotonic()
        h = s.health()
        for path in ("/metrics", "/v1/models"):
            assert s.request("GET", path)[0] == 200
        slowest = max(slowest, (time.monotonic() - start) / 3)
        assert h["status"] == "ok" and h["running"] == 1
        assert 0 < h["prefill_done"] < h["prefill_tokens"] == len(LONG["prompt"])
        seen.append(h["prefill_done"])
        time.sleep(0.1)
    assert seen == sorted(seen) and len(set(seen)) > 3
    assert slowest < 1                                          # some ms on a machine that isn't as busy as a test's
    reset(c)
    assert s.quiet()


# ---- Told to stop -----------------------------------------------------------------------------------------


def test_requests_of_every_kind_when_told_to_stop(serve, long_model):
    """What is short finishes, what isn't ends with an error that says why, what waits or comes is told that it won't be served."""
    s = serve(long_model, "--max-batch", "2", "--grace", "3", "--no-prefix-cache")
    kept = s.connect()
    endless = send(s, {**ENDLESS, "stream": True})
    whole = send(s, {**ENDLESS, "stream": False})
    assert endless.recv(10)
    running(s, 2)
    queued = send(s, {**SHORT, "stream": True})
    assert until(lambda: s.health()["waiting"] == 1)
    s.process.send_signal(signal.SIGTERM)
    late = json.dumps(SHORT).encode()
    assert until(lambda: s.request("GET", "/health")[0] == 503, 5, 0.02)         # no longer ready
    assert s.post(RAW, SHORT)[1]["error"]["code"] == "shutting_down"
    kept.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(late))
    refusal = read_to_end(kept)
    assert b" 503 " in refusal.split(b"\r\n")[0] and b"shutting_down" in refusal
    assert s.process.poll() is None
    out = read_to_end(endless)
    assert b"shutting down" in out and b"[DONE]" in out and b'"finish_reason": "' not in out
    for c in (whole, queued):
        out = read_to_end(c)
        assert b" 503 " in out.split(b"\r\n")[0] and b"shutting_down" in out
    assert s.process.wait(30) == 0
    with pytest.raises(OSError):
        s.connect()


def test_what_is_nearly_done_finishes(serve, long_model):
    s = serve(long_model, "--grace", "30")
    c = send(s, {**ENDLESS, "max_tokens": 300, "stream": True})
    assert c.recv(10)
    whole = send(s, {**ENDLESS, "max_tokens": 300})
    assert until(lambda: s.health()["running"] == 2 or s.metric("requests_done_total") > 0, 10, 0.01)
    start = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    out = read_to_end(c)
    assert b'"finish_reason": "length"' in out and b"[DONE]" in out
    assert b" 200 " in read_to_end(whole).split(b"\r\n")[0]
    assert s.process.wait(30) == 0 and time.monotonic() - start < 25         # not the whole grace time


@pytest.mark.parametrize("body", [ENDLESS, LONG])
def test_a_second_signal_ends_it_at_once(serve, long_model, body):
    s = serve(long_model, "--grace", "600")
    c = send(s, body)
    running(s)
    s.process.send_signal(signal.SIGTERM)
    assert until(lambda: s.request("GET", "/health")[0] == 503, 5, 0.02)
    start = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(30) == 130 and time.monotonic() - start < 5
    c.close()
    s.log.close()


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2, 0.4])
def test_told_to_stop_while_the_model_loads(smol_path, delay):
    p = subprocess.Popen([FORNAX, "serve", smol_path, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(delay)
    p.send_signal(signal.SIGTERM)
    out, errors = p.communicate(timeout=30)
    # before it could listen for signals, while it loaded, or when it already served
    assert p.returncode == (0 if b"is served" in out else 130) or p.returncode == -signal.SIGTERM and not out, (p.returncode, out, errors)
    assert b"Sanitizer" not in errors


def test_a_long_prompt_does_not_hold_up_the_end(serve, long_model):
    s = serve(long_model, "--grace", "1")
    c = send(s, LONG)
    assert until(lambda: s.health()["prefill_done"] > 0, 30, 0.01)
    start = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    assert b"shutting_down" in read_to_end(c)
    assert s.process.wait(60) == 0 and time.monotonic() - start < 30


# ---- Embeddings: many texts in one request ------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed") / "m"
    changed_copy(folder, str(ROOT / "tests/data/embed/nomic_bert"), max_position_embeddings=8192)
    change(folder, "sentence_bert_config.json", max_seq_length=8192)
    return str(folder)


MANY = {"input": ["a " * 4000] * 1000}


def test_leaving_embeddings_frees_the_server(serve, embedder):
    s = serve(embedder)
    clients = [send(s, MANY, "/v1/embeddings") for _ in range(4)]       # more than there are threads for them
    time.sleep(1)
    for c in clients:
        reset(c)
    start = time.monotonic()
    status, r = s.post("/v1/embeddings", {"input": "short"})
    assert status == 200 and len(r["data"]) == 1 and time.monotonic() - start < 30


def test_embeddings_do_not_hold_up_the_end(serve, embedder):
    s = serve(embedder, "--grace", "1")
    clients = [send(s, MANY, "/v1/embeddings") for _ in range(4)]
    time.sleep(1)
    start = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    for c in clients:
        out = read_to_end(c)
        assert b" 503 " in out.split(b"\r\n")[0] and b"shutting_down" in out
    assert s.process.wait(60) == 0 and time.monotonic() - start < 40
