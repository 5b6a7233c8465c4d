"""Malformed and malicious HTTP: the server stays up, other clients notice nothing, and every answer the
server makes is an error object. A witness streams all the while and compares with its undisturbed run."""
import json
import random
import socket
import struct
import threading
import time

import pytest

from conftest import TINY, Server, until

BODY = json.dumps({"prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True, "temperature": 0}).encode()
STREAM = {"prompt": [9, 8, 7], "max_tokens": 120, "ignore_eos": True, "temperature": 1, "seed": 4, "stream": True}


def post(body, path=b"/v1/completions", extra=b"", length=None):
    n = len(body) if length is None else length
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" % (path, n, extra) + body


def stream_once(s):
    """The text of the witness's request, and whether its stream had the right form."""
    status, _, data = s.request("POST", "/v1/completions", STREAM, {"Content-Type": "application/json"})
    events = data.decode().split("\n\n")
    whole = status == 200 and events[-2:] == ["data: [DONE]", ""]
    return "".join(json.loads(e[6:])["choices"][0]["text"] for e in events[:-2]) if whole else f"status {status}"


class Witness:
    def __init__(self, s):
        self.s, self.expected, self.runs, self.wrong, self.over = s, stream_once(s), 0, [], False
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.over:
            try:
                got = stream_once(self.s)
            except Exception as e:                          # noqa: BLE001
                got = repr(e)
            if got != self.expected:
                self.wrong.append(got)
            self.runs += 1
            time.sleep(0.02)


@pytest.fixture(scope="module")
def attacked():
    s = Server(TINY, "--max-body-mib", "1", "--timeout", "3")
    s.witness = Witness(s)
    yield s
    s.witness.over = True
    s.witness.thread.join(60)
    s.end()


@pytest.fixture
def victim(attacked):
    yield attacked
    runs = attacked.witness.runs
    assert until(lambda: attacked.witness.runs >= runs + 2), "the witness is stuck"
    assert attacked.witness.wrong == []
    assert attacked.alive()


def talk(s, data, timeout=10, shut=False):
    """Sends bytes; what comes back until the server closes or is silent for a second."""
    c = s.connect()
    out = b""
    try:
        c.settimeout(timeout)
        c.sendall(data)
        if shut:
            c.shutdown(socket.SHUT_WR)
        c.settimeout(1)
        while piece := c.recv(65536):
            out += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        c.close()
    return out


def read_answer(f):
    """One answer of a kept connection: status, headers, body."""
    status = f.readline()
    assert status.startswith(b"HTTP/1.1 "), status
    head = {}
    while (line := f.readline().strip()):
        k, v = line.split(b":", 1)
        head[k.strip().lower().decode()] = v.strip().decode()
    if head.get("transfer-encoding") == "chunked":
        body = b""
        while (n := int(f.readline(), 16)):
            body += f.read(n)
            f.readline()
        f.readline()
    else:
        body = f.read(int(head.get("content-length", 0)))
    return int(status.split()[1]), head, body


def error_of(body):
    e = json.loads(body)["error"]
    assert set(e) == {"message", "type", "param", "code"} and e["message"] and "\n" not in e["message"]
    return e


# ---- Below HTTP ---------------------------------------------------------------------------------


def test_garbage(victim):
    r = random.Random(1)
    for n in (1, 10, 100, 1000, 10000, 100000):
        talk(victim, bytes(r.randrange(256) for _ in range(n)))
    talk(victim, b"\x00" * 5000)
    talk(victim, b"\r\n" * 5000)
    talk(victim, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")          # the begin of a TLS handshake
    talk(victim, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


@pytest.mark.parametrize("line", [
    b"", b"GET", b"GET /", b"GET / HTTP", b"GET / HTTP/9.9", b"GET / HTTP/1.1 extra", b"/ GET HTTP/1.1", b"GET  /  HTTP/1.1",
    b"G\x00T / HTTP/1.1", b"GET /\x00 HTTP/1.1", b"GET /%00 HTTP/1.1", b"GET /%zz HTTP/1.1", b"GET http://x/ HTTP/1.1",
    b"GET /../../etc/passwd HTTP/1.1", b"GET /v1/models/..%2f..%2fetc HTTP/1.1", b"GET /?" + b"a" * 5000 + b" HTTP/1.1",
    b"GET /" + b"a" * 200000 + b" HTTP/1.1", b"A" * 200000, b"GET /\xff\xfe HTTP/1.1", b"GET /v1/models/%ff%0d%0aX HTTP/1.1",
    b"CONNECT x:80 HTTP/1.1", b"TRACE / HTTP/1.1", b"OPTIONS * HTTP/1.1", b"BREW /pot HTTP/1.1", b"get / HTTP/1.1",
], ids=range(25))
def test_request_lines(victim, line):
    out = talk(victim, line + b"\r\nHost: x\r\n\r\n")
    assert out == b"" or out.startswith(b"HTTP/1.1 ") or out.startswith(b"HTTP/1.0 ")
    assert b"root:" not in out
    if b"application/json" in out and b"HTTP/1.1 200" not in out:
        error_of(out.split(b"\r\n\r\n", 1)[1])


@pytest.mark.parametrize("headers", [
    b"A: " + b"b" * 100000, b"\r\n".join(b"H%d: x" % i for i in range(5000)), b"no colon here", b": empty name", b"A : space",
    b"A: b\r\n folded", b"A:\x00b", b"A: \xff\xfe", b"Content-Length: -1", b"Content-Length: 99999999999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 0x10", b"Content-Length: 5, 5", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Connection: upgrade\r\nUpgrade: websocket", b"Expect: nonsense",
    b"Range: bytes=0-10", b"Content-Encoding: gzip", b"Host: a\r\nHost: b",
], ids=range(20))
def test_headers(victim, headers):
    out = talk(victim, b"POST /v1/completions HTTP/1.1\r\n" + headers + b"\r\n\r\n" + BODY)
    assert out == b"" or out.startswith(b"HTTP/1.1 ")


def test_length_too_long_and_too_short(victim):
    assert talk(victim, post(BODY, length=len(BODY) + 100), shut=True) == b""
    out = talk(victim, post(BODY, length=len(BODY) - 10))
    assert b" 400 " in out.split(b"\r\n")[0]
    assert "JSON" in out.decode() or "line 1" in out.decode()


def test_truncated_everywhere(victim):
    whole = post(BODY)
    for n in range(0, len(whole), 7):
        c = victim.connect()
        c.sendall(whole[:n])
        c.close()
    for n in range(0, len(whole), 29):
        c = victim.connect()
        c.sendall(whole[:n])
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))      # reset, not a farewell
        c.close()
    assert victim.quiet()


def test_bytes_one_by_one(victim):
    c = victim.connect()
    for b in post(BODY):
        c.send(bytes([b]))
    status, _, body = read_answer(c.makefile("rb"))
    assert status == 200 and json.loads(body)["usage"]["completion_tokens"] == 2
    c.close()


def test_slow_loris(victim):
    """Trickling clients lose their connection, and take nobody else's."""
    slow = [victim.connect() for _ in range(200)]
    for c in slow:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
    start, open_ = time.monotonic(), set(slow)
    while open_ and time.monotonic() < start + 20:
        for c in list(open_):
            try:
                c.send(b"X-A: b\r\n")
            except OSError:
                open_.discard(c)
        assert victim.post("/v1/completions", json.loads(BODY))[0] == 200
        time.sleep(0.5)
    assert not open_ and time.monotonic() - start >= 2.5
    for c in slow:
        c.close()


def memory(s):
    return next(int(line.split()[1]) for line in open(f"/proc/{s.process.pid}/status") if line.startswith("VmRSS"))


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nX: ", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"])
def test_headers_without_end_are_cut(victim, head):
    """Bytes without a line end, 64 MiB of them on each of eight connections: refused after some KiB, and nothing is kept."""
    talk(victim, post(BODY))
    before, answers, lock = memory(victim), [], threading.Lock()

    def pour():
        c = victim.connect()
        got, sent = b"", 0
        try:
            c.sendall(head)
            while sent < 64 << 20:
                sent += c.send(b"A" * 65536)
        except OSError:
            pass
        try:
            c.settimeout(5)
            while piece := c.recv(65536):
                got += piece
        except OSError:
            pass
        c.close()
        with lock:
            answers.append((sent, got))

    threads = [threading.Thread(target=pour) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(answers) == 8
    for sent, got in answers:
        assert sent < 32 << 20                      # what socket buffers take in before the end shows
        assert got == b"" or int(got.split()[1]) in (400, 413, 414, 431), got[:200]
    assert memory(victim) - before < 16 << 10       # KiB


def test_a_byte_now_and_then_is_not_enough(victim):
    """Two hundred clients that send a byte every second lose their connections; others are served meanwhile."""
    slow, start = [victim.connect() for _ in range(200)], time.monotonic()
    open_ = set(slow)
    while open_ and time.monotonic() < start + 25:
        for c in list(open_):
            try:
                c.send(b"G")
            except OSError:
                open_.discard(c)
        asked = time.monotonic()
        assert victim.post("/v1/completions", json.loads(BODY))[0] == 200 and time.monotonic() - asked < 5
        time.sleep(1)
    assert not open_
    for c in slow:
        c.close()


def test_slow_body_loses_its_connection(victim):
    c = victim.connect()
    c.sendall(post(b"", length=100000))
    start = time.monotonic()
    with pytest.raises(OSError):
        while time.monotonic() < start + 20:
            c.send(b" ")
            time.sleep(0.2)
    c.close()


def test_idle_connections_are_closed(victim):
    c = victim.connect()
    c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    f = c.makefile("rb")
    assert read_answer(f)[0] == 200
    start = time.monotonic()
    c.settimeout(15)
    assert f.read(1) == b"" and time.monotonic() - start > 1.5
    c.close()


# ---- Bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [(1 << 20) + 1, 3 << 19])
def test_too_large(victim, n):
    status, head, body = victim.request("POST", "/v1/completions", b" " * n)
    assert status == 413 and error_of(body)["code"] == "request_too_large" and "1048576" in error_of(body)["message"]


EXPECT = b"Expect: 100-continue\r\n"


@pytest.mark.parametrize("request_, status", [
    (post(b"", length=1 << 30, extra=EXPECT), 413), (post(b"", length=(1 << 20) + 1, extra=EXPECT), 413),
    (post(b"", path=b"/nope", length=10, extra=EXPECT), 404), (post(b"", path=b"/health", length=10, extra=EXPECT), 405),
    (post(b"", path=b"/v1/chat/completions", length=999999999, extra=EXPECT), 413),
], ids=range(5))
def test_a_client_that_asks_first_is_refused_at_once(victim, request_, status):
    """The final answer instead of an invitation, and then the end: what follows on this connection isn't a request."""
    c = victim.connect()
    c.settimeout(10)
    start = time.monotonic()
    c.sendall(request_)
    out = b""
    while b"\r\n\r\n" not in out:
        out += c.recv(4096)
    assert time.monotonic() - start < 2
    assert out.startswith(b"HTTP/1.1 %d " % status) and b"100 Continue" not in out
    while piece := c.recv(4096):
        out += piece
    error_of(out.split(b"\r\n\r\n", 1)[1])
    c.close()


def test_a_client_that_asks_first_is_invited_at_once(victim):
    for _ in range(3):
        c = victim.connect()
        c.settimeout(10)
        start = time.monotonic()
        c.sendall(post(b"", length=len(BODY), extra=EXPECT))
        assert c.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        waited = time.monotonic() - start
        c.sendall(BODY)
        status, _, body = read_answer(c.makefile("rb"))
        assert status == 200 and json.loads(body)["usage"]["completion_tokens"] == 2
        assert waited < 0.5 and time.monotonic() - start < 5        # some ms; never curl's second
        c.close()


def test_endless_body_is_cut(victim):
    c = victim.connect()
    c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    sent = 0
    with pytest.raises(OSError):
        for _ in range(1000):
            c.sendall(piece)
            sent += 65536
    assert sent < 16 << 20
    c.close()


def test_largest_body_is_taken(victim):
    text = json.dumps({"prompt": [1, 2, 3], "max_tokens": 1, "user": ""})
    body = text[:-2] + "x" * ((1 << 20) - len(text)) + text[-2:]
    assert len(body) == 1 << 20
    assert victim.request("POST", "/v1/completions", body)[0] == 200


def chunked(*pieces, end=b"0\r\n\r\n"):
    return (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
            b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + end)


def test_chunked(victim):
    for pieces in ([BODY], [BODY[:5], BODY[5:]], [BODY[i:i + 1] for i in range(len(BODY))]):
        out = talk(victim, chunked(*pieces))
        assert b" 200 " in out.split(b"\r\n")[0]


@pytest.mark.parametrize("end", [b"zz\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"5\r\nab", b"0\r\nA: b\r\n\r\n", b"\r\n", b"1;ext=x\r\n \r\n0\r\n\r\n"])
def test_bad_chunks(victim, end):
    out = talk(victim, chunked(BODY[:9], end=end))
    assert out == b"" or out.startswith(b"HTTP/1.1 ")


DEEP = b"[" * 100000
BAD_JSON = [
    b"", b" ", b"{", b"}", b"null", b"5", b'"x"', b"[]", b"[1]", b"{}x", b'{"prompt": }', b"{'prompt': 'x'}", b'{"prompt": "x",}', b'{"a" 5}',
    b'{"prompt": NaN}', b'{"prompt": "x", "temperature": Infinity}', b'{"prompt": "x", "temperature": 1e999}', b'{"seed": 99999999999999999999999}',
    b'{"prompt": "\xff\xfe"}', b'{"prompt": "\xc0\x80"}', b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\\ud800"}', b'{"prompt": "\\u12"}',
    b'{"prompt": "a\nb"}', b'{"pro\\u0000mpt": 1}', b'\xef\xbb\xbf{"prompt": "x"}', b"\x00", b'{"prompt": "x"}\x00', DEEP, b'{"prompt": ' + DEEP,
    b'{"a":' * 3000 + b"1" + b"}" * 3000, b'{"prompt": "x", "prompt": "y"}', b'{"prompt": "x", "logit_bias": {"1": 1, "1": 2}}',
    b'{"prompt": "x", "stop": ' + b"[" * 1000 + b"]" * 1000 + b"}", b'{"prompt": ' + b"[" * 1000 + b"]" * 1000 + b"}",
    b"{" + b",".join(b'"f%d": 1' % i for i in range(10000)) + b"}", json.dumps({"x" * 50000: 1}).encode(),
    json.dumps({"prompt": "x", "stop": ["y" * 1000] * 300}).encode(), json.dumps({"prompt": [[1]] * 10000}).encode(),
    json.dumps({"prompt": "x", "logit_bias": {str(i): 200 for i in range(10000)}}).encode(), b'{"\xc3\xa9\\r\\nX: y": 1}',
    b'{"prompt": "x", "n": 1e300}', b'{"prompt": "x", "n": -0.0}', b'{"prompt": "x", "max_tokens": 9223372036854775807}',
    b'{"prompt": "x", "seed": -9223372036854775809}', b'{"prompt": "x", "top_k": 1e18}', b'{"prompt": [4294967297]}',
]


@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/chat/completions"])
@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
def test_bad_json(victim, path, body):
    out = talk(victim, post(body, path=path, extra=b"Connection: close\r\n"))
    head, _, answer = out.partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0] and b"application/json" in head, out[:300]
    error_of(answer)


def test_nul_in_text_is_text(victim):
    status, r = victim.post("/v1/completions", {"prompt": "a\x00b", "max_tokens": 1, "echo": True})
    assert status == 200 and r["choices"][0]["text"].startswith("a\x00b")
    status, r = victim.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a\x00b"}], "max_tokens": 1})
    assert status == 200


def test_deep_but_legal_json(victim):
    content = '{"a":' * 500 + "1" + "}" * 500
    status, r = victim.post("/v1/chat/completions", {"max_tokens": 1, "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": content}}]},
        {"role": "tool", "tool_call_id": "1", "content": "y"}]})
    assert status in (200, 400)


def test_many_messages(victim):
    status, r = victim.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}] * 5000})
    assert status == 400 and r["error"]["code"] == "context_length_exceeded"


def test_fuzzed_requests(victim):
    """A valid request with random bytes changed, cut and repeated."""
    r = random.Random(7)
    base = post(json.dumps({"messages": [{"role": "user", "content": "héllo"}], "max_tokens": 1, "stop": ["a", "b"],
                            "logit_bias": {"5": 1}, "stream": True}).encode(), path=b"/v1/chat/completions", extra=b"Connection: close\r\n")
    for _ in range(150):
        data = bytearray(base)
        for _ in range(r.randint(1, 6)):
            at = r.randrange(len(data))
            what = r.randrange(3)
            if what == 0:
                data[at] = r.randrange(256)
            elif what == 1:
                del data[at:at + r.randrange(20)]
            else:
                data[at:at] = data[at:at + r.randrange(40)]
        c = victim.connect()
        try:
            c.sendall(bytes(data))
            c.settimeout(0.05)
            c.recv(1000)
        except OSError:
            pass
        c.close()
    assert victim.quiet()


# ---- Connections ----------------------------------------------------------------------------------


def test_keep_alive(victim):
    c = victim.connect()
    f = c.makefile("rb")
    texts = set()
    for i in range(5):
        c.sendall(post(BODY))
        status, head, body = read_answer(f)
        assert status == 200
        texts.add(json.loads(body)["choices"][0]["text"])
        c.sendall(post(b"{}"))
        status, _, body = read_answer(f)
        assert status == 400 and error_of(body)["param"] == "prompt"
        c.sendall(b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(f)[0] == 404
        c.sendall(post(json.dumps({**STREAM, "max_tokens": 3}).encode()))
        status, head, body = read_answer(f)
        assert status == 200 and body.endswith(b"data: [DONE]\n\n")
    assert len(texts) == 1
    c.close()


def test_pipelined(victim):
    c = victim.connect()
    f = c.makefile("rb")
    c.sendall(post(BODY) + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + post(b"{") +
              post(json.dumps({**STREAM, "max_tokens": 3}).encode()) + post(BODY))
    answers = [read_answer(f) for _ in range(5)]
    assert [a[0] for a in answers] == [200, 200, 400, 200, 200]
    assert json.loads(answers[0][2])["choices"] == json.loads(answers[4][2])["choices"]
    c.close()


def test_http_1_0(victim):
    head = b"HTTP/1.0\r\nContent-Length: "
    out = talk(victim, b"POST /v1/completions " + head + b"%d\r\n\r\n" % len(BODY) + BODY)
    assert b" 200 " in out.split(b"\r\n")[0]
    body = json.dumps({**STREAM, "max_tokens": 3}).encode()
    out = talk(victim, b"POST /v1/completions " + head + b"%d\r\n\r\n" % len(body) + body)
    assert out.endswith(b"data: [DONE]\n\n") and b"chunked" not in out.lower().split(b"\r\n\r\n")[0]


def test_head(victim):
    c = victim.connect()
    f = c.makefile("rb")
    for path, status in ((b"/health", 200), (b"/", 200), (b"/metrics", 200), (b"/nope", 404), (b"/v1/completions", 405)):
        c.sendall(b"HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        line = f.readline()
        assert int(line.split()[1]) == status
        while f.readline().strip():
            pass
    c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_answer(f)[0] == 200                         # no body of a HEAD in between
    c.close()


def test_unknown_methods(victim):
    for method in ("OPTIONS", "TRACE", "PATCH", "PUT", "DELETE", "BREW", "get"):
        status, head, body = victim.request(method, "/v1/completions")
        assert status == 405 and head["allow"] == "POST" and error_of(body)


def test_half_close(victim):
    """A client that closes its sending side is gone as far as anyone can tell: nothing runs on for it, and it is told so."""
    out = talk(victim, post(json.dumps({**STREAM, "max_tokens": 400}).encode()), shut=True)
    assert out == b"" or out.startswith(b"HTTP/1.1 ")
    assert b"[DONE]" in out or b"cancel" in out or out == b""
    assert talk(victim, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", shut=True).startswith(b"HTTP/1.1 200")


def test_many_connections(victim):
    idle = [victim.connect() for _ in range(300)]
    assert victim.post("/v1/completions", json.loads(BODY))[0] == 200
    for c in idle:
        c.close()


def test_many_requests_at_once(victim):
    connections = [victim.connect() for _ in range(100)]
    for c in connections:
        c.sendall(post(BODY))
    seen = set()
    for c in connections:
        status, _, body = read_answer(c.makefile("rb"))
        assert status in (200, 429)
        if status == 200:
            seen.add(json.loads(body)["choices"][0]["text"])
        c.close()
    assert len(seen) == 1


def test_storm_of_leaving_clients(victim):
    body = json.dumps({**STREAM, "max_tokens": 500}).encode()
    for i in range(100):
        c = victim.connect()
        c.sendall(post(body))
        if i % 3 == 0:
            c.recv(10)
        if i % 2 == 0:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    assert victim.quiet()


def test_heavy_bodies_do_not_stop_others(victim):
    """Bodies that take long to read and tokenize run aside."""
    heavy = json.dumps({"prompt": "héllo wörld " * 70000, "max_tokens": 1}).encode()[:1 << 20]
    connections = [victim.connect() for _ in range(6)]
    for c in connections:
        c.sendall(post(heavy))
    slowest = 0
    for _ in range(10):
        start = time.monotonic()
        assert victim.health()["status"] == "ok"
        slowest = max(slowest, time.monotonic() - start)
    statuses = {read_answer(c.makefile("rb"))[0] for c in connections}
    assert 400 in statuses and statuses <= {400, 429}       # too long, or too many large ones at once
    for c in connections:
        c.close()
    assert slowest < 5


def test_out_of_descriptors(serve):
    """With none left requests are refused or wait; with some again all is well."""
    s = serve(TINY, "--timeout", "3", descriptors=60)
    connections = [s.connect() for _ in range(40)]
    for c in connections:
        c.sendall(post(json.dumps({**STREAM, "prompt": [[1, 2]] * 4, "max_tokens": 300}).encode()))
    seen = {int(read_answer(c.makefile("rb"))[0]) for c in connections[:20]}
    assert seen <= {200, 429, 500, 503}
    for c in connections:
        c.close()
    connections = [s.connect() for _ in range(100)]
    for c in connections:
        c.close()
    assert s.quiet() and s.post("/v1/completions", json.loads(BODY))[0] == 200


def test_unix_tools(victim):
    """HTTP/1.1 without a Host, bare line feeds: old scripts do that."""
    assert b" 200 " in talk(victim, b"GET /health HTTP/1.1\r\n\r\n").split(b"\r\n")[0]
    talk(victim, b"GET /health HTTP/1.1\nHost: x\n\n")
