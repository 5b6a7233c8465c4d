"""bench/vs_peers with made-up peers: what it takes for rates, which of the two it compares with, what it refuses. bench/fusion: it runs."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FORNAX, ROOT

LONG = str(ROOT / "tests/data/models/falcon")       # its context has room for 512 tokens and one more

# Every new token costs one of these seconds, a prompt two of its tokens'.
OPENVINO_SECONDS, ONNXRUNTIME_SECONDS = 0.002, 0.004
OPENVINO = f"""
import os, time
class GenerationConfig:
    def __init__(self, ignore_eos, do_sample, apply_chat_template): assert ignore_eos and not do_sample and not apply_chat_template
class SchedulerConfig: pass
class Answer: pass
def made(settings, n):
    time.sleep({OPENVINO_SECONDS} * (2 + settings.max_new_tokens))
    out = Answer()
    out.tokens = out.m_generation_ids = [[7] * (settings.max_new_tokens - (n > 1 and "OPENVINO_EARLY" in os.environ))]
    return out
class LLMPipeline:
    def __init__(self, path, device, **options):
        print("a library's own words", flush=True)
        assert device == "CPU" and options["INFERENCE_NUM_THREADS"] == 2 and os.path.isdir(path)
    def generate(self, ids, settings):
        assert ids.shape[0] == 1
        return made(settings, 1)
class ContinuousBatchingPipeline:
    def __init__(self, path, plan, device, options):
        assert device == "CPU" and options == {{"INFERENCE_NUM_THREADS": 2}} and plan.enable_prefix_caching is False
    def generate(self, ids, settings):
        assert len(settings) == len(ids) == 16 and {{x.shape[0] for x in ids}} == {{1}}
        out = made(settings[0], 16)
        return [out] * 16
"""
ONNXRUNTIME = f"""
import json, time
class Config:
    def __init__(self, path): pass
    def overlay(self, text): assert json.loads(text)["model"]["decoder"]["session_options"]["intra_op_num_threads"] == 2
def Model(config): return config
class GeneratorParams:
    def __init__(self, model): pass
    def set_search_options(self, batch_size, max_length, min_length, do_sample):
        assert max_length == min_length and not do_sample
        self.shape = batch_size, max_length
class Generator:
    def __init__(self, model, params): self.batch, self.left = params.shape
    def append_tokens(self, ids):
        assert ids.dtype == "int32" and ids.shape[0] == self.batch
        self.left -= ids.shape[1]
        time.sleep({ONNXRUNTIME_SECONDS} * 2)
    def generate_next_token(self):
        self.left -= 1
        assert self.left >= 0
        time.sleep({ONNXRUNTIME_SECONDS})
"""


@pytest.fixture
def peers(tmp_path):
    """Runs the bench with these made-up packages, the converted folders there."""
    made = {"openvino_genai": OPENVINO, "openvino": "def Tensor(x): return x", "onnxruntime_genai": ONNXRUNTIME}
    for name, text in made.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "openvino").mkdir()
    (tmp_path / "onnxruntime").mkdir()

    def run(*args, python=sys.executable, **env):
        return subprocess.run([sys.executable, str(ROOT / "bench/vs_peers"), LONG, str(tmp_path), *args], capture_output=True, text=True,
                              timeout=300, env={**os.environ, "PEERS_PYTHON": str(python), "PYTHONPATH": str(tmp_path), **env})
    run.folder = tmp_path
    return run


def test_rates_and_the_ratio_to_the_better_peer(peers):
    p = peers("--rounds", "3", "--json")
    assert p.returncode == 0, p.stderr
    rows = {r["cell"]: r for r in json.loads(p.stdout)}
    assert list(rows) == ["prefill", "decode", "batch"]
    # tokens over the seconds that the made-up peers take, and no more than that; sleeps may only be longer
    for cell, tokens, new in ("prefill", 512, 1), ("decode", 128, 128), ("batch", 16 * 128, 128):
        for name, seconds in ("openvino", OPENVINO_SECONDS), ("onnxruntime", ONNXRUNTIME_SECONDS):
            assert tokens / (seconds * (2 + new)) * 0.2 < rows[cell][name] <= tokens / (seconds * (2 + new)), (cell, name)
        best = max(rows[cell]["openvino"], rows[cell]["onnxruntime"])
        assert rows[cell]["ratio"] == pytest.approx(rows[cell]["fornax"] / best) and rows[cell]["fornax"] > 0


def test_one_peer_one_cell_and_what_is_asked(peers):
    p = peers("--rounds", "1", "--cells", "decode", "--peers", "onnxruntime", "--min", "0.0001")
    assert p.returncode == 0 and "openvino" not in p.stdout and p.stdout.startswith("cell decode  threads 2  fornax "), p.stderr
    assert peers("--rounds", "1", "--cells", "decode", "--peers", "onnxruntime", "--min", "1e9").returncode == 1


def test_a_peer_that_stops_early_has_no_rate(peers):
    p = peers("--rounds", "1", "--cells", "batch", OPENVINO_EARLY="1")
    assert p.returncode == 1 and p.stderr.endswith(f"openvino failed: made {16 * 127} tokens, not {16 * 128}\n") and not p.stdout


def test_nothing_to_compare_with_is_one_sentence(peers, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    p = peers(python=bare)
    assert p.returncode == 1 and p.stderr == f"{bare} has neither openvino-genai nor onnxruntime-genai installed; PEERS_PYTHON names another interpreter\n"
    (peers.folder / "onnxruntime").rmdir()
    p = peers("--peers", "onnxruntime")
    assert p.returncode == 1 and p.stderr == f"{peers.folder}/onnxruntime: no such folder; bench/vs_peers --convert makes it\n"


def test_fusion():
    """bench/fusion runs both ways with equal bits (it says so otherwise), and fused takes fewer launches."""
    build = Path(FORNAX).resolve().parent
    p = subprocess.run([ROOT / "bench/fusion", "--turns", "1"], capture_output=True, text=True, timeout=900, env={**os.environ, "BUILD": str(build)})
    if "fornax_llvm" in p.stderr or "libfornax-llvm" in p.stderr:
        pytest.skip("no LLVM: " + p.stderr.strip().splitlines()[-1])
    assert p.returncode == 0, p.stderr
    rows = re.findall(r"^(\S.*?) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", p.stdout, re.M)
    assert len(rows) >= 12 and re.search(r"^least ratio [\d.]+$", p.stdout, re.M)
    for name, fused, unfused, *times in rows:
        assert int(fused) < int(unfused) and all(float(t) > 0 for t in times), name
    p = subprocess.run([build / "fusion_bench", "--turns", "none"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and p.stderr == "fusion_bench: options are --llvm FILE and --turns N\n"
