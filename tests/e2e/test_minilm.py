"""A real embedding model, all-MiniLM-L6-v2 (scripts/model minilm), against the reference library's vectors: short and
long texts, of many scripts, blank ones, and more tokens than the model takes. The route refuses what is empty."""
import base64
import json
import os
import random

import numpy
import pytest

from conftest import ROOT, Server

DATA = ROOT / "tests/data/embed/minilm"
TEXTS = [t if isinstance(t, str) else t["repeat"] * t["times"] for t in json.load(open(DATA / "texts.json", encoding="utf-8"))]


GIVEN = [k for k, text in enumerate(TEXTS) if text]


@pytest.fixture(scope="module")
def server():
    folder = os.environ.get("FORNAX_MINILM", str(ROOT / ".cache/models/all-MiniLM-L6-v2"))
    if not folder or not os.path.exists(folder):
        pytest.skip("no MiniLM (FORNAX_MINILM, or run scripts/model minilm)")
    s = Server(folder)
    yield s
    s.end()


def vectors(server, order, batch):
    """The texts' vectors, as bytes, asked for in this order and so many at a time."""
    out = {}
    for i in range(0, len(order), batch):
        part = order[i:i + batch]
        status, r = server.post("/v1/embeddings", {"model": server.name, "input": [TEXTS[k] for k in part],
                                                   "encoding_format": "base64", "truncate": True})
        assert status == 200, r
        out.update((k, base64.b64decode(d["embedding"])) for k, d in zip(part, r["data"]))
    return [out[k] for k in GIVEN]


def test_vectors_are_the_references_at_any_batch_size(server):
    want = numpy.fromfile(DATA / "vectors.f16", dtype="<f2").astype(numpy.float64).reshape(len(TEXTS), -1)[GIVEN]
    order = list(GIVEN)
    one = vectors(server, order, 1)
    got = numpy.array([numpy.frombuffer(v, dtype="<f4") for v in one], dtype=numpy.float64)
    cosine = (got * want).sum(1) / numpy.linalg.norm(got, axis=1) / numpy.linalg.norm(want, axis=1)
    assert cosine.min() >= 0.9999, TEXTS[GIVEN[cosine.argmin()]][:60]
    assert numpy.abs(numpy.linalg.norm(got, axis=1) - 1).max() < 1e-5
    for batch in (7, len(TEXTS)):
        random.Random(batch).shuffle(order)
        assert vectors(server, order, batch) == one
