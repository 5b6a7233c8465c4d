"""Model files that can be read and make no model: refused when they are opened, by key and value, at once and without memory
for what they claim; by every command that reads them."""
import resource
import struct
import subprocess
import time

import pytest

from conftest import FORNAX, TINY
from gguf_files import ARRAY, F32, I32, STRING, U32, U64, File, bare


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The tiny Llama as a GGUF file."""
    path = tmp_path_factory.mktemp("gguf") / "good.gguf"
    subprocess.run([FORNAX, "quantize", TINY, str(path), "--type", "f32"], check=True, capture_output=True)
    data = path.read_bytes()
    assert File(data).pack() == data
    return data


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))        # of what quantize writes


def refusals(tmp_path, data, commands=("logits", "inspect", "quantize")):
    """What each command says about a file; all must refuse it soon."""
    (tmp_path / "m.gguf").write_bytes(data)
    path = str(tmp_path / "m.gguf")
    more = {"logits": ["--tokens", "1,2,3"], "inspect": [], "quantize": [str(tmp_path / "out.gguf"), "--type", "q8_0"]}
    out = []
    for c in commands:
        start = time.monotonic()
        p = subprocess.run([FORNAX, c, path, *more[c]], capture_output=True, timeout=100, text=True, preexec_fn=limited)
        assert p.returncode == 1 and p.stderr.count("\n") == 1 and p.stdout == "", (c, p.returncode, p.stderr)
        assert time.monotonic() - start < 20 and not (tmp_path / "out.gguf").exists()
        out.append(p.stderr)
    return out


def test_the_good_one_is_taken(tmp_path, good):
    (tmp_path / "m.gguf").write_bytes(good)
    assert subprocess.run([FORNAX, "logits", str(tmp_path / "m.gguf"), "--tokens", "1,2"], capture_output=True).returncode == 0


VALUES = [
    ("llama.block_count", U32, 0, "found 0"), ("llama.block_count", U32, 2000000000, "found 2000000000"), ("llama.block_count", I32, -3, "found -3"),
    ("llama.block_count", STRING, b"3", "found string"), ("llama.attention.head_count", U32, 0, "found 0"),
    ("llama.attention.head_count", F32, 4.5, "found f32"), ("llama.attention.head_count", U32, 7, "found 7 and 2"),
    ("llama.attention.head_count_kv", U32, 0, "found 0"), ("llama.attention.head_count_kv", U32, 5, "found 5"),
    ("llama.attention.key_length", U32, 0, "found 0"), ("llama.attention.value_length", U32, 0, "found 0"),
    ("llama.context_length", U32, 0, "found 0"), ("llama.context_length", U64, 1 << 63, "below 2^63"),
    ("llama.embedding_length", U32, 0, "found 0"), ("llama.feed_forward_length", U32, 0, "found 0"),
    ("llama.rope.dimension_count", U32, 65, "found 65"), ("llama.rope.dimension_count", U32, 7, "found 7"),
    ("llama.rope.freq_base", F32, 0.0, "0"), ("llama.rope.freq_base", F32, float("inf"), "inf"),
    ("llama.attention.layer_norm_rms_epsilon", F32, float("nan"), "nan"), ("llama.attention.layer_norm_rms_epsilon", F32, -1.0, "-1"),
    ("general.architecture", STRING, b"nope", "nope"), ("general.architecture", U32, 1, "general.architecture"),
    ("tokenizer.ggml.bos_token_id", U32, 512, "found 512"), ("tokenizer.ggml.tokens", ARRAY, (STRING, []), "0"),
    ("tokenizer.ggml.tokens", ARRAY, (STRING, [b"a", b"b"]), "2"), ("tokenizer.ggml.tokens", U32, 5, "u32"),
]


@pytest.mark.parametrize("key, kind, value, words", VALUES, ids=range(len(VALUES)))
def test_values_that_make_no_model(tmp_path, good, key, kind, value, words):
    f = File(good)
    f.key(key)[1:] = kind, value
    error, = refusals(tmp_path, f.pack(), ["logits"])
    assert words in error and (key in error or key in ("general.architecture", "tokenizer.ggml.tokens")), error


def test_no_vocabulary_at_all(tmp_path, good):
    f = File(good)
    f.keys = [k for k in f.keys if k[0] not in ("tokenizer.ggml.token_type", "tokenizer.ggml.merges")]
    f.key("tokenizer.ggml.tokens")[2] = (STRING, [])
    error, = refusals(tmp_path, f.pack(), ["logits"])
    assert "tokenizer.ggml" in error


@pytest.mark.parametrize("key", ["llama.block_count", "llama.attention.head_count", "llama.context_length", "llama.embedding_length",
                                 "llama.attention.layer_norm_rms_epsilon", "llama.feed_forward_length"])
def test_keys_that_are_missing(tmp_path, good, key):
    f = File(good)
    f.keys = [k for k in f.keys if k[0] != key]
    assert key in refusals(tmp_path, f.pack(), ["logits"])[0]


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.2.ffn_down.weight"])
@pytest.mark.parametrize("field, value", [(1, [1024, 1024]), (1, [1 << 40, 1 << 40]), (3, (1 << 64) - 32), (3, 36), (3, 1 << 40), (3, 32)])
def test_tensors_outside_of_the_file_or_of_their_place(tmp_path, good, name, field, value):
    """Beyond the end, over the end of numbers, unaligned, or where another one is: neither read nor copied to another file."""
    f = File(good)
    t = f.tensor(name)
    if t[field] == value:
        t = f.tensor("output_norm.weight")
    t[field] = value
    assert all("tensor " in e for e in refusals(tmp_path, f.pack()))


KEY = b"general.alignment"
HEADERS = {
    "alignment 0": bare((KEY, U32, struct.pack("<I", 0))), "alignment 3": bare((KEY, U32, struct.pack("<I", 3))),
    "alignment 2 GiB": bare((KEY, U32, struct.pack("<I", 1 << 31))), "alignment signed": bare((KEY, I32, struct.pack("<i", 32))),
    "alignment as text": bare((KEY, STRING, struct.pack("<Q", 2) + b"32")), "alignment twice": bare(*[(KEY, U32, struct.pack("<I", 32))] * 2),
}
CLAIMS = {
    "an array without end": bare((b"k", ARRAY, struct.pack("<IQ", U32, 1 << 63))),
    "a key without end": struct.pack("<IIQQQ", 0x46554747, 3, 0, 1, (1 << 64) - 1),
    "a text without end": bare((b"k", STRING, struct.pack("<Q", (1 << 64) - 1))),
    "a deep array": bare((b"k", ARRAY, struct.pack("<IQ", ARRAY, 1) * 20000 + struct.pack("<IQ", U32, 0))),
    "keys without end": struct.pack("<IIQQ", 0x46554747, 3, 0, 1 << 60), "tensors without end": struct.pack("<IIQQ", 0x46554747, 3, 1 << 60, 0),
    "magic alone": b"GGUF", "big-endian": b"FUGG\0\0\0\3" + bytes(16), "nothing": b"",
    **{f"version {v}": struct.pack("<IIQQ", 0x46554747, v, 0, 0) for v in (0, 1, 4, 0xFFFFFFFF)},
}


@pytest.mark.parametrize("name", HEADERS)
def test_alignments_that_are_none(tmp_path, name):
    assert all("general.alignment" in e for e in refusals(tmp_path, HEADERS[name]))


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_larger_than_the_file(tmp_path, name):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    refusals(tmp_path, CLAIMS[name], ["inspect", "quantize"])
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before < 64 << 10      # KiB
