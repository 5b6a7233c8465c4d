"""Embeddings by the program and by the route, with the openai client: a tiny checkpoint against its reference."""
import base64
import json
import math
import struct
import subprocess

import openai
import pytest

from conftest import FORNAX, ROOT, Server

MODEL = str(ROOT / "tests/data/embed/nomic_bert")
ITEMS = json.load(open(MODEL + "/reference.json", encoding="utf-8"))["items"]


def close(got, want):
    return len(got) == len(want) and max(abs(x - y) for x, y in zip(got, want)) < 1e-5


@pytest.fixture(scope="module")
def server():
    s = Server(MODEL, "--dtype", "f32")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def encode(*args, text=b""):
    return subprocess.run([FORNAX, "encode", MODEL, "--dtype", "f32", *args], input=text, capture_output=True, timeout=300)


def test_encode_is_the_reference():
    for item in ITEMS:
        p = encode("--json", text=item["text"].encode())
        assert p.returncode == 0 and close(json.loads(p.stdout)["embeddings"][0], item["embedding"])


def test_encode_lines_and_dimensions(tmp_path):
    lines = [i["text"] for i in ITEMS if "\n" not in i["text"]]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    rows = json.loads(encode("--json", "--input", str(tmp_path / "lines"), "--dimensions", "8").stdout)["embeddings"]
    assert len(rows) == len(lines)
    assert all(len(r) == 8 and abs(math.sqrt(sum(x * x for x in r)) - 1) < 1e-5 for r in rows)


def test_encode_says_what_it_cuts():
    long = b"a " * 2000
    assert encode("--json", text=long).returncode == 1
    p = encode("--json", "--truncate", text=long)
    assert p.returncode == 0 and b"cut to 256 tokens, 1746 left out" in p.stderr


def test_route(client, server):
    texts = [i["text"] for i in ITEMS]
    r = client.embeddings.create(model=server.name, input=texts)               # base64 underneath
    assert [d.index for d in r.data] == list(range(len(texts)))
    assert all(close(d.embedding, i["embedding"]) for d, i in zip(r.data, ITEMS))
    assert r.usage.prompt_tokens == sum(len(i["ids"]) for i in ITEMS)
    ids = client.embeddings.create(model=server.name, input=ITEMS[0]["ids"], encoding_format="float")
    assert ids.data[0].embedding == r.data[0].embedding or close(ids.data[0].embedding, r.data[0].embedding)


def test_base64_has_the_same_bits(client, server):
    raw = client.embeddings.with_raw_response.create(model=server.name, input="Hello", encoding_format="base64")
    packed = base64.b64decode(json.loads(raw.content)["data"][0]["embedding"])
    floats = client.embeddings.create(model=server.name, input="Hello", encoding_format="float").data[0].embedding
    assert list(struct.unpack(f"<{len(packed) // 4}f", packed)) == [struct.unpack("<f", struct.pack("<f", x))[0] for x in floats]


@pytest.mark.parametrize("body, status, param", [
    ({"input": []}, 400, "input"), ({"input": [""] + [3]}, 400, "input"), ({"input": [[]]}, 400, "input"),
    ({"input": "a " * 2000}, 400, "context_length"), ({"input": "a", "dimensions": 65}, 400, "dimensions"),
    ({"input": [99999]}, 400, "input"), ({"input": "a", "model": "other"}, 404, "model"),
])
def test_faults(client, server, body, status, param):
    with pytest.raises(openai.APIStatusError) as e:
        client.embeddings.create(**{"model": server.name, **body})
    assert e.value.status_code == status and e.value.body["param"] == param


def test_it_makes_no_text(client, server):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=server.name, prompt="Hello")
    assert "embedding" in e.value.body["message"]
