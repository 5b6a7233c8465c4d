"""Variants of architectures: head counts, biases, tied or not, spellings and missing keys of config.json, names of
tensors. Each case of tests/data/variants/cases.json is a configuration and the shapes of its tensors, whose values
follow from their names, with the reference library's logits (or vector) for some ids."""
import json
import math
import os
import struct
import subprocess
import zlib

import numpy
import pytest

from conftest import FORNAX, ROOT

CASES = json.load(open(ROOT / "tests/data/variants/cases.json", encoding="utf-8"))
TOLERANCE = 1e-3                         # of the logits' standard deviation


def values(name, shape, base):
    """Numbers that look random, the same everywhere: a mix of the name's checksum and each place."""
    h = numpy.arange(math.prod(shape), dtype=numpy.uint64) + numpy.uint64(zlib.crc32(name.encode()) << 32)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        h = (h ^ (h >> numpy.uint64(shift))) * numpy.uint64(factor)
    unit = (h >> numpy.uint64(40)).astype(numpy.float64) / 2.0 ** 23 - 1
    scale = math.sqrt(3 / shape[-1]) if len(shape) > 1 else 0.3
    return (base + scale * unit).astype(numpy.float32).reshape(shape)


def tensors(case):
    """Names and shapes; a name with "*" stands for one in each layer."""
    for form, shape in case["tensors"].items():
        for i in range(case["layers"] if "*" in form else 1):
            yield form.replace("*", str(i)), shape, 1 if form in case["ones"] else 0


def write_folder(case, path):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape, base in tensors(case):
        raw = values(name, shape, base).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)
    files = {"config.json": case["config"], "tokenizer.json": {
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordPiece", "unk_token": "t0", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
                  "vocab": {f"t{i}": i for i in range(64)}}}}
    if "vector" in case:                 # an encoder: the mean of all rows
        files["1_Pooling/config.json"] = {"pooling_mode_mean_tokens": True}
        files["modules.json"] = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                                 {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        os.mkdir(os.path.join(path, "1_Pooling"))
    for name, content in files.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as f:
            json.dump(content, f)


def run(case, path):
    """Logits of the last position, or the vector."""
    if "vector" in case:
        argv, key = ["encode", path, "--no-normalize"], "embeddings"
    else:
        argv, key = ["logits", path, "--tokens", ",".join(map(str, case["ids"]))], "logits"
    p = subprocess.run([FORNAX, *argv, "--dtype", "f32", "--json"], capture_output=True, timeout=300,
                       input=" ".join(f"t{i}" for i in case["ids"]).encode())
    assert p.returncode == 0, p.stderr.decode()
    row = json.loads(p.stdout)[key]
    return row[-1] if isinstance(row[0], list) else row


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_variant(case, tmp_path):
    write_folder(case, tmp_path)
    want = numpy.array(case.get("vector") or case["logits"])
    assert numpy.abs(numpy.array(run(case, str(tmp_path))) - want).max() <= TOLERANCE * want.std()


def test_end_tokens_beyond_the_vocabulary(tmp_path):
    """Small copies of large models keep their ids: such a token never comes."""
    case = next(c for c in CASES if c["config"]["model_type"] == "llama")
    write_folder({**case, "config": {**case["config"], "eos_token_id": [128001, 2]}}, tmp_path)
    p = subprocess.run([FORNAX, "generate", str(tmp_path), "--tokens", "1,2,3", "-n", "5", "--dtype", "f32", "--json"],
                       capture_output=True, timeout=300)
    assert p.returncode == 0 and json.loads(p.stdout)["ids"], p.stderr.decode()
