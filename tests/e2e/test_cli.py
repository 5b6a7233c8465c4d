"""The program's commands: help, usage, errors, machine-readable output, the terminal chat."""
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import fcntl
import termios
import time

import pytest

from conftest import FORNAX, ROOT, TINY, TINY_QWEN, until

COMMANDS = ["serve", "chat", "generate", "tokenize", "template", "logits", "inspect", "encode", "bench", "quantize"]
TINY_GGUF = str(ROOT / "tests/data/format/tiny.gguf")
CONVERSATION = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|eot_id|> 🙂"}]}


def run(*args, data=b"", env=None, timeout=120, stdout=subprocess.PIPE):
    if isinstance(data, str):
        data = data.encode()
    p = subprocess.run([FORNAX, *map(str, args)], input=data, stdout=stdout, stderr=subprocess.PIPE, timeout=timeout,
                       env={**os.environ, **(env or {})})
    assert b"Sanitizer" not in p.stderr, p.stderr
    return p.returncode, (p.stdout or b"").decode(), p.stderr.decode()


def ok(*args, **options):
    status, out, err = run(*args, **options)
    assert status == 0, err
    return out


def one_sentence(err, command):
    assert err.startswith(f"fornax {command}: ") and err.endswith("\n") and err.count("\n") == 1, err


# ---- Help and usage -------------------------------------------------------------------------------


def test_overview():
    out = ok("--help")
    assert all(f"\n  {c} " in out for c in COMMANDS) and out == ok("help") == ok("-h")
    assert re.fullmatch(r"fornax \d+\.\d+\.\d+\n", ok("--version"))
    status, out, err = run()
    assert status == 2 and out == "" and "usage" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command):
    out = ok(command, "--help")
    assert out == ok(command, "-h") == ok("help", command) == ok(command, "whatever", "--help")
    assert out.startswith(f"fornax {command} - ") and f"usage: fornax {command} " in out
    assert f"\nexamples:\n" in out and f"fornax {command} " in out.split("examples:")[1]
    for line in out.split("usage:")[1].split("examples:")[0].splitlines()[2:]:
        assert not line or re.match(r"  (-\w, |    )--[\w-]+( [A-Z]+)? +\S", line), line


@pytest.mark.parametrize("args", [
    ["nonsense"], ["help", "nonsense"], ["serve"], ["serve", "a", "b"], ["serve", "m", "--nope"], ["serve", "m", "-Z"], ["serve", "m", "--port"],
    ["serve", "m", "--port", "x"], ["serve", "m", "--port", "70000"], ["serve", "m", "--port=-1"], ["serve", "m", "--lenient-fields=1"],
    ["serve", "m", "--queue", "-1"], ["generate"], ["generate", "m", "-p", "x", "-f", "y"], ["generate", "m", "--system", "x"],
    ["generate", "m", "--top-k", "9999999999"], ["generate", "m", "-n", "-5"], ["generate", "m", "--seed", "-1"], ["generate", "m", "--choices", "3"],
    ["generate", "m", "--choices", "0", "--json"], ["generate", "m", "--logprobs", "3"], ["generate", "m", "--logprobs", "21", "--json"],
    ["generate", "m", "-T", "hot"], ["generate", "m", "-T", "0x1"], ["generate", "m", "--chat", "--tokens", "1"], ["logits", "m"],
    ["logits", "m", "--text", "a", "--tokens", "1"], ["logits", "m", "--text", "a", "--positions", "some"], ["logits", "m", "--text", "a", "--top", "0"],
    ["tokenize"], ["tokenize", "m", "--decode", "1", "--text", "x"], ["bench", "m", "--gen", "0"], ["bench", "m", "--repeat", "100"],
    ["chat", "m", "--top-k", "-1"], ["inspect"], ["template"], ["generate", "m"] + ["--stop", "x"] * 65,
], ids=lambda a: " ".join(a)[:40])
def test_wrong_usage(args):
    status, out, err = run(*args)
    assert status == 2 and out == ""
    assert err.startswith("fornax") and err.count("\n") == 2 and "--help'" in err.splitlines()[1]


# Options with a number or one of a few words: values below, above and of another kind. Every command that has
# the option refuses them, before it looks for the model where it can, and names the option as it was typed.
REFUSED = {
    "--threads": ["-1", "1025", "100000", "1.5", "x", ""], "-t": ["100000", "-1"], "--ctx": ["-1", "2147483648", "x"], "-c": ["-4", "99999999999"],
    "--dtype": ["int8", "F32", ""], "--kv-dtype": ["q1", "i8", "INT8", ""], "--temperature": ["-0.1", "1e300", "nan", "inf", "0x1"], "-T": ["-1", "hot"],
    "--top-k": ["-1", "2147483648", "0.5"], "--top-p": ["-0.1", "1.5", "nan"], "--min-p": ["-1", "2", "x"],
    "--repetition-penalty": ["-1", "1e300"], "--frequency-penalty": ["-2.1", "3"], "--presence-penalty": ["-3", "2.1", "x"],
    "--seed": ["-1", "18446744073709551616", "1.5"], "-s": ["x"], "--max-tokens": ["-1", "2147483648"], "-n": ["-5", "1e3"],
    "--min-tokens": ["-1", "2147483648"], "--logprobs": ["-2", "21"], "--choices": ["0", "129"], "--top": ["0", "1001"], "--positions": ["some", ""],
    "--prompt": ["0", "x"], "-p": ["-1"], "--gen": ["1", "2147483648"], "-g": ["0"], "--batch": ["0", "1025"], "-b": ["-1"], "--fill": ["0", "2147483648"], "--repeat": ["0", "65"], "-r": ["100"],
    "--dimensions": ["-1", "2147483648"], "--port": ["-1", "65536", "x"], "--max-batch": ["-1", "4097"], "--step-tokens": ["-1", "65537"],
    "--prefill-chunk": ["-1", "65537"], "--queue": ["-1", "1048577"], "--kv-mib": ["-1", "16777217"], "--max-body-mib": ["-1", "4097"],
    "--timeout": ["-1", "86401", "1h"], "--keep-alive": ["-1", "86401"], "--grace": ["-1", "86401"], "--type": ["q9_9", "", "auto"], "--cache-mib": ["0", "-1", "2147483648", "x"],
}
WORDS = {"--dtype", "--kv-dtype", "--positions", "--type"}      # the library's to refuse: some model must be named
NEEDED = {"logits": ["--text", "x"], "quantize": ["--type", "q8_0"]}
OPERANDS = {"quantize": [TINY_GGUF, "/nonexistent/out.gguf"], "encode": [TINY]}


def options_of(command):
    """Options of a command that take a number or a word, as its help lists them."""
    found = re.findall(r"^  (?:(-\w), |    )(--[\w-]+) (N|X|SECONDS|T|P) ", ok(command, "--help"), re.M)
    return [o for letter, name, _ in found for o in (letter, name) if o]


@pytest.mark.parametrize("command", COMMANDS)
def test_values_of_options_are_refused(command):
    options = options_of(command)
    assert command in ("tokenize", "template", "inspect") or options
    for option in options:
        values = REFUSED.get(option) or pytest.fail(f"no values for {option} of {command}")
        if command == "quantize" and option == "-t":
            values = REFUSED["--type"]
        operands = OPERANDS.get(command, [TINY if option in WORDS else "/nonexistent/m.gguf"])
        needed = [] if option in ("--type", "-t") else NEEDED.get(command, [])
        for value in values:
            status, out, err = run(command, *operands, *needed, option, value)
            assert status == 2 and out == "", (option, value, status, err)
            assert err.startswith(f"fornax {command}: {option}: ") and err.count("\n") == 2, (option, value, err)


@pytest.mark.parametrize("args, start", [
    (["generate", TINY, "-p", "x", "-c", "9999"], "-c: expected at most the model's 512, found 9999"),
    (["generate", TINY, "-p", "x", "--ctx=9999"], "--ctx: expected at most the model's 512, found 9999"),
    (["generate", TINY, "-p", "x", "-c9999"], "-c: expected at most"), (["generate", TINY, "-p", "x", "-t-3"], "-t: expected 0 to 1024"),
    (["generate", TINY, "-p", "x", "--threads=-3"], "--threads: expected 0 to 1024, found -3"),
    (["bench", TINY, "--ppl", "/nonexistent", "-c", "2"], "-c: expected at least 4"), (["generate", TINY, "-t"], "-t: a value must follow"),
    (["serve", TINY, "--kv-mib", "16777216", "--port", "0"], "--kv-mib: "), (["chat", TINY, "-T", "-1"], "-T: expected 0 or more"),
    (["serve", TINY, "--host", "no such host"], "--host: no such host"),
], ids=lambda a: " ".join(a)[:40] if isinstance(a, list) else "")
def test_options_are_named_as_typed(args, start):
    status, out, err = run(*args)
    assert status == 2 and out == "" and err.startswith(f"fornax {args[0]}: {start}"), err


@pytest.mark.parametrize("ids", ["1,,2", "1,", ",1", "x", "-1", "1 2", "99999999999", "1,2.5"])
def test_wrong_ids(ids):
    for args in (["generate", TINY, "--tokens", ids], ["tokenize", TINY, "--decode", ids], ["logits", TINY, "--tokens", ids]):
        status, out, err = run(*args)
        assert status == 2 and out == "" and ("--tokens" in err or "--decode" in err), err


@pytest.mark.parametrize("args, names", [
    (["generate", "/nonexistent/m.gguf", "-p", "x"], "/nonexistent/m.gguf"), (["serve", "/nonexistent/m.gguf"], "/nonexistent"),
    (["chat", "/nonexistent"], "/nonexistent"), (["inspect", "/nonexistent"], "/nonexistent"), (["tokenize", "/nonexistent"], "/nonexistent"),
    (["template", "/nonexistent"], "/nonexistent"), (["logits", "/nonexistent", "--text", "x"], "/nonexistent"), (["bench", "/nonexistent"], "/nonexistent"),
    (["inspect", "/dev/null"], "/dev/null"), (["generate", FORNAX, "-p", "x"], "fornax"), (["generate", TINY, "-f", "/nonexistent"], "/nonexistent"),
    (["generate", TINY, "-p", "x", "--chat-template", "/nonexistent"], "/nonexistent"), (["generate", TINY, "--tokens", "512"], "512"), (["generate", TINY, "--tokens", ""], "empty"),
    (["logits", TINY, "--tokens", "600"], "600"),
    (["tokenize", TINY, "--decode", "600"], "600"), (["serve", TINY, "--host", "192.0.2.1", "--port", "0"], "192.0.2.1"),
    (["generate", TINY, "-p", "a " * 3000], "512"),
], ids=lambda a: " ".join(a)[:50] if isinstance(a, list) else "")
def test_errors_are_one_sentence(args, names):
    status, out, err = run(*args)
    assert status == 1, (status, err)
    one_sentence(err, args[0])
    assert names in err


def test_port_in_use(tiny):
    status, _, err = run("serve", TINY, "--port", tiny.port)
    assert status == 1 and str(tiny.port) in err
    one_sentence(err, "serve")


def test_cut_model(tmp_path):
    data = open(TINY_GGUF, "rb").read()
    path = tmp_path / "cut.gguf"
    for n in (3, 20, 100, len(data) // 2):
        path.write_bytes(data[:n])
        for command in (["inspect", path], ["generate", path, "-p", "x"], ["tokenize", path, "--text", "x"]):
            status, out, err = run(*command)
            assert status == 1 and out == "", (n, command, err)
            one_sentence(err, command[0])


@pytest.mark.parametrize("args", [
    ["--help"], ["--version"], ["serve", "--help"], ["tokenize", TINY, "--text", "x"], ["generate", TINY, "-p", "x", "-n", "3"],
    ["generate", TINY, "-p", "x", "-n", "3", "--json"], ["inspect", TINY, "--json"], ["logits", TINY, "--text", "x", "--json"],
    ["template", TINY], ["chat", TINY, "-n", "3"],
], ids=lambda a: " ".join(a[:1] + a[2:]))
def test_full_disk_and_closed_pipe(args):
    data = json.dumps(CONVERSATION) if args[0] == "template" else "Hello\n"
    with open("/dev/full", "w") as full:
        status, _, err = run(*args, data=data, stdout=full)
    assert status == 1 and "standard output" in err and "write error" in err, (status, err)
    reader, writer = os.pipe()
    os.close(reader)
    status, _, err = run(*args, data=data, stdout=writer)
    os.close(writer)
    assert status == 1 and "standard output" in err


def test_reader_that_leaves_ends_the_work(smol_path):
    p = subprocess.Popen([FORNAX, "generate", smol_path, "-p", "Once", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(5)
    p.stdout.close()
    assert p.wait(30) == 1
    p.stderr.close()


# ---- tokenize, template, inspect, logits -----------------------------------------------------------


@pytest.mark.parametrize("model", [TINY, TINY_QWEN])
@pytest.mark.parametrize("text", ["", "Hello world", "  two  blanks\n\n\ttab", "Zürich 東京 🙂👩‍👩‍👧", "a\x00b", "1234567 3.14", "x" * 3000, "it's we'll\r\n"])
def test_tokenize_round_trip(model, text):
    ids = json.loads(ok("tokenize", model, "--json", "--no-add", data=text))["ids"]
    assert ok("tokenize", model, "--no-add", data=text).split() == [str(i) for i in ids]
    joined = ",".join(map(str, ids))
    assert ok("tokenize", model, "--decode", joined) == text
    assert json.loads(ok("tokenize", model, "--decode", joined, "--json"))["text"] == text


def test_tokenize_forms():
    plain = ok("tokenize", TINY, "--text", "Hello <|eot_id|>").split()
    forms = json.loads(ok("tokenize", TINY, "--text", "Hello <|eot_id|>", "--json", "--pieces"))
    assert [str(i) for i in forms["ids"]] == plain and forms["pieces"][-1] == "<|eot_id|>"
    lines = ok("tokenize", TINY, "--text", "Hello <|eot_id|>", "--pieces").splitlines()
    assert [line.split("\t")[0] for line in lines] == plain and lines[-1].endswith('"<|eot_id|>"')
    assert len(ok("tokenize", TINY, "--text", "Hello <|eot_id|>", "--no-special").split()) > len(plain)
    bare = ok("tokenize", TINY, "--text", "Hello", "--no-add").split()
    assert ok("tokenize", TINY, "--text", "Hello").split()[-len(bare):] == bare
    assert ok("tokenize", TINY, "--decode", ",".join(plain), "--no-special").strip() == "Hello"


def test_template():
    text = ok("template", TINY, data=json.dumps(CONVERSATION))
    assert "Be brief." in text and "<|eot_id|> 🙂" in text and text.endswith("assistant<|end_header_id|>\n\n")
    both = json.loads(ok("template", TINY, "--json", data=json.dumps(CONVERSATION)))
    assert both["text"] == text
    assert ok("template", TINY, "--ids", data=json.dumps(CONVERSATION)).split() == [str(i) for i in both["ids"]]
    special = json.loads(ok("tokenize", TINY, "--json", "--no-add", data=text))["ids"]
    assert len(both["ids"]) > len(special)              # what a user writes stays text
    for bad in ("", "{", "[]", '{"messages": 5}', '{"messages": [{"role": "user"}], "x": 1}'):
        status, out, err = run("template", TINY, data=bad)
        assert status == 1 and out == "" and err.startswith("fornax template: "), (bad, err)


@pytest.mark.parametrize("path", [TINY, TINY_QWEN, TINY_GGUF, str(ROOT / "tests/data/models/llama3_sharded")])
def test_inspect(path):
    r = json.loads(ok("inspect", path, "--json"))
    assert r["tensors"] and all(t["name"] and t["shape"] for t in r["tensors"])
    text = ok("inspect", path)
    assert all(t["name"] in text for t in r["tensors"])


def test_logits():
    r = json.loads(ok("logits", TINY, "--tokens", "1,2,3", "--json", "--positions", "all"))
    assert len(r["logits"]) == 3 and all(len(row) == 512 for row in r["logits"])
    last = json.loads(ok("logits", TINY, "--tokens", "1,2,3", "--json"))
    assert last["logits"] == r["logits"][2:]
    top = ok("logits", TINY, "--tokens", "1,2,3", "--top", "3").splitlines()
    best = sorted(range(512), key=lambda i: -r["logits"][2][i])[:3]
    assert top[0] == "position 2" and [int(line.split()[0]) for line in top[1:]] == best


def test_bench():
    r = json.loads(ok("bench", TINY, "--prompt", "32", "--gen", "8", "--repeat", "2", "--batch", "3", "--json"))
    assert r["prefill_tps"] > 0 and r["decode_tps"] > 0 and r["threads"] >= 1 and r["rss_bytes"] > 0 and r["cpu"]
    products = r["int8_products"] + r["bf16_products"] + r["f32_products"]
    assert 0 < products < r["step_bytes"] * 8 and r["read_limit"] > 1e8
    with_logits = products + r["int8_logit_products"] + r["bf16_logit_products"] + r["f32_logit_products"]
    assert with_logits >= products + 512                                    # at least the output head's
    limits = {"int8": r["int8_limit"], "bf16": max(r["bf16_limit"], r["f32_limit"]), "f32": r["f32_limit"]}

    def share(rate, *products):
        used = [(r[k + p], limits[k]) for k in limits for p in products if r[k + p]]
        return rate * sum(2 * n / limit for n, limit in used) if all(limit for _, limit in used) else 0   # unknown

    assert r["prefill_share"] == pytest.approx(share(r["prefill_tps"], "_products"), rel=0.01, abs=1e-4)
    assert r["decode_multiply_share"] == pytest.approx(share(r["decode_tps"], "_products", "_logit_products"), rel=0.01, abs=1e-4)
    # weights this small come from a cache, so the share may be above 1
    assert r["decode_share"] == pytest.approx(r["decode_tps"] / 3 * r["step_bytes"] / r["read_limit"], rel=0.01)
    assert "tokens/s" in ok("bench", TINY, "--prompt", "32", "--gen", "8", "--repeat", "1")
    filled = json.loads(ok("bench", TINY, "--prompt", "2", "--gen", "2", "--repeat", "1", "--fill", "200", "--json"))
    # two tokens over all the time, one over the second's: by this the prompt's time counts
    assert filled["fill"] == 200 and 0 < filled["total_tps"] < 2 * filled["decode_tps"]
    assert "with prompts of 200" in ok("bench", TINY, "--prompt", "2", "--gen", "2", "--repeat", "1", "--fill", "200")


def test_bench_of_long_contexts():
    r = json.loads(ok("bench", TINY, "--context", "40,200", "--gen", "8", "--repeat", "2", "--json"))
    assert [c["tokens"] for c in r["contexts"]] == [40, 200] and r["context_bytes"] > 0 and r["context_products"] > 0
    assert all(c["prefill_tps"] > 0 and c["decode_tps"] > 0 and c["decode_share"] > 0 for c in r["contexts"])
    assert "context 40" in ok("bench", TINY, "--context", "40", "--gen", "8", "--repeat", "1")
    for bad in ("", "40,", "8", "x", "40,-3", "1e3"):
        status, out, err = run("bench", "/nonexistent", "--context", bad, "--gen", "8")
        assert status == 2 and out == "" and "--context: expected" in err, bad


# ---- generate ---------------------------------------------------------------------------------------


def test_generate_json():
    r = json.loads(ok("generate", TINY, "-p", "Hello", "-n", "6", "--ignore-eos", "--json", "--logprobs", "2"))
    assert len(r["ids"]) == 6 and r["finish_reason"] == "length" and r["generated_tokens"] == 6
    assert len(r["logprobs"]) == 6 and all(len(x["top"]) == 2 and x["top"][0][0] == x["id"] for x in r["logprobs"])
    assert ok("generate", TINY, "-p", "Hello", "-n", "6", "--ignore-eos") == r["text"] + "\n"
    ids = ",".join(ok("tokenize", TINY, "--text", "Hello").split())
    assert json.loads(ok("generate", TINY, "--tokens", ids, "-n", "6", "--ignore-eos", "--json"))["ids"] == r["ids"]
    assert json.loads(ok("generate", TINY, "-n", "6", "--ignore-eos", "--json", data="Hello"))["ids"] == r["ids"]


def test_generate_choices_and_seed(tmp_path):
    (tmp_path / "prompt.txt").write_text("Hello")
    args = ["generate", TINY, "-f", tmp_path / "prompt.txt", "-n", "8", "-T", "1", "--ignore-eos", "--json", "--choices", "3"]
    a, b = (json.loads(ok(*args, "--seed", "18446744073709551615")) for _ in range(2))
    assert a == {**b, "cached_tokens": a["cached_tokens"]} and len(a["choices"]) == 3
    assert len({c["text"] for c in a["choices"]}) > 1
    assert json.loads(ok(*args))["choices"] != a["choices"]


def test_generate_same_as_server(tiny):
    r = json.loads(ok("generate", TINY, "-p", "Hello", "-n", "10", "-T", "1", "--seed", "3", "--json"))
    status, s = tiny.post("/v1/completions", {"prompt": "Hello", "max_tokens": 10, "temperature": 1, "seed": 3})
    assert status == 200 and s["choices"][0]["text"] == r["text"]
    r = json.loads(ok("generate", TINY, "-p", "Hello", "--chat", "--system", "Be brief.", "-n", "10", "--json"))
    status, s = tiny.post("/v1/chat/completions", {"max_tokens": 10, "temperature": 0, "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]})
    assert s["choices"][0]["message"]["content"] == r["text"] and s["usage"]["prompt_tokens"] == r["prompt_tokens"]


def test_generate_stop():
    text = ok("generate", TINY, "-p", "Hello", "-n", "30")[:-1]
    stop = text[4:7]
    assert ok("generate", TINY, "-p", "Hello", "-n", "30", "--stop", "\x01", "--stop", stop)[:-1] == text[:text.index(stop)]


def test_own_template(tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
    a = json.loads(ok("generate", TINY, "--chat", "-p", "Hello", "--chat-template", path, "-n", "4", "--json"))
    ids = ",".join(ok("tokenize", TINY, "--no-add", "--text", "[user]Hello").split())
    b = json.loads(ok("generate", TINY, "--tokens", ids, "-n", "4", "--json"))
    assert a["text"] == b["text"]
    path.write_text("{% for m in messages %}{{ m.content }}\n{% endif %}")
    status, out, err = run("generate", TINY, "--chat", "-p", "Hello", "--chat-template", path)
    assert status == 1 and "line 2" in err or ":2:" in err


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_generate(smol_path, sig):
    p = subprocess.Popen([FORNAX, "generate", smol_path, "-p", "Once", "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.read(5)
    p.send_signal(sig)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 130 and out.endswith(b"\n") and err == b""


# ---- chat -----------------------------------------------------------------------------------------------


class Terminal:
    """The program on a pseudo-terminal. seen: all it wrote."""

    def __init__(self, *args, env=None):
        try:
            self.pid, self.fd = pty.fork()
        except OSError as e:
            pytest.skip(f"no pseudo-terminal: {e}")
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "LC_ALL": "C", **(env or {})})
            os.execv(FORNAX, [FORNAX, *map(str, args)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen, self.status = "", None
        self.raw = b""

    def read(self, seconds=0.1):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            self.raw += piece
            self.seen = self.raw.decode(errors="replace")
            return piece != b""
        return True

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        start = getattr(self, "mark", 0)
        while what not in self.seen[start:]:
            assert self.read() and time.monotonic() < end, f"no {what!r} in {self.seen[start:]!r}"
        self.mark = self.seen.index(what, start) + len(what)
        while what == "> " and self.line_mode():          # the prompt is written before the editor takes over the keys
            assert time.monotonic() < end, "the prompt is there, but not the line editor"
            time.sleep(0.01)

    def line_mode(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ICANON)

    def quiet(self, seconds=0.5):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            n = len(self.seen)
            self.read()
            if len(self.seen) > n:
                end = time.monotonic() + seconds

    def send(self, text):
        os.write(self.fd, text.encode())

    def end(self, seconds=30):
        """Its exit status."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        raise AssertionError(f"still running; it wrote {self.seen!r}")

    def cooked(self):
        """The terminal is as a shell wants it."""
        return termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO


def test_chat_on_a_terminal():
    t = Terminal("chat", TINY, "-n", "5", "--ignore-eos", "-q")
    t.until("/help")
    t.until("> ")
    t.send("Hello\n")
    t.until("Hello")
    t.until("> ")
    t.send("/help\n")
    t.until("/clear")
    t.until("> ")
    t.send("/clear\n")
    t.until("forgotten")
    t.until("> ")
    t.send("\n\n")
    t.until("> ")
    t.quiet()                                           # at the prompt, not between two
    t.send("\x04")
    assert t.end() == 0


def test_chat_history_and_editing():
    t = Terminal("chat", TINY, "-n", "3", "-q", "--system", "x")
    t.until("> ")
    t.send("first words\n")
    t.until("> ")
    t.quiet()
    t.send("\x1b[A")                                    # up: the line before
    t.until("first words")
    t.send("\x15/quit\n")                               # ^U drops it
    assert t.end() == 0


def test_chat_takes_utf8():
    """In whatever locale: a character is one thing to the line editor."""
    t = Terminal("chat", TINY, "-n", "3", "-q")
    t.until("> ")
    t.send("Zürich 東京")
    t.until("東京")
    t.send("\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f/quit\n")
    assert t.end() == 0


def test_interrupt_stops_a_reply(smol_path):
    t = Terminal("chat", smol_path, "-q", "--ignore-eos")
    t.until("> ")
    t.send("Write a very long story about the sea.\n")
    t.until("sea.")
    n = len(t.seen)
    assert until(lambda: t.read() and len(t.seen) > n + 40, 60)
    t.send("\x03")
    t.until("(stopped)")
    t.until("> ")
    t.send("/quit\n")
    assert t.end() == 0


def test_interrupt_at_the_prompt():
    t = Terminal("chat", TINY, "-n", "3", "-q")
    t.until("> ")
    t.send("half a li")
    t.until("half a li")
    t.send("\x03")
    t.until("> ")
    t.send("\x03")
    t.until("leaves")
    t.until("> ")
    t.send("Hello\n")
    t.until("Hello")
    t.until("> ")
    t.send("/quit\n")
    assert t.end() == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_terminal_is_put_in_order(sig):
    t = Terminal("chat", TINY, "-n", "3", "-q")
    t.until("> ")
    assert until(lambda: not t.cooked(), 5)
    os.kill(t.pid, sig)
    assert until(t.cooked, 10)
    assert t.end() == 130


def test_loading_progress_on_a_terminal(smol_path):
    t = Terminal("generate", smol_path, "-p", "Hello", "-n", "3", "--no-cache")       # kept weights need no loading
    assert t.end(60) == 0 and "loading" in t.seen


def test_chat_from_a_pipe():
    out = ok("chat", TINY, "-n", "5", "--ignore-eos", data="Hello\nAgain\n/clear\nHello\n")
    lines = out.split("\n")
    assert "> " not in out and "(forgotten)" in out
    first = out.split("\n")[0]
    assert out.split("(forgotten)\n")[1].startswith(first)          # greedy, and nothing remembered
    assert ok("chat", TINY, "-n", "5", data="") == ""
    assert lines[-1] == ""
    status, out, err = run("chat", TINY, "-n", "5", data="a\x00b\n")
    assert status == 1 and "zero byte" in err
    status, out, err = run("chat", TINY, data="a b c " * 1000 + "\nHello\n")
    assert status == 1 and "512" in err
