"""Graphs run by build/unit/graphrun: cases go in, results come out as NumPy arrays; distances in ulps."""
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np

from conftest import FORNAX

GRAPHRUN = Path(FORNAX).resolve().parent / "unit/graphrun"
DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
          "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
          "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
NAMES = {np.dtype(t): name for name, t in DTYPES.items()}
FLOATS = ["f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"]


def has_llvm():
    """Whether the build under test makes code."""
    return bool(list(Path(FORNAX).resolve().parent.glob("libfornax-llvm.so*")))


def name_of(array):
    return NAMES[array.dtype]


def is_float(name):
    return name in FLOATS


def to_dtype(x, name):
    """Doubles rounded once to a dtype: by way of f32 rounded to odd for the small ones."""
    x = np.asarray(x, np.float64)
    if name in ("f64", "f32"):
        return x.astype(DTYPES[name])
    with np.errstate(all="ignore"):
        f = x.astype(np.float32)
        bits = f.view(np.uint32).copy()
        inexact = np.isfinite(x) & (f.astype(np.float64) != x)
        away = inexact & (np.abs(f.astype(np.float64)) > np.abs(x))
        bits[away] -= 1
        bits[inexact] |= 1
        return bits.view(np.float32).reshape(x.shape).astype(DTYPES[name])


def ulps(a, b):
    """The distance of each pair of floats of one dtype in steps from one to the next; 0 for two NaNs."""
    bits = np.dtype(f"i{a.dtype.itemsize}")

    def place(x):
        i = np.ascontiguousarray(x).view(bits).astype(np.int64)
        low = np.int64(np.iinfo(bits).min)
        return np.where(i < 0, low - i, i)

    with np.errstate(all="ignore"):
        far = np.abs(place(a).astype(np.longdouble) - place(b).astype(np.longdouble)).astype(np.float64)
    both = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    one = np.isnan(a.astype(np.float64)) ^ np.isnan(b.astype(np.float64))
    return np.where(both, 0, np.where(one, np.inf, far))


class Runner:
    """graphrun in one execution, kept running."""

    def __init__(self, execution):
        self.execution = execution
        self.process = subprocess.Popen([str(GRAPHRUN), execution], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, text, inputs, symbols=None):
        """inputs: NumPy arrays, strided as they are. Arrays, or a string that says what was wrong."""
        text = text.encode()
        out = [f"case {len(text)} {len(symbols or {})} {len(inputs)}\n".encode(), text]
        out += [f"{k} {v}\n".encode() for k, v in (symbols or {}).items()]
        for x in inputs:
            base, offset, strides = storage(x)
            raw = base.tobytes()
            words = [name_of(x), x.ndim, *x.shape, *strides, offset, len(raw)]
            out += [" ".join(map(str, words)).encode() + b"\n", raw]
        self.process.stdin.write(b"".join(out))
        self.process.stdin.flush()
        return self.read()

    def read(self):
        read = self.process.stdout
        words = read.readline().split()
        assert words, f"graphrun {self.execution} ended with {self.process.wait()}"
        if words[0] == b"fault":
            return read.read(int(words[2])).decode()
        results = []
        for _ in range(int(words[1])):
            dtype, rank, *rest = read.readline().split()
            shape = [int(n) for n in rest[:int(rank)]]
            raw = read.read(int(rest[-1]))
            results.append(np.frombuffer(raw, DTYPES[dtype.decode()]).reshape(shape))
        return results

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def storage(x):
    """What x is a view of, and where its first element lies there, in elements; its strides in elements."""
    strides = [s // x.itemsize for s in x.strides]
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base is x or not base.flags.c_contiguous or base.dtype != x.dtype:
        x = np.ascontiguousarray(x).reshape(x.shape)
        return x, 0, [s // x.itemsize for s in x.strides]
    offset = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.itemsize
    return base, offset, strides
