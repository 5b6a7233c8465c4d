#!/usr/bin/env python3
"""Makes dequant_grids.bin: blocks of the IQ and TQ types and their values, by the package gguf.  Run in this folder.

    type name (16 bytes, zero padded) | n_bytes u32 | n_elems u32 | bytes | f32 values; repeated"""
import struct

import gguf
import numpy as np

rng = np.random.default_rng(11)
QT = gguf.GGMLQuantizationType
SCALE_AT = {"IQ1_S": 0, "IQ1_M": None, "IQ2_XXS": 0, "IQ2_XS": 0, "IQ2_S": 0, "IQ3_XXS": 0, "IQ3_S": 0, "IQ4_XS": 0,
            "TQ1_0": 52, "TQ2_0": 64}
N = 5

with open("dequant_grids.bin", "wb") as f:
    for name, at in SCALE_AT.items():
        size = gguf.GGML_QUANT_SIZES[QT[name]][1]
        raw = rng.integers(0, 256, (N, size), dtype=np.uint8)
        d = rng.normal(0, 0.1, N).astype(np.float16)
        d[0], d[1] = np.float16(3e-6), np.float16(-2.5)
        if at is None:       # the upper nibbles of four 16-bit scales
            s = raw[:, 48:].copy().view(np.uint16)
            for i in range(4):
                s[:, i] = s[:, i] & 0x0FFF | (d.view(np.uint16) >> np.uint16(4 * i) & np.uint16(15)) << np.uint16(12)
            raw[:, 48:] = s.view(np.uint8)
        else:
            raw[:, at:at + 2] = d.view(np.uint8).reshape(N, 2)
        raw = raw.reshape(1, -1)
        x = gguf.dequantize(raw, QT[name]).astype(np.float32).ravel()
        f.write(name.encode().ljust(16, b"\0") + struct.pack("<II", raw.size, x.size) + raw.tobytes() + x.tobytes())
