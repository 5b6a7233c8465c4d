"""SmolLM2-135M-Instruct (Q4_1) against recorded references.

tests/data/smollm2/reference.json holds, for six prompts, the token ids, the rendered template and the
log-probabilities and greedy ids of llama.cpp: its stock run (quantized activations) and exact_f32 (the same
weights dequantized, f32 throughout). Needs FORNAX_MODEL."""
import json
import math
import os
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
MODEL = os.environ.get("FORNAX_MODEL", "")
REFERENCE = json.load(open(os.path.join(HERE, "..", "data", "smollm2", "reference.json"), encoding="utf-8"))
ENTRIES = REFERENCE["entries"]

pytestmark = pytest.mark.skipif(not MODEL, reason="FORNAX_MODEL doesn't name SmolLM2")


def fornax(*argv, stdin=b""):
    p = subprocess.run([FORNAX, *map(str, argv)], input=stdin, capture_output=True, timeout=300)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def tokenize(text, *flags):
    return json.loads(fornax("tokenize", MODEL, "--json", *flags, stdin=text.encode()))["ids"]


def ids_arg(ids):
    return ",".join(map(str, ids))


def logprobs(ids, dtype):
    row = json.loads(fornax("logits", MODEL, "--tokens", ids_arg(ids), "--dtype", dtype, "--json"))["logits"][0]
    top = max(row)
    z = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - z for x in row]


@pytest.mark.parametrize("e", ENTRIES, ids=lambda e: e["name"])
def test_token_ids(e):
    text = e.get("text") if e["kind"] == "text" else e["rendered"]
    assert tokenize(text, "--no-special", "--no-add") == e["tokens_plain"]
    assert tokenize(text, "--no-add") == e["tokens_parse_special"]
    assert tokenize(text) == e["tokens_add_special"]


@pytest.mark.parametrize("e", [e for e in ENTRIES if e["kind"] == "chat"], ids=lambda e: e["name"])
def test_template(e):
    out = json.loads(fornax("template", MODEL, "--json", stdin=json.dumps({"messages": e["messages"]}).encode()))
    assert out["text"] == e["rendered"]
    assert out["ids"] == e["prompt_ids"]


@pytest.mark.parametrize("e", ENTRIES, ids=lambda e: e["name"])
def test_exact_mode(e):
    exact = e["exact_f32"]
    got = logprobs(e["prompt_ids"], "f32")
    for token, want, _ in exact["first_top5"]:
        assert abs(got[token] - want) <= 0.01
    safe = 1 if exact["safe_prefix"] is None else min(exact["safe_prefix"], len(exact["greedy_ids"]))
    out = json.loads(fornax("generate", MODEL, "--tokens", ids_arg(e["prompt_ids"]), "-n", safe, "--dtype", "f32",
                            "--ignore-eos", "--json"))
    assert out["ids"][:safe] == exact["greedy_ids"][:safe]


def test_quantized_activations():
    """First-token log-probabilities stay near exact arithmetic, on average no further off than 1.25x the stock run."""
    ours, stock = [], []
    for e in ENTRIES:
        got = logprobs(e["prompt_ids"], "auto")
        peer = {t: lp for t, lp, _ in e["first_top5"]}
        for token, want, _ in e["exact_f32"]["first_top5"]:
            assert abs(got[token] - want) <= 0.3, (e["name"], token)
            if token in peer:
                ours.append(abs(got[token] - want))
                stock.append(abs(peer[token] - want))
    assert sum(ours) / len(ours) <= 1.25 * sum(stock) / len(stock)


def test_perplexity_of_quantized_activations():
    """Within 0.5 % of the exact mode on a text of the tree itself."""
    text = os.path.join(HERE, "..", "..", "LICENSE")
    ppl = {d: json.loads(fornax("bench", MODEL, "--ppl", text, "--ctx", 512, "--dtype", d, "--json", "-q"))["perplexity"]
           for d in ("auto", "f32")}
    assert abs(ppl["auto"] / ppl["f32"] - 1) <= 0.005, ppl
