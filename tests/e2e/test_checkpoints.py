"""Tiny random checkpoints in hub layout (tests/data/models) against logits and greedy text of the reference
library (transformers, f32, eager attention; recorded in each reference.json)."""
import json
import math
import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
MODELS = os.path.join(HERE, "..", "data", "models")
NAMES = sorted(n for n in os.listdir(MODELS) if os.path.exists(os.path.join(MODELS, n, "reference.json")))
TOLERANCE = 2e-3                         # of the logits' standard deviation


def reference(name):
    return json.load(open(os.path.join(MODELS, name, "reference.json"), encoding="utf-8"))


def fornax(*argv, stdin=b""):
    p = subprocess.run([FORNAX, *map(str, argv)], input=stdin, capture_output=True, timeout=300)
    assert p.returncode == 0, p.stderr.decode()
    return json.loads(p.stdout)


def deviation(row):
    mean = sum(row) / len(row)
    return math.sqrt(sum((x - mean) ** 2 for x in row) / (len(row) - 1))


@pytest.mark.parametrize("name", NAMES)
def test_logits_and_greedy(name):
    for p in reference(name)["prompts"]:
        greedy = p["greedy"] or []
        full = p["ids"] + greedy[:-1]
        rows = fornax("logits", os.path.join(MODELS, name), "--tokens", ",".join(map(str, full)), "--positions", "all",
                      "--dtype", "f32", "--json")["logits"]
        n, std = len(p["ids"]), p["logits_std"]
        assert len(rows) == len(full)
        assert max(abs(a - b) for a, b in zip(rows[n - 1], p["last_logits"])) <= TOLERANCE * std
        for i, want in enumerate(p["argmax_all"]):
            assert rows[i][want] >= max(rows[i]) - 2 * TOLERANCE * deviation(rows[i])
        for i, want in enumerate(greedy):
            row = rows[n - 1 + i]
            assert row[want] >= max(row) - 2 * TOLERANCE * deviation(row), f"step {i}"


@pytest.mark.parametrize("name", NAMES)
def test_generation(name):
    for p in reference(name)["prompts"]:
        if not p["greedy"]:
            continue
        out = fornax("generate", os.path.join(MODELS, name), "--tokens", ",".join(map(str, p["ids"])), "-n",
                     len(p["greedy"]), "--ignore-eos", "--dtype", "f32", "--json")
        for i, (got, want) in enumerate(zip(out["ids"], p["greedy"])):
            if got != want:
                assert p["greedy_margins"][i] <= 2 * TOLERANCE, f"step {i}"
                break                    # a tie: what follows has another history


@pytest.mark.parametrize("name", NAMES)
def test_tokens(name):
    for p in reference(name)["prompts"]:
        if p["text"] is not None:
            assert fornax("tokenize", os.path.join(MODELS, name), "--json", stdin=p["text"].encode())["ids"] == p["ids"]
