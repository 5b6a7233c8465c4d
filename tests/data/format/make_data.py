#!/usr/bin/env python3
"""Makes the files of this folder; their values come from the packages gguf, numpy,
ml_dtypes and safetensors, not from Fornax.  Run in this folder.

    dequant.bin  type name (16 bytes, zero padded) | n_bytes u32 | n_elems u32 | bytes | f32 values; repeated
    narrow.bin   f32 x | f16 u16 | bf16 u16 | e4m3 u8 | e5m2 u8; repeated
    tiny.gguf    one key of each type, tensors of most types
    tiny.safetensors
Printed: hashes (FNV-1a) of the exhaustive tables in test_dtype.c."""
import struct

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(7)
QT = gguf.GGMLQuantizationType
BLOCKS = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
# where the f16 scales stand in a block
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}


def blocks(name, n):
    """n random blocks whose scales are finite, some of them subnormal or zero."""
    elems, size = gguf.GGML_QUANT_SIZES[QT[name]]
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in SCALES.get(name, []):
        d = rng.normal(0, 0.1, n).astype(np.float16)
        d[0] = np.float16(3e-6)
        raw[:, at:at + 2] = d.view(np.uint8).reshape(n, 2)
    if name == "F32":
        raw = rng.normal(0, 1, n).astype(np.float32).view(np.uint8).reshape(n, 4)
    if name == "F16":
        raw = np.array([0, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfc00, 0x3c00, 0x7e00], np.uint16).view(np.uint8)
    return raw.reshape(1, -1)


with open("dequant.bin", "wb") as f:
    for name in BLOCKS:
        raw = blocks(name, 3 if gguf.GGML_QUANT_SIZES[QT[name]][0] == 256 else 5)
        x = gguf.dequantize(raw, QT[name]).astype(np.float32).ravel()
        f.write(name.encode().ljust(16, b"\0") + struct.pack("<II", raw.size, x.size) + raw.tobytes() + x.tobytes())

x = np.concatenate([
    rng.normal(0, 1, 200), rng.normal(0, 1, 200) * 2.0 ** rng.integers(-30, 20, 200),
    rng.normal(0, 1, 100) * 1e38, rng.normal(0, 1, 50) * 1e-39,
    [0.0, -0.0, np.inf, -np.inf, 65504, 65519.996, 65520, -65520, 65536, 448, 464, 464.00003, 480, -464.5, 57344, 61439.996,
     61440, 6.1035e-5, 6.097e-5, 2.0 ** -24, 2.0 ** -25, 2.0 ** -25 * 1.0001, 2.0 ** -9, 2.0 ** -10, 2.0 ** -10 * 1.0001,
     2.0 ** -16, 2.0 ** -17, 2.0 ** -17 * 1.0001, 1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 1 + 2.0 ** -11, 1 + 3 * 2.0 ** -11,
     1 + 2.0 ** -4, 1 + 3 * 2.0 ** -4, 1 + 2.0 ** -3, 1 + 3 * 2.0 ** -3]]).astype(np.float32)
for e in range(-12, 9):        # ties of the small formats
    x = np.concatenate([x, (2.0 ** e * (1 + np.arange(0, 16) / 16)).astype(np.float32)])
with open("narrow.bin", "wb") as f, np.errstate(all="ignore"):
    cols = [x.astype(t).view(u) for t, u in ((np.float16, np.uint16), (ml_dtypes.bfloat16, np.uint16),
                                            (ml_dtypes.float8_e4m3fn, np.uint8), (ml_dtypes.float8_e5m2, np.uint8))]
    for row in zip(x, *cols):
        f.write(struct.pack("<fHHBB", *row))


def fnv(x):
    """Of the bits of f32 values, any NaN as 0x7fc00000."""
    bits = x.view(np.uint32).copy()
    bits[np.isnan(x)] = 0x7FC00000
    h = 0xCBF29CE484222325
    for b in bits.tobytes():
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


u8, u16 = np.arange(256, dtype=np.uint8), np.arange(65536, dtype=np.uint16)
print("f16  %#x" % fnv(u16.view(np.float16).astype(np.float32)))
print("bf16 %#x" % fnv(u16.view(ml_dtypes.bfloat16).astype(np.float32)))
print("e4m3 %#x" % fnv(u8.view(ml_dtypes.float8_e4m3fn).astype(np.float32)))
print("e5m2 %#x" % fnv(u8.view(ml_dtypes.float8_e5m2).astype(np.float32)))

w = gguf.GGUFWriter("tiny.gguf", "test")
VT = gguf.GGUFValueType
w.add_uint8("t.u8", 200)
w.add_int8("t.i8", -100)
w.add_uint16("t.u16", 60000)
w.add_int16("t.i16", -30000)
w.add_uint32("t.u32", 4000000000)
w.add_int32("t.i32", -2000000000)
w.add_uint64("t.u64", 18000000000000000000)
w.add_int64("t.i64", -9000000000000000000)
w.add_float32("t.f32", 0.1)
w.add_float64("t.f64", 0.1)
w.add_bool("t.bool", True)
w.add_string("t.str", "grüße")
w.add_array("t.ints", [1, -2, 3])
w.add_array("t.floats", [0.5, -1.5])
w.add_array("t.bools", [True, False, True])
w.add_array("t.strs", ["a", "", "日本"])
w.add_array("t.long", list(range(100)))
w.add_key_value("t.u64s", [1, 2 ** 63], VT.ARRAY, VT.UINT64)
for name in BLOCKS[3:]:
    elems, size = gguf.GGML_QUANT_SIZES[QT[name]]
    w.add_tensor(name.lower(), blocks(name, 4).reshape(2, 2 * size), raw_dtype=QT[name])
w.add_tensor("f32", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
w.add_tensor("f16", np.arange(5, dtype=np.float16))
w.add_tensor("bf16", rng.integers(0, 0x7F00, (3, 2), dtype=np.uint16).view(np.uint8).reshape(3, 4), raw_dtype=QT.BF16)
w.add_tensor("i32", np.arange(6, dtype=np.int32).reshape(1, 2, 3))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()

save_file({"a.f32": np.arange(6, dtype=np.float32).reshape(2, 3), "b.f16": np.ones((4,), np.float16),
           "c.bf16": np.full((2, 1, 2), 1.5, ml_dtypes.bfloat16), "d.i64": np.array(-5, np.int64),
           "e.u8": np.arange(3, dtype=np.uint8), "f.bool": np.array([True, False]), "g.empty": np.zeros((0, 4), np.float32),
           "h.f8": np.array([1, 2, 448], ml_dtypes.float8_e4m3fn), "i.rank5": np.zeros((1, 2, 1, 2, 1), np.int16),
           "j.f64": np.array([0.1]), "k.i8": np.array([-1], np.int8), "l.i32": np.array([7, 8], np.int32)},
          "tiny.safetensors", {"format": "pt", "note": "made by make_data.py"})
