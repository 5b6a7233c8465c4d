#!/usr/bin/env python3
"""Makes quantize.bin: rows and their blocks by the reference quantizers of the package gguf, and of what it lacks
by the package llama_cpp (without an importance matrix).  Run in this folder.

    type name (16 bytes, zero padded) | n_elems u32 | n_bytes u32 | f32 values | bytes; repeated"""
import ctypes
import os
import struct

import gguf
import llama_cpp
import numpy as np

rng = np.random.default_rng(5)
rows = np.concatenate([rng.normal(0, 0.05, 256), rng.standard_t(2, 128) * 0.01, np.zeros(32), np.abs(rng.normal(0, 1, 32)),
                       -np.abs(rng.normal(0, 1, 32)), rng.normal(0, 1e-6, 32), np.full(32, 0.25),
                       np.where(np.arange(32) % 2, 3.0, -3.0), np.arange(32) - 16, rng.normal(0, 1000, 32)]).astype(np.float32)
with open("quantize.bin", "wb") as f:
    for name in "F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0".split():
        raw = gguf.quantize(rows.reshape(1, -1), gguf.GGMLQuantizationType[name]).view(np.uint8)
        f.write(name.encode().ljust(16, b"\0") + struct.pack("<II", rows.size, raw.size) + rows.tobytes() + raw.tobytes())
    more = np.concatenate([rows, rng.laplace(0, 0.02, 64), rng.normal(0, 0.1, 64) + 0.3]).astype(np.float32)
    ggml = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]
    for name in "Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL".split():
        t = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[t]
        raw = np.zeros(more.size // block * size, np.uint8)
        ggml.ggml_quantize_chunk(int(t), more.ctypes.data, raw.ctypes.data, 0, 1, more.size, None)
        f.write(name.encode().ljust(16, b"\0") + struct.pack("<II", more.size, raw.size) + more.tobytes() + raw.tobytes())
