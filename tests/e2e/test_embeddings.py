"""Embeddings by the program and by the route, with the openai client: a tiny checkpoint against its reference."""
import base64
import json
import math
import signal
import struct
import subprocess
import time

import openai
import pytest

from conftest import FORNAX, ROOT, Server, until
from made_models import change, changed_copy

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


# ---- Many texts, long texts, short vectors ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    """The same model with 1,024 tokens of context, marked for shorter vectors."""
    folder = tmp_path_factory.mktemp("roomy") / "m"
    changed_copy(folder, MODEL, max_position_embeddings=1024, is_matryoshka=True)
    change(folder, "sentence_bert_config.json", max_seq_length=1024)
    s = Server(str(folder), "--dtype", "f32")
    yield s
    s.end()


def embed(s, **body):
    status, r = s.post("/v1/embeddings", body)
    assert status == 200, r
    return r


def refused(s, **body):
    status, r = s.post("/v1/embeddings", body)
    assert status == 400, r
    return r["error"]


def ids_of(n):
    return [5 + i % 600 for i in range(n)]


@pytest.mark.parametrize("n", [1, 511, 512, 513, 1023, 1024])
@pytest.mark.parametrize("truncate", [None, True, False])
def test_lengths_up_to_the_context(roomy, n, truncate):
    r = embed(roomy, input=[ids_of(n), ids_of(3)], truncate=truncate)
    assert r["usage"] == {"prompt_tokens": n + 3, "total_tokens": n + 3}
    assert all("truncated_tokens" not in d for d in r["data"])
    assert r["data"][1]["embedding"] == embed(roomy, input=ids_of(3))["data"][0]["embedding"]


@pytest.mark.parametrize("n", [1025, 4000])
def test_lengths_beyond_the_context(roomy, n):
    batch = [ids_of(3), "short", ids_of(n), ids_of(4)]
    for truncate in (None, False):
        e = refused(roomy, input=batch, truncate=truncate)
        assert "input[2]" in e["message"] and str(n) in e["message"] and "1024" in e["message"]
        assert e["param"] == "context_length" and e["code"] == "context_length_exceeded"
    r = embed(roomy, input=batch, truncate=True)
    assert [d.get("truncated_tokens") for d in r["data"]] == [None, None, n - 1024, None]
    assert r["data"][2]["embedding"] == embed(roomy, input=ids_of(1024))["data"][0]["embedding"]
    assert r["data"][3]["embedding"] == embed(roomy, input=ids_of(4))["data"][0]["embedding"]
    assert refused(roomy, input=batch, truncate="yes")["param"] == "truncate"


def unpack(text):
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


@pytest.mark.parametrize("n", [1, 2, 3, 17, 63, 64])
def test_shorter_vectors_are_cut_then_made_of_length_one(roomy, n):
    full = embed(roomy, input="Hello")["data"][0]["embedding"]
    length = math.sqrt(sum(x * x for x in full[:n]))
    for form, read in (("float", list), ("base64", unpack)):
        got = read(embed(roomy, input="Hello", dimensions=n, encoding_format=form)["data"][0]["embedding"])
        assert len(got) == n and close(got, [x / length for x in full[:n]])
        assert abs(sum(x * x for x in got) - 1) < 1e-5


@pytest.mark.parametrize("n", [0, -1, 65, 1.5, "8"])
def test_dimensions_that_are_none(roomy, n):
    assert refused(roomy, input="Hello", dimensions=n)["param"] == "dimensions"


def test_only_models_marked_for_it_are_shortened(server, serve, tmp_path):
    e = refused(server, input="Hello", dimensions=8)
    assert e["param"] == "dimensions" and "marked" in e["message"]
    assert refused(server, input="Hello", dimensions=64)["param"] == "dimensions"
    assert len(embed(serve(MODEL, "--any-dimensions"), input="Hello", dimensions=8)["data"][0]["embedding"]) == 8
    listed = serve(changed_copy(tmp_path / "m", MODEL, matryoshka_dimensions=[32, 16]))
    assert len(embed(listed, input="Hello", dimensions=16)["data"][0]["embedding"]) == 16
    assert len(embed(listed, input="Hello", dimensions=64)["data"][0]["embedding"]) == 64
    assert refused(listed, input="Hello", dimensions=8)["param"] == "dimensions"
    changed_copy(tmp_path / "bad", MODEL, matryoshka_dimensions=[32, 65])
    p = subprocess.run([FORNAX, "encode", str(tmp_path / "bad")], input=b"x", capture_output=True, timeout=300)
    assert p.returncode == 1 and b"matryoshka_dimensions" in p.stderr


def test_texts_of_different_lengths_together(roomy):
    texts = ["a", "a much longer line of text than the one before it", " ", "b\n"]
    r = embed(roomy, input=texts)
    assert [d["index"] for d in r["data"]] == [0, 1, 2, 3]
    alone = [embed(roomy, input=t) for t in texts]
    assert [d["embedding"] for d in r["data"]] == [a["data"][0]["embedding"] for a in alone]
    assert r["usage"]["prompt_tokens"] == sum(a["usage"]["prompt_tokens"] for a in alone)


@pytest.mark.parametrize("value, at", [(["a", "longer", "", " "], 2), (["", "a"], 0), ("", 0)])
def test_an_empty_text_is_refused_by_its_place(roomy, value, at):
    e = refused(roomy, input=value)
    assert e["param"] == "input" and f"input[{at}]" in e["message"]


@pytest.mark.parametrize("value, words", [([[5, 6], []], "input[1]"), ([[5, 6], [7, "x"]], "input[1]"), ([[5], [99999]], "input[1]"),
                                          (["a", 5], "input[1]"), ([5, "a"], "input"), ([], "input"), ({}, "input")])
def test_inputs_that_are_none_are_named(roomy, value, words):
    e = refused(roomy, input=value)
    assert e["param"] == "input" and words in e["message"]


def test_lists_of_ids_and_the_number_of_inputs(roomy):
    r = embed(roomy, input=[[5, 6, 7], [8]])
    assert [d["index"] for d in r["data"]] == [0, 1] and r["usage"]["prompt_tokens"] == 4
    r = embed(roomy, input=[[5 + i % 600] for i in range(2048)])
    assert [d["index"] for d in r["data"]] == list(range(2048)) and r["usage"]["prompt_tokens"] == 2048
    assert "2048" in refused(roomy, input=["a"] * 2049)["message"]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_encode(tmp_path, sig):
    (tmp_path / "lines").write_text("a b c d e f g h " * 20 + "\n" + ("a b c d " * 40 + "\n") * 20000)
    p = subprocess.Popen([FORNAX, "encode", MODEL, "--dtype", "f32", "--input", str(tmp_path / "lines")], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    busy = lambda: int(open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[11]) > 30  # noqa: E731
    assert until(lambda: p.poll() is not None or busy(), 60) and p.poll() is None
    start = time.monotonic()
    p.send_signal(sig)
    out, errors = p.communicate(timeout=60)
    assert p.returncode == 130 and out == b"" and time.monotonic() - start < 10, errors
