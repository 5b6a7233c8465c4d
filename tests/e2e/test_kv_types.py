"""Types of keys and values kept (--kv-dtype): each is what it says, near the exact one, for models of all kinds of state."""
import json
import math
import os
import subprocess

import pytest

from conftest import FORNAX, ROOT, real_model

MODELS = str(ROOT / "tests/data/models")
# full, window, both (and sinks), latent, layers that share, recurrent beside full, slopes
KINDS = ["llama3", "mistral", "gpt_oss", "gemma3", "deepseek_v2", "minicpm3", "lfm2", "qwen3_5", "bloom", "phi3_longrope"]
# How far logits may be off, as a share of their spread.
NEAR = {"f16": 0.003, "bf16": 0.03, "int8": 0.06}
IDS = [(k * 37 + 3) % 400 for k in range(90)]
TEXT = ROOT / "tests/data/text/ferry.txt"


def fornax(*argv):
    p = subprocess.run([FORNAX, *map(str, argv)], capture_output=True, timeout=600)
    assert p.returncode == 0, p.stderr.decode()
    return json.loads(p.stdout)


def logits(model, kv, *argv):
    """Of the last position, in exact mode."""
    return fornax("logits", model, "--tokens", ",".join(map(str, IDS)), "--dtype", "f32", "--kv-dtype", kv, "--json", *argv)["logits"][-1]


def distance(a, b):
    mean = sum(a) / len(a)
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum((x - mean) ** 2 for x in a))


@pytest.mark.parametrize("name", KINDS)
def test_near_the_exact_one(name):
    exact, seen = logits(f"{MODELS}/{name}", "f32"), set()
    for kv, near in NEAR.items():
        got = logits(f"{MODELS}/{name}", kv)
        assert 0 < distance(exact, got) < near, (kv, distance(exact, got))
        seen.add(tuple(got))
    assert len(seen) == len(NEAR)


@pytest.mark.parametrize("kv", NEAR)
def test_with_an_adapter(kv):
    base, adapter = f"{MODELS}/lora_llama3", f"{MODELS}/lora_llama3/adapter"
    exact, plain = logits(base, "f32", "--lora", adapter), logits(base, kv)
    got = logits(base, kv, "--lora", adapter)
    assert 0 < distance(exact, got) < NEAR[kv]
    assert distance(plain, got) > 5 * distance(exact, got)


def test_the_numerics_id_and_the_size():
    at = {kv: fornax("bench", f"{MODELS}/llama3", "--context", "40", "--gen", "4", "--repeat", "1", "--kv-dtype", kv, "--json")
          for kv in ("f32", "f16", "bf16", "int8")}
    assert len({r["numerics_id"] for r in at.values()}) == 4
    assert all(kv in r["numerics_id"] for kv, r in at.items())
    config = json.load(open(f"{MODELS}/llama3/config.json", encoding="utf-8"))
    width = config["hidden_size"] // config["num_attention_heads"]
    numbers = config["num_hidden_layers"] * config["num_key_value_heads"] * 2
    assert at["f32"]["context_bytes"] == 4 * numbers * width == 2 * at["f16"]["context_bytes"]
    assert at["int8"]["context_bytes"] == numbers * (width + 4)


def test_prefix_cache(serve):
    server = serve(f"{MODELS}/llama3", "--kv-dtype", "int8")
    body = {"model": "llama3", "prompt": IDS, "max_tokens": 12, "temperature": 0}
    (_, one), (status, two) = (server.post("/v1/completions", body) for _ in range(2))
    assert status == 200
    assert one["choices"][0]["text"] == two["choices"][0]["text"]
    assert two["usage"]["prompt_tokens_details"]["cached_tokens"] == 64


@pytest.mark.skipif(not real_model(), reason="FORNAX_MODEL doesn't name SmolLM2")
def test_perplexity():
    """Keys and values in int8 cost at most 0.5 % of perplexity."""
    ppl = {kv: fornax("bench", real_model(), "--ppl", TEXT, "--ctx", 768, "--kv-dtype", kv, "--json", "-q")["perplexity"]
           for kv in ("f16", "int8")}
    assert 5 < ppl["f16"] < 40
    assert ppl["int8"] / ppl["f16"] <= 1.005, ppl
