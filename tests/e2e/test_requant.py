"""Hub folders quantized by other tools (GPTQ, AWQ, compressed-tensors, fp8), made here from the small qwen3
checkpoint by the published packings, against the same weights multiplied out by NumPy."""
import json
import os
import shutil
import struct
import subprocess

import pytest

np = pytest.importorskip("numpy")
HERE = os.path.dirname(os.path.abspath(__file__))
FORNAX = os.environ.get("FORNAX", os.path.join(HERE, "..", "..", "build", "fornax"))
SOURCE = os.path.join(HERE, "..", "data", "models", "qwen3")
from ggufs import read_safetensors  # noqa: E402

rng = np.random.default_rng(1)


def save(path, tensors):
    header, data, at = {}, [], 0
    for name, (dtype, x) in tensors.items():
        raw = x.tobytes()
        header[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data.append(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def pack(v, bits, axis):
    """A contiguous stream of 'bits' each along an axis, in 32-bit words."""
    v = np.moveaxis(v.astype(np.uint64), axis, 0)
    rest = [1] * (v.ndim - 1)
    one = (v[:, None] >> np.arange(bits, dtype=np.uint64).reshape(1, -1, *rest)) & np.uint64(1)
    one = one.reshape(v.shape[0] * bits // 32, 32, *v.shape[1:])
    words = (one << np.arange(32, dtype=np.uint64).reshape(1, -1, *rest)).sum(1).astype(np.uint32)
    return np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32)


def quantize(w, bits, group, sym, shuffled=False):
    """Codes, scales [out, groups], zeros, the group of each column, and what they stand for."""
    rows, cols = w.shape
    group = cols if group < 0 else group
    index = np.arange(cols) // group
    if shuffled:
        index = index[rng.permutation(cols)]
    top = 2 ** bits - 1
    q, s, z = np.zeros(w.shape, int), np.zeros((rows, cols // group)), np.zeros((rows, cols // group), int)
    for g in range(cols // group):
        c = np.where(index == g)[0]
        x = w[:, c]
        lo, hi = np.minimum(x.min(1), 0), np.maximum(x.max(1), 0)
        scale = np.abs(x).max(1) / (top / 2) if sym else (hi - lo) / top
        scale = scale.astype(np.float16).astype(np.float64)
        zero = np.full(rows, (top + 1) // 2) if sym else np.clip(np.round(-lo / scale), 0, top).astype(int)
        q[:, c] = np.clip(np.round(x / scale[:, None]) + zero[:, None], 0, top)
        s[:, g], z[:, g] = scale, zero
    return q, s, z, index, (q - z[:, index]) * s[:, index]


def gptq(bits, group, sym, v2=False, act=False):
    def make(w):
        q, s, z, index, x = quantize(w, bits, group, sym, act)
        stored = (z.T if v2 else z.T - 1) & (2 ** bits - 1)
        return {".qweight": ("I32", pack(q.T, bits, 0)), ".qzeros": ("I32", pack(stored, bits, 1)),
                ".scales": ("F16", s.T.astype(np.float16)), ".g_idx": ("I32", index.astype(np.int32))}, x
    return make


def awq(w):
    def words(v):
        v = v.reshape(v.shape[0], -1, 8).astype(np.uint32)
        return sum(v[:, :, c] << np.uint32(4 * i) for i, c in enumerate([0, 2, 4, 6, 1, 3, 5, 7])).view(np.int32)
    q, s, z, _, x = quantize(w, 4, 32, False)
    return {".qweight": ("I32", words(q.T)), ".qzeros": ("I32", words(z.T)), ".scales": ("F16", s.T.astype(np.float16))}, x


def packed(bits, group, sym):
    def make(w):
        q, s, z, _, x = quantize(w, bits, group, sym)
        parts = {".weight_packed": ("I32", pack(q, bits, 1)), ".weight_scale": ("F16", s.astype(np.float16)),
                 ".weight_shape": ("I64", np.array(w.shape, np.int64))}
        if not sym:
            parts[".weight_zero_point"] = ("I32", pack(z, bits, 0))
        return parts, x
    return make


def int8(w):
    s = (np.abs(w).max(1, keepdims=True) / 127).astype(np.float32)
    q = np.round(w / s).astype(np.int8)
    return {".weight": ("I8", q), ".weight_scale": ("F32", s)}, q * s


E4M3 = np.array([(-1) ** (h >> 7) * ((h & 7) * 2.0 ** -9 if h >> 3 & 15 == 0 else (8 + (h & 7)) * 2.0 ** ((h >> 3 & 15) - 10))
                 for h in range(256)])
E4M3[[127, 255]] = 1e9                   # NaN: never nearest


def fp8(rows, cols, name):
    """A scale for each block of that size; 0: for all."""
    def make(w):
        r, c = rows or w.shape[0], cols or w.shape[1]
        s = np.array([[np.abs(w[i:i + r, j:j + c]).max() / 448 for j in range(0, w.shape[1], c)]
                      for i in range(0, w.shape[0], r)], np.float32)
        full = np.repeat(np.repeat(s, r, 0), c, 1)[:w.shape[0], :w.shape[1]]
        q = np.abs((w / full)[..., None] - E4M3).argmin(-1).astype(np.uint8)
        return {".weight": ("F8_E4M3", q), name: ("F32", s if rows else s.reshape(1))}, E4M3[q] * full
    return make


def gptq_config(bits, **more):
    return {"quant_method": "gptq", "bits": bits, **more}


def ct_config(fmt, bits):
    return {"quant_method": "compressed-tensors", "format": fmt,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": bits}}}}


CASES = {
    "gptq4": (gptq_config(4), gptq(4, 32, False)),
    "gptq4_whole_rows": (gptq_config(4, group_size=-1), gptq(4, -1, True)),
    "gptq4_group16": (gptq_config(4), gptq(4, 16, False)),
    "gptq4_desc_act": (gptq_config(4, desc_act=True), gptq(4, 32, False, act=True)),
    "gptq8": (gptq_config(8), gptq(8, 32, True)),
    "gptq8_zeros": (gptq_config(8), gptq(8, 32, False)),
    "gptq3": (gptq_config(3), gptq(3, 32, False)),
    "gptq2_v2": (gptq_config(2, checkpoint_format="gptq_v2"), gptq(2, 32, False, v2=True)),
    "awq": ({"quant_method": "awq", "bits": 4, "version": "gemm"}, awq),
    "ct_int4": (ct_config("pack-quantized", 4), packed(4, 32, True)),
    "ct_int4_zeros": (ct_config("pack-quantized", 4), packed(4, 32, False)),
    "ct_int8_packed": (ct_config("pack-quantized", 8), packed(8, -1, True)),
    "ct_int8": (ct_config("int-quantized", 8), int8),
    "ct_fp8": (ct_config("float-quantized", 8), fp8(1, 0, ".weight_scale")),
    "fp8_one_scale": ({"quant_method": "fbgemm_fp8"}, fp8(0, 0, ".weight_scale")),
    "fp8_blocks": ({"quant_method": "fp8", "weight_block_size": [32, 32]}, fp8(32, 32, ".weight_scale_inv")),
}


def folder(path, tensors, config):
    os.makedirs(path)
    for name in os.listdir(SOURCE):
        if name not in ("model.safetensors", "config.json", "reference.json"):
            shutil.copy(os.path.join(SOURCE, name), path)
    whole = json.load(open(os.path.join(SOURCE, "config.json"), encoding="utf-8"))
    if config:
        whole["quantization_config"] = config
    json.dump(whole, open(os.path.join(path, "config.json"), "w", encoding="utf-8"))
    save(os.path.join(path, "model.safetensors"), tensors)
    return str(path)


def logits(path, dtype):
    p = subprocess.run([FORNAX, "logits", path, "--tokens", "1,5,9,33,77,200", "--positions", "all", "--dtype", dtype,
                        "--json"], capture_output=True, timeout=120)
    assert p.returncode == 0, p.stderr.decode()
    return np.array(json.loads(p.stdout)["logits"])


@pytest.mark.parametrize("name", CASES)
def test_logits(name, tmp_path):
    config, make = CASES[name]
    quantized = {k: ("F32", v) for k, v in read_safetensors(os.path.join(SOURCE, "model.safetensors")).items()}
    plain = dict(quantized)
    for key in [k for k in quantized if k.endswith("_proj.weight")]:
        parts, x = make(quantized.pop(key)[1].astype(np.float64))
        quantized.update({key[:-len(".weight")] + part: v for part, v in parts.items()})
        plain[key] = ("F32", x.astype(np.float32))
    path = folder(tmp_path / "quantized", quantized, config)
    want = logits(folder(tmp_path / "plain", plain, None), "f32")
    assert np.abs(logits(path, "f32") - want).max() <= 1e-5 * want.std()
    assert np.abs(logits(path, "auto") - want).max() <= 0.2 * want.std()


def test_other_methods_are_refused(tmp_path):
    plain = {k: ("F32", v) for k, v in read_safetensors(os.path.join(SOURCE, "model.safetensors")).items()}
    path = folder(tmp_path / "m", plain, {"quant_method": "bitsandbytes"})
    p = subprocess.run([FORNAX, "logits", path, "--tokens", "1"], capture_output=True, timeout=60)
    assert p.returncode == 1 and b"bitsandbytes" in p.stderr
