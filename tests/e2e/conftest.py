"""What the end-to-end tests share: servers of the built program, and how to talk to them.

FORNAX        the program (default: build/fornax)
FORNAX_MODEL, FORNAX_MINILM
              real models (default: what scripts/model fetched); empty or missing: the
              tests that need one are skipped. The rest run on the tiny random checkpoints of tests/data/models.
"""
import atexit
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FORNAX = os.environ.get("FORNAX", str(ROOT / "build/fornax"))
TINY = str(ROOT / "tests/data/models/llama3")
TINY_QWEN = str(ROOT / "tests/data/models/qwen3")
PAGE = 32                   # tokens in a KV page
START_SECONDS = 180         # sanitizer builds on a busy machine

# Packed weights go where nothing of the user's lies.
os.environ["FORNAX_CACHE_DIR"] = tempfile.mkdtemp(prefix="fornax-cache-")
atexit.register(shutil.rmtree, os.environ["FORNAX_CACHE_DIR"], ignore_errors=True)

# Behind nohup or in the background of a script these are ignored, and what is ignored here is so in the programs
# under test.
for sig in signal.SIGINT, signal.SIGHUP, signal.SIGQUIT:
    if signal.getsignal(sig) == signal.SIG_IGN:
        signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)


def real_model():
    path = os.environ.get("FORNAX_MODEL")
    if path is None:
        path = str(ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if path and os.path.exists(path) else None


def until(condition, seconds=30, step=0.05):
    """Waits for a condition; its value, or the last one it had."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)


class Server:
    """A running `fornax serve`. Everything it wrote to standard error is in .errors()."""

    def __init__(self, model, *args, host="127.0.0.1", env=None, descriptors=None):
        def limit():
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [FORNAX, "serve", model, "--port", "0", "--host", host, *args], stdout=subprocess.PIPE, stderr=self.log,
            stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, preexec_fn=limit if descriptors else None)
        line = self._first_line()
        found = re.search(r"http://(\S+):(\d+)/v1", line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"fornax serve said {line!r} and {self.errors()!r}")
        self.host, self.port = found.group(1).strip("[]"), int(found.group(2))
        self.url = f"http://{found.group(1)}:{self.port}"
        self.name = line.split(" is served at ")[0]

    def _first_line(self):
        out = b""
        end = time.monotonic() + START_SECONDS
        while not out.endswith(b"\n") and time.monotonic() < end:
            if select.select([self.process.stdout], [], [], 1)[0]:
                piece = os.read(self.process.stdout.fileno(), 4096)
                if not piece:
                    break
                out += piece
        return out.decode()

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def client(self, **options):
        import openai
        options = {"base_url": self.url + "/v1", "api_key": "none", "max_retries": 0, "timeout": 300, **options}
        return openai.OpenAI(**options)

    def connect(self, timeout=30):
        s = socket.create_connection((self.host, self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def request(self, method, path, body=None, headers=(), timeout=120):
        """Status, headers (lower case) and body of one request on a connection of its own."""
        import http.client
        c = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            c.request(method, path, body=body, headers=dict(headers))
            r = c.getresponse()
            data = r.read()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, data
        finally:
            c.close()

    def post(self, path, body, headers=()):
        status, head, data = self.request("POST", path, body, {"Content-Type": "application/json", **dict(headers)})
        return status, json.loads(data) if head["content-type"].startswith("application/json") else data

    def health(self):
        return json.loads(self.request("GET", "/health")[2])

    def metrics(self):
        lines = self.request("GET", "/metrics")[2].decode().splitlines()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def metric(self, name):
        return self.metrics()["fornax_" + name]

    def quiet(self, seconds=60):
        """Nothing runs or waits any more."""
        return until(lambda: (lambda h: h["running"] == 0 and h["waiting"] == 0)(self.health()), seconds)

    def alive(self):
        return self.process.poll() is None and self.health()["status"] == "ok"

    def stop(self, sig=signal.SIGTERM, seconds=60):
        """Ends it; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        return status

    def end(self):
        """Ends it and holds it to its promises: a clean exit, no sanitizer report."""
        status, errors = self.stop(), self.errors()
        self.log.close()
        assert "Sanitizer" not in errors and "runtime error" not in errors, errors
        assert status == 0, f"exit status {status}: {errors}"


@pytest.fixture
def serve():
    """A function that starts a server for this test only."""
    started = []

    def start(model=TINY, *args, **options):
        started.append(Server(model, *args, **options))
        return started[-1]

    yield start
    for s in started:
        if not s.log.closed:
            s.end()


@pytest.fixture(scope="session")
def tiny():
    """A server of a random model with 512 tokens of context: quick, its text means nothing."""
    s = Server(TINY, "--name", "tiny", "--name", "tiny-alias")
    yield s
    s.end()


@pytest.fixture(scope="session")
def smol_path():
    path = real_model()
    if not path:
        pytest.skip("no real model (FORNAX_MODEL, or run scripts/model)")
    return path


@pytest.fixture(scope="session")
def smol(smol_path):
    """A server of a real small model."""
    s = Server(smol_path, "--name", "smol")
    yield s
    s.end()


@pytest.fixture(params=["tiny", "smol"])
def server(request):
    """Both, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def background():
    """Runs functions on threads; at the end they must be over."""
    threads = []

    def run(f, *args):
        t = threading.Thread(target=f, args=args, daemon=True)
        t.start()
        threads.append(t)
        return t

    yield run
    for t in threads:
        t.join(120)
        assert not t.is_alive()
