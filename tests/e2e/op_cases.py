"""Ops of graphs with operands, and what NumPy makes of them: an independent reference for tests/e2e/test_ops.py.

A case is an op, its attributes as text, its operands, the results, and how far (in ulps of the result's
dtype) an execution may be from them. Floats are computed in f64 and rounded once."""
import itertools
import math

import gguf
import gguf.quants
import numpy as np

from op_runs import DTYPES, FLOATS, is_float, name_of, to_dtype

RNG = np.random.default_rng(7)
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
NUMBERS = INTS + FLOATS
BLOCKS = [getattr(gguf.GGMLQuantizationType, name)
          for name in "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S "
          "IQ3_XXS IQ3_S TQ1_0 TQ2_0".split() if hasattr(gguf.GGMLQuantizationType, name)]


class Case:
    def __init__(self, op, inputs, want, attrs="", ulp=0, symbols=None, symbolic=True, types=None):
        self.op, self.inputs, self.attrs, self.ulp = op, inputs, attrs, ulp
        self.want = want if isinstance(want, list) else [want]
        self.symbols = symbols or {}
        self.symbolic = symbolic            # its sizes may be named, equal ones alike

    def __repr__(self):
        types = ", ".join(f"{name_of(x)}{list(x.shape)}" for x in self.inputs if x is not None)
        return f"{self.op}({types}; {self.attrs})"


def numbers(name, *shape, low=-3.0, high=3.0):
    """Some of the dtype's numbers."""
    if name == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if is_float(name):
        return to_dtype(RNG.uniform(low, high, shape), name)
    info = np.iinfo(DTYPES[name])
    return RNG.integers(max(info.min, -9), min(info.max, 9) + 1, shape).astype(DTYPES[name])


def wide(name, *shape):
    """Numbers of all sizes, with the ends of the dtype and, of floats, infinities and NaN."""
    if not is_float(name):
        info = np.iinfo(DTYPES[name])
        x = RNG.integers(info.min, info.max, shape, DTYPES[name], endpoint=True)
        x.flat[:4] = [info.min, info.max, 0, 1][:x.size]
        return x
    x = to_dtype(RNG.uniform(-4, 4, shape) * 10.0 ** RNG.integers(-2, 3, shape), name)
    x.flat[:5] = np.array([0, -0.0, np.inf, -np.inf, np.nan])[:x.size].astype(DTYPES[name])
    return x


def f64(x):
    return x.astype(np.float64)


def sums_in(name):
    return np.float64 if is_float(name) else DTYPES[name]


# ---- Element by element -------------------------------------------------------------------------

SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((4, 1, 3), (2, 1)), ((), (5,)), ((0, 3), (1, 3)), ((7,), ())]


def python_pow(a, b, dtype):
    """Of integers, wrapped; a negative exponent gives 1 / a^-b cut to an integer, 0 where a is 0."""
    info = np.iinfo(dtype)
    a, b = int(a), int(b)
    if b < 0:
        return dtype.type(0 if abs(a) != 1 else 1 if a == 1 or b % 2 == 0 else -1)
    y = pow(a, b, 1 << info.bits)
    return dtype.type(y - (1 << info.bits) if y > info.max else y)


def int_pow(a, b):
    return np.vectorize(lambda p, q: python_pow(p, q, a.dtype), otypes=[a.dtype])(a, b) if np.broadcast(a, b).size \
        else np.broadcast_to(a * b, np.broadcast(a, b).shape)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def binary_cases():
    for op, fn in BINARY.items():
        for name, (a, b) in itertools.product(NUMBERS, SHAPES):
            x, y = wide(name, *a), wide(name, *b)
            with np.errstate(all="ignore"):
                want = to_dtype(fn(f64(x), f64(y)), name) if is_float(name) else fn(x, y)
            yield Case(op, [x, y], want)
    for name, (a, b) in itertools.product(NUMBERS, SHAPES[:3]):
        x, y = numbers(name, *a), numbers(name, *b)
        with np.errstate(all="ignore"):
            if is_float(name):
                yield Case("mod", [x, y], to_dtype(np.mod(f64(x), f64(y)), name), ulp=1)
                yield Case("div", [x, y], to_dtype(f64(x) / f64(y), name))
                yield Case("pow", [abs(x), y], to_dtype(np.power(f64(abs(x)), f64(y)), name), ulp=4)
            else:
                yield Case("mod", [x, y], np.mod(x, y))
                yield Case("div", [x, y], f64(x) / f64(y))
                yield Case("pow", [x, y], int_pow(x, y))
    for a, b in [("i8", "i32"), ("u8", "i16"), ("u8", "f16"), ("bf16", "f32"), ("f8e4m3", "bf16"), ("i32", "f64"), ("f16", "f64")]:
        x, y = numbers(a, 2, 3), numbers(b, 3)
        want = to_dtype(f64(x) + f64(y), b) if is_float(b) else (x.astype(y.dtype) + y)
        yield Case("add", [x, y], want)
        yield Case("greater", [x, y], f64(x) > f64(y))


def ranks_cases():
    """Sums in rank order, each rounded to f32 (f64 of f64), the last one once more to the dtype."""
    for name, shape, n in itertools.product(NUMBERS, [(2, 3), (5,), (), (0, 3), (3, 1, 33)], [1, 2, 3, 9]):
        x = [wide(name, *shape) for _ in range(n)]
        kept = DTYPES["f64" if name == "f64" else "f32"] if is_float(name) else DTYPES[name]
        with np.errstate(all="ignore"):
            total = x[0].astype(kept)
            for part in x[1:]:
                total = (total + part.astype(kept)).astype(kept)
            yield Case("all_reduce", x, to_dtype(f64(total), name) if is_float(name) else total)
    x = [np.array([v], np.float32) for v in (1e8, 1, -1e8, 1)]
    yield Case("all_reduce", x, np.array([1], np.float32))
    x = [np.array([v], DTYPES["bf16"]) for v in (256, 1, 1, -256)]
    yield Case("all_reduce", x, np.array([2], DTYPES["bf16"]))


def compare_cases():
    table = {"equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "greater_equal": np.greater_equal}
    for op, fn in table.items():
        for name in NUMBERS:
            for a, b in SHAPES:
                x, y = wide(name, *a), wide(name, *b)
                with np.errstate(all="ignore"):
                    yield Case(op, [x, y], fn(f64(x), f64(y)) if is_float(name) else fn(x, y))
    for op, fn in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
                   "equal": np.equal}.items():
        for a, b in SHAPES:
            x, y = numbers("bool", *a), numbers("bool", *b)
            yield Case(op, [x, y], fn(x, y))
    x = numbers("bool", 3, 4)
    yield Case("logical_not", [x], ~x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf, otypes=[np.float64])
UNARY = {  # function, ulps, lowest and highest operand
    "exp": (np.exp, 2, -8, 8), "log": (np.log, 2, 0.01, 50), "log1p": (np.log1p, 2, -0.9, 9), "sqrt": (np.sqrt, 0, 0, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1, 0.1, 9), "sin": (np.sin, 2, -6, 6), "cos": (np.cos, 2, -6, 6),
    "acos": (np.arccos, 4, -1, 1), "tanh": (np.tanh, 2, -5, 5), "atanh": (np.arctanh, 4, -0.9, 0.9), "erf": (erf, 2, -3, 3),
    "ceil": (np.ceil, 0, -5, 5), "floor": (np.floor, 0, -5, 5), "round": (np.rint, 0, -5, 5), "trunc": (np.trunc, 0, -5, 5),
    "gelu": (lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, 32, -2, 4),
    "gelu_tanh": (lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2, 8, -2, 4),
    "gelu_quick": (lambda x: x * sigmoid(1.702 * x), 4, -4, 4), "sigmoid": (sigmoid, 2, -8, 8),
    "silu": (lambda x: x * sigmoid(x), 4, -8, 8), "relu2": (lambda x: np.maximum(x, 0) ** 2, 1, -4, 4)}


def unary_cases():
    for op, (fn, ulp, low, high) in UNARY.items():
        for name in FLOATS:
            for shape in [(4, 5), (), (0, 2), (33,)]:
                x = numbers(name, *shape, low=low, high=high)
                with np.errstate(all="ignore"):
                    yield Case(op, [x], to_dtype(fn(f64(x)), name), ulp=ulp)
    for op, fn in {"abs": np.abs, "negate": np.negative, "relu": lambda x: np.maximum(x, 0)}.items():
        for name in NUMBERS:
            if op == "negate" and name[0] == "u":
                continue
            x = wide(name, 3, 5)
            with np.errstate(all="ignore"):
                yield Case(op, [x], to_dtype(fn(f64(x)), name) if is_float(name) else fn(x))
    for name in FLOATS:
        x = wide(name, 3, 5)
        yield Case("is_nan", [x], np.isnan(f64(x)))
        yield Case("is_inf", [x], np.isinf(f64(x)))
        x = numbers(name, 3, 5)
        yield Case("scale", [x], to_dtype(f64(x) * 0.5, name), "factor=0.5")
        yield Case("clamp", [x], to_dtype(np.clip(f64(x), -1.5, 1.5), name), "limit=1.5")


def cast_one(x, name):
    if is_float(name_of(x)) and not is_float(name) and name != "bool":
        info, v = np.iinfo(DTYPES[name]), f64(x)
        out = np.zeros(x.shape, DTYPES[name])
        for i in np.ndindex(x.shape):
            out[i] = 0 if np.isnan(v[i]) else info.max if v[i] >= info.max else info.min if v[i] <= info.min else int(v[i])
        return out
    if is_float(name) and name_of(x) in ("i64", "u64") and name != "f64":
        return np.array([round_int(int(v), name) for v in x.flat], DTYPES[name]).reshape(x.shape)
    if is_float(name):
        return to_dtype(f64(x), name)
    return (f64(x) != 0) if name == "bool" else x.astype(DTYPES[name])


def round_int(v, name):
    """An integer to a small float, rounded once: more bits than f64 has go into one that says they were there."""
    size = abs(v)
    if size >> 53:
        size = (size & ~2047) | (2048 if size & 2047 else 0)
    return to_dtype(np.float64(math.copysign(size, v)), name)[()]


def cast_cases():
    for a, b in itertools.product(NUMBERS + ["bool"], NUMBERS + ["bool"]):
        x = numbers("bool", 3, 4) if a == "bool" else wide(a, 3, 4)
        with np.errstate(all="ignore"):
            yield Case("cast", [x], cast_one(x, b), b)
    for name in ["f32", "bf16", "i8", "bool"]:
        p, a, b = numbers("bool", 2, 1), numbers(name, 3), numbers(name, 2, 3)
        yield Case("where", [p, a, b], np.where(p, a, b))
    p, a, b = numbers("bool", 4), numbers("f32", 4), numbers("bf16", 2, 1)
    yield Case("where", [p, a, b], np.where(p, a, b.astype(np.float32)))
    for name in ["f32", "i16", "f16"]:
        a, b = numbers(name, 4), numbers(name, 3)
        yield Case("outer", [a, b], to_dtype(np.outer(f64(a), f64(b)), name) if is_float(name) else np.outer(a, b))


# ---- Shapes, parts, joins ---------------------------------------------------------------------------

def braces(items):
    return "{" + ", ".join(str(i) for i in items) + "}"


def view_cases():
    for name in ["f32", "bf16", "i8", "bool", "f64"]:
        x = numbers(name, 2, 3, 4)
        yield Case("reshape", [x], x.reshape(4, 6), f"{name}[4,6]", symbolic=False)
        yield Case("rebind", [x], x, "shape={2, m, 4}", symbols={"m": 3}, symbolic=False)
        yield Case("broadcast_to", [x[:, :1]], np.broadcast_to(x[:, :1], (5, 2, 3, 4)), "shape={5, 2, 3, 4}", symbolic=False)
        yield Case("squeeze", [x[:, :1]], x[:, 0], "axis=-2")
        yield Case("unsqueeze", [x], x[:, None], "axis=1")
        yield Case("unsqueeze", [x], x[..., None], "axis=-1")
        yield Case("transpose", [x], x.transpose(0, 2, 1))
        yield Case("transpose", [x], x.transpose(2, 1, 0), "a=0, b=-1")
        yield Case("permute", [x], x.transpose(2, 0, 1), "axes={2, -3, 1}")
        yield Case("flatten", [x], x.reshape(2, 12), "first=1")
        yield Case("flatten", [x], x.reshape(24))
        yield Case("transfer", [x], x)
        yield Case("slice", [x], x[:, 1:3], "axis=1, start=1, length=2", symbolic=False)
        yield Case("slice", [x], x[..., 3::-2], "start=3, length=2, step=-2", symbolic=False)
        yield Case("slice", [x, np.array(1, np.int64)], x[:, 1:2], "axis=1, start=0, length=1", symbolic=False)
        yield Case("slice", [x], x[:, :0], "axis=1, start=0, length=0", symbolic=False)
        yield Case("concat", [x, x[:, :1], x[:, :0]], np.concatenate([x, x[:, :1], x[:, :0]], 1), "axis=1")
        yield Case("stack", [x, x], np.stack([x, x], -1))
        yield Case("stack", [x, x], np.stack([x, x], 1), "axis=1")
        yield Case("split", [x], [x[:, :1], x[:, 1:]], "axis=1, sizes={1, 2}", symbolic=False)
        yield Case("chunk", [x], [x[..., :2], x[..., 2:]], "parts=2", symbolic=False)
        yield Case("tile", [x], np.tile(x, (2, 1, 3)), "repeats={2, 1, 3}")
        yield Case("repeat_interleave", [x], np.repeat(x, 2, 1), "axis=1, times=2")
        yield Case("repeat_interleave", [x, np.array([2, 0, 1])], np.repeat(x, [2, 0, 1], 1), "axis=1, out_dim=3", symbolic=False)
        yield Case("repeat_interleave", [x, np.array([3, 1], np.uint8)], np.repeat(x, [3, 1], 0), "axis=0, out_dim=k", symbols={"k": 4})
        yield Case("repeat_interleave", [x, np.array([2], np.int32)], np.repeat(x, 2, 2), "out_dim=k", symbols={"k": 8})
        yield Case("repeat_interleave", [x, np.zeros(4, np.int64)], x[..., :0], "out_dim=k", symbols={"k": 0})
        yield Case("band_part", [x], np.tril(x, 0) * (np.triu(np.ones((3, 4)), -1) > 0), "num_lower=1, num_upper=0")
        yield Case("band_part", [x], np.where(np.tril(np.ones((3, 4)), 1) > 0, np.zeros_like(x), x), "num_upper=1, exclude=true")
        pads = "paddings={0, 1, 2, 0, 1, 3}"
        width = [(0, 1), (2, 0), (1, 3)]
        yield Case("pad", [x], np.pad(x, width, constant_values=1), pads + ", value=1")
        yield Case("pad", [x], np.pad(x, width, "reflect"), pads + ", mode=reflect", symbolic=False)
        yield Case("pad", [x], np.pad(x, width, "edge"), pads + ", mode=edge", symbolic=False)
    x = numbers("f32", 3, 8)
    yield Case("as_interleaved_complex", [x], x.reshape(3, 4, 2), symbolic=False)
    yield Case("shape_to_tensor", [], np.array([3, 5]), "shape={3, 5}")
    for name in ["i32", "f32", "f64"]:
        a = [np.array(v, DTYPES[name]) for v in (2, 9, 3)]
        yield Case("range", a, np.arange(2, 9, 3).astype(DTYPES[name]), f"{name}[3]")
        a = [np.array(v, DTYPES[name]) for v in (5, -2, -2)]
        yield Case("range", a, np.arange(5, -2, -2).astype(DTYPES[name]), f"{name}[n]", symbols={"n": 4})
        a = [np.array(v, DTYPES[name]) for v in (3, 3, 2)]
        yield Case("range", a, np.zeros(0, DTYPES[name]), f"{name}[n]", symbols={"n": 0})


# ---- Indices ------------------------------------------------------------------------------------------

SCATTERS = {"": lambda old, new: new, "_add": np.add, "_max": np.maximum, "_min": np.minimum, "_mul": np.multiply}


def scatter(x, updates, indices, axis, fn):
    y = x.copy()
    for i in np.ndindex(*updates.shape):
        k = list(i)
        k[axis] = indices[i]
        with np.errstate(all="ignore"):
            y[tuple(k)] = to_dtype(fn(f64(y[tuple(k)]), f64(updates[i])), name_of(x)) if is_float(name_of(x)) else fn(y[tuple(k)], updates[i])
    return y


def scatter_nd(x, updates, indices, fn):
    y = x.copy()
    for i in np.ndindex(*indices.shape[:-1]):
        k = tuple(indices[i])
        with np.errstate(all="ignore"):
            y[k] = to_dtype(fn(f64(y[k]), f64(updates[i])), name_of(x)) if is_float(name_of(x)) else fn(y[k], updates[i])
    return y


def index_cases():
    for name, ints in itertools.product(["f32", "bf16", "i16", "bool"], ["i64", "i32", "u8"]):
        x = numbers(name, 3, 5, 4)
        k = RNG.integers(0, 5, (2, 3)).astype(DTYPES[ints])
        yield Case("gather", [x, k], np.take(x, k.astype(np.int64), 1), "axis=1")
        yield Case("gather", [x, k[0, 0]], np.take(x, int(k[0, 0]), -2), "axis=-2")
    x = numbers("f32", 3, 5, 4)
    k = np.array([[-1, 0], [2, -5]])
    yield Case("gather", [x, k], np.take(x, k, 1, mode="wrap"), "axis=1", symbolic=False)
    yield Case("gather", [x, np.zeros((0,), np.int64)], x[:0], "axis=0")
    yield Case("gather_nd", [x, np.array([[1, 2], [0, -1]])], x[[1, 0], [2, -1]], symbolic=False)
    yield Case("gather_nd", [x, np.array([[[1]], [[2]], [[3]]])], np.stack([x[i, [i + 1]] for i in range(3)]), "batch_dims=1", symbolic=False)
    for tail, fn in SCATTERS.items():
        for name in ["f32", "f16", "i8", "i64"]:
            x, updates = numbers(name, 4, 5), numbers(name, 4, 3)
            k = RNG.integers(-5, 5, (4, 3))
            yield Case("scatter" + tail, [x, updates, k], scatter(x, updates, k, 1, fn))
            x, updates, k = numbers(name, 4, 5, 2), numbers(name, 6, 2), np.stack([RNG.integers(0, 4, 6), RNG.integers(0, 5, 6)], 1)
            yield Case("scatter_nd" + tail, [x, updates, k], scatter_nd(x, updates, k, fn), symbolic=False)
    for shape in [(2, 3), (3,)]:
        x, mask = numbers("f32", 2, 3), numbers("bool", *shape)
        want, updates = x.copy(), numbers("f32", 7)
        full = np.broadcast_to(mask, x.shape)
        want[full] = updates[:full.sum()]
        yield Case("masked_scatter", [x, mask, updates], want)
    for name in ["bool", "f32", "i8"]:
        x = (numbers(name, 3, 4) * numbers("bool", 3, 4)).astype(DTYPES[name])
        want = np.argwhere(x)
        yield Case("nonzero", [x], want, "out_dim=k", symbols={"k": len(want)})
    for x in [np.array([np.nan, 0, -0.0, np.inf, 1e-320]), np.zeros((2, 3), np.float16), np.zeros((0, 4), np.int64),
              numbers("bf16", 2, 3, 4), np.array([0, 1 << 63], np.uint64), np.arange(70).astype(np.int16)]:
        want = np.argwhere(f64(x))
        yield Case("nonzero", [x], want, "out_dim=k", symbols={"k": len(want)})
        yield Case("nonzero", [x], want, f"out_dim={len(want)}")


def order_cases():
    for name in NUMBERS:
        x = numbers(name, 9)
        v = f64(x)
        yield Case("argsort", [x], np.argsort(v, kind="stable"))
        yield Case("argsort", [x], np.argsort(-v, kind="stable"), "ascending=false")
        x = numbers(name, 3, 7, 2)
        v = f64(x)
        for op, sign in (("top_k", -1), ("bottom_k", 1)):
            k = np.argsort(sign * v, axis=1, kind="stable")[:, :3]
            yield Case(op, [x], [np.take_along_axis(x, k, 1), k], "k=3, axis=1", symbolic=False)
    x = np.array([1, np.nan, -2, np.inf], np.float32)
    yield Case("argsort", [x], np.array([2, 0, 3, 1]))
    yield Case("top_k", [x], [x[[1, 3]], np.array([1, 3])], "k=2")
    boxes = np.array([[[0, 0, 10, 10], [10, 9, 0, 0], [20, 20, 30, 30], [0, 20, 8, 30]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7, 0.1], [0.2, 0.9, 0.3, 0.6]]], np.float32)
    want = np.array([[0, 0, 0], [0, 0, 2], [0, 1, 1], [0, 1, 3]])
    yield Case("non_maximum_suppression", [boxes, scores], want,
               "max_boxes=2, iou_threshold=0.5, score_threshold=0.25, out_dim=4", symbolic=False)
    for name, shape, most in [("f32", (2, 3, 9), 4), ("f16", (1, 2, 12), 100), ("f64", (3, 1, 7), 1), ("bf16", (2, 2, 8), 0), ("f32", (1, 2, 0), 3)]:
        boxes, scores = numbers(name, shape[0], shape[2], 4, low=0, high=2), numbers(name, *shape, low=0, high=1)
        want = suppressed(f64(boxes), f64(scores), most, 0.125, 0.25)
        yield Case("non_maximum_suppression", [boxes, scores], want, f"max_boxes={most}, iou_threshold=0.125, score_threshold=0.25, out_dim=k",
                   symbols={"k": len(want)}, symbolic=False)


def suppressed(boxes, scores, most, overlap, threshold):
    """[k, 3]: batch, class, box; by falling scores."""
    out = []
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    area = np.prod(high - low, -1)
    for n, c in np.ndindex(scores.shape[:2]):
        kept = []
        for b in np.argsort(-scores[n, c], kind="stable"):
            def shared(other):
                both = np.prod(np.maximum(np.minimum(high[n, b], high[n, other]) - np.maximum(low[n, b], low[n, other]), 0))
                return both / (area[n, b] + area[n, other] - both)

            if scores[n, c, b] > threshold and len(kept) < most and all(shared(other) <= overlap for other in kept):
                kept.append(b)
        out += [[n, c, b] for b in kept]
    return np.array(out, np.int64).reshape(-1, 3)


# ---- Reductions and norms ------------------------------------------------------------------------------

def reduce_cases():
    for name in NUMBERS:
        for axis, shape in [(-1, (3, 7)), (0, (5, 2)), (1, (2, 40, 3))]:
            x = numbers(name, *shape)
            at = f"axis={axis}"
            many = dict(ulp=4 if is_float(name) else 0)
            with np.errstate(all="ignore"):
                total, product = (np.sum(f64(x), axis, keepdims=True), np.prod(f64(x), axis, keepdims=True))
                if is_float(name):
                    yield Case("sum", [x], to_dtype(total, name), at, ulp=cancel(x, axis, total, name))
                    yield Case("prod", [x], to_dtype(product, name), at, **(dict(ulp=40) if name in ("f32", "f64") else many))
                    yield Case("mean", [x], to_dtype(total / x.shape[axis], name), at, ulp=cancel(x, axis, total, name))
                else:
                    yield Case("sum", [x], np.sum(x, axis, x.dtype, keepdims=True), at)
                    yield Case("prod", [x], np.prod(x, axis, x.dtype, keepdims=True), at)
            v = f64(x)
            yield Case("reduce_max", [x], to_name(np.max(v, axis, keepdims=True), name), at)
            yield Case("reduce_min", [x], to_name(np.min(v, axis, keepdims=True), name), at)
            yield Case("argmax", [x], np.argmax(v, axis, keepdims=True), at)
            yield Case("argmin", [x], np.argmin(v, axis, keepdims=True), at)
        x = numbers(name, 3, 6)
        for (attrs, want), (_, sizes) in zip(cumsums(x), cumsums(abs(x))):
            yield Case("cumsum", [x], want, attrs, ulp=close(f64(want), f64(sizes), name) if is_float(name) else 0)
    x = np.array([[1, np.nan, 3], [5, 2, np.nan]], np.float32)
    yield Case("reduce_max", [x], np.max(x, 1, keepdims=True))
    yield Case("argmin", [x], np.argmin(x, 1, keepdims=True))
    yield Case("sum", [np.zeros((2, 0), np.float32)], np.zeros((2, 1), np.float32))
    yield Case("sum", [np.zeros((0, 3), np.float32)], np.zeros((0, 1), np.float32))


def to_name(x, name):
    return to_dtype(x, name) if is_float(name) else x.astype(DTYPES[name])


def cancel(x, axis, total, name):
    """How many ulps of the sum a sum in f32 (f64 for f64) may lose where numbers of both signs meet."""
    eps = 2.0 ** (-53 if name == "f64" else -24)
    own = {"f8e4m3": 2.0 ** -4, "f8e5m2": 2.0 ** -3, "f16": 2.0 ** -11, "bf16": 2.0 ** -8, "f32": 2.0 ** -24, "f64": 2.0 ** -53}[name]
    worst = np.max(np.sum(np.abs(f64(x)), axis, keepdims=True) / np.maximum(np.abs(total), 1e-30))
    return 1 + int(worst * x.shape[axis] * eps / own)


def cumsums(x):
    v = f64(x) if is_float(name_of(x)) else x
    for axis, exclusive, reverse in [(-1, False, False), (0, True, False), (1, True, True), (0, False, True)]:
        y = np.flip(v, axis) if reverse else v
        y = np.cumsum(y, axis, y.dtype)
        if exclusive:
            first, rest = np.zeros_like(np.take(y, [0], axis)), np.take(y, range(y.shape[axis] - 1), axis)
            y = np.concatenate([first, rest], axis)
        y = np.flip(y, axis) if reverse else y
        attrs = f"axis={axis}, exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}"
        yield attrs, to_dtype(y, name_of(x)) if is_float(name_of(x)) else y.astype(x.dtype)


def norm_cases():
    for name in ["f32", "bf16", "f16", "f64"]:
        x, w, b = numbers(name, 3, 8), numbers(name, 8), numbers(name, 8)
        v = f64(x)
        e = np.exp(v - v.max(0, keepdims=True))
        yield Case("softmax", [x], to_dtype(e / e.sum(0, keepdims=True), name), "axis=0", ulp=8)
        e = np.exp(v - v.max(1, keepdims=True))
        yield Case("softmax", [x], to_dtype(e / e.sum(1, keepdims=True), name), ulp=8)
        yield Case("logsoftmax", [x], to_dtype(v - v.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True)), name), ulp=16)
        scaled = v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5)
        yield Case("rmsnorm", [x, w], to_dtype(f64(to_dtype(scaled, name)) * f64(w), name), "eps=1e-5", ulp=8)
        yield Case("rmsnorm", [x, w], to_dtype(scaled * (f64(w) + 1), name), "eps=1e-5, offset=1, multiply_before_cast=true", ulp=8)
        mean, var = v.mean(1, keepdims=True), v.var(1, keepdims=True)
        want = (v - mean) / np.sqrt(var + 1e-5)
        yield Case("layernorm", [x, w, b], to_dtype(want * f64(w) + f64(b), name), "eps=1e-5", ulp=600)
        yield Case("layernorm", [x], to_dtype(want, name), "eps=1e-5", ulp=100)
        x = numbers(name, 2, 6, 3, 2)
        w, b = numbers(name, 6), numbers(name, 6)
        v = f64(x).reshape(2, 3, -1)
        v = ((v - v.mean(2, keepdims=True)) / np.sqrt(v.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
        want = v * f64(w)[:, None, None] + f64(b)[:, None, None]
        yield Case("group_norm", [x, w, b], to_dtype(want, name), "groups=3, eps=1e-5", ulp=600, symbolic=False)


# ---- Products and windows --------------------------------------------------------------------------------

def close(want, of, name):
    """Ulps that a sum of products may be off, where 'of' is the sum of their sizes."""
    own = {"f16": 2.0 ** -11, "bf16": 2.0 ** -8, "f32": 2.0 ** -24, "f64": 2.0 ** -53, "f8e4m3": 2.0 ** -4, "f8e5m2": 2.0 ** -3}[name]
    eps = 2.0 ** (-53 if name == "f64" else -24)
    return 2 + int(np.max(of / np.maximum(np.abs(want), 1e-30), initial=0) * 64 * eps / own)


def matmul_cases():
    shapes = [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,)),
              ((3, 0), (0, 2)), ((0, 4), (4, 2)), ((17, 33), (33, 19))]
    for name, (a, b) in itertools.product(["f32", "f64", "bf16", "f16", "f8e4m3", "i8", "i32", "u64"], shapes):
        x, y = numbers(name, *a), numbers(name, *b)
        if is_float(name):
            want = np.matmul(f64(x), f64(y))
            ulp = close(want, np.matmul(abs(f64(x)), abs(f64(y))), name)
            yield Case("matmul", [x, y], to_dtype(want, name), ulp=ulp)
        else:
            yield Case("matmul", [x, y], np.matmul(x, y))


def conv(x, w, strides, dilations, pads, groups, bias=None):
    """x [n, ..., c], w [..., c / groups, f]; any number of window axes."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), *[(pads[2 * i], pads[2 * i + 1]) for i in range(n)], (0, 0)])
    size = [(x.shape[1 + i] - dilations[i] * (w.shape[i] - 1) - 1) // strides[i] + 1 for i in range(n)]
    y = np.zeros((x.shape[0], *size, w.shape[-1]))
    c, f = w.shape[-2], w.shape[-1] // groups
    for r in np.ndindex(*w.shape[:n]):
        at = tuple(slice(r[i] * dilations[i], r[i] * dilations[i] + strides[i] * (size[i] - 1) + 1, strides[i]) for i in range(n))
        for g in range(groups):
            y[..., g * f:(g + 1) * f] += x[(slice(None), *at, slice(g * c, (g + 1) * c))] @ w[r][:, g * f:(g + 1) * f]
    return y if bias is None else y + bias


def conv_transpose(x, w, strides, dilations, pads, more):
    """w [r, s, f, c]"""
    h = [(x.shape[1 + i] - 1) * strides[i] + dilations[i] * (w.shape[i] - 1) + 1 + more[i] for i in range(2)]
    y = np.zeros((x.shape[0], *h, w.shape[2]))
    for r in np.ndindex(*w.shape[:2]):
        for i in np.ndindex(*x.shape[1:3]):
            y[:, i[0] * strides[0] + r[0] * dilations[0], i[1] * strides[1] + r[1] * dilations[1]] += x[:, i[0], i[1]] @ w[r].T
    return y[:, pads[0]:h[0] - pads[1], pads[2]:h[1] - pads[3]]


def conv_cases():
    for name in ["f32", "bf16", "f64"]:
        for strides, dilations, pads, groups in [((1, 1), (1, 1), (0, 0, 0, 0), 1), ((2, 1), (1, 2), (1, 0, 2, 1), 1),
                                                 ((1, 1), (1, 1), (1, 1, 1, 1), 2)]:
            x, w, b = numbers(name, 2, 7, 6, 4), numbers(name, 3, 2, 4 // groups, 6), numbers(name, 6)
            want = conv(f64(x), f64(w), strides, dilations, pads, groups, f64(b))
            ulp = close(want, conv(abs(f64(x)), abs(f64(w)), strides, dilations, pads, groups, abs(f64(b))), name)
            attrs = f"strides={braces(strides)}, dilations={braces(dilations)}, padding={braces(pads)}, groups={groups}"
            yield Case("conv2d", [x, w, b], to_dtype(want, name), attrs, ulp=ulp, symbolic=False)
            yield Case("conv2d", [x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), b], to_dtype(want, name).transpose(0, 3, 1, 2),
                       attrs + ", input_layout=channels_first, filter_layout=filters_first", ulp=ulp, symbolic=False)
        x, w = numbers(name, 1, 4, 5, 3, 2), numbers(name, 2, 3, 1, 2, 3)
        args = ((1, 2, 1), (2, 1, 1), (1, 0, 0, 1, 0, 0), 1)
        ulp = close(conv(f64(x), f64(w), *args), conv(abs(f64(x)), abs(f64(w)), *args), name)
        yield Case("conv3d", [x, w], to_dtype(conv(f64(x), f64(w), *args), name),
                   "strides={1, 2, 1}, dilations={2, 1, 1}, padding={1, 0, 0, 1, 0, 0}", ulp=ulp, symbolic=False)
        x, w = numbers(name, 2, 4, 3, 3), numbers(name, 3, 2, 5, 3)
        args = ((2, 1), (1, 2), (1, 0, 0, 1), (1, 0))
        ulp = close(conv_transpose(f64(x), f64(w), *args), conv_transpose(abs(f64(x)), abs(f64(w)), *args), name)
        yield Case("conv2d_transpose", [x, w], to_dtype(conv_transpose(f64(x), f64(w), *args), name),
                   "strides={2, 1}, dilations={1, 2}, padding={1, 0, 0, 1}, output_paddings={1, 0}", ulp=ulp, symbolic=False)


def pool(x, kernel, strides, dilations, pads, up, fn):
    """fn of the elements of a window, with None for padding."""
    h = [x.shape[1 + i] + pads[2 * i] + pads[2 * i + 1] - dilations[i] * (kernel[i] - 1) - 1 for i in range(2)]
    size = [(-(-h[i] // strides[i]) if up else h[i] // strides[i]) + 1 for i in range(2)]
    y = np.zeros((x.shape[0], *size, x.shape[3]))
    for i in np.ndindex(*y.shape):
        seen = []
        for r in np.ndindex(*kernel):
            at = [i[1 + k] * strides[k] + r[k] * dilations[k] - pads[2 * k] for k in range(2)]
            if all(0 <= at[k] < x.shape[1 + k] for k in range(2)):
                seen.append(x[i[0], at[0], at[1], i[3]])
            elif all(at[k] < x.shape[1 + k] + pads[2 * k + 1] for k in range(2)):
                seen.append(None)
        y[i] = fn(seen)
    return y


def pool_cases():
    def inside(seen):
        return [s for s in seen if s is not None]

    for name in ["f32", "bf16"]:
        x = numbers(name, 2, 7, 6, 3)
        for kernel, strides, dilations, pads, up in [((2, 3), (1, 1), (1, 1), (0, 0, 0, 0), False), ((3, 2), (2, 2), (1, 2), (1, 1, 1, 0), False),
                                                     ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), True)]:
            args = (f64(x), kernel, strides, dilations, pads, up)
            attrs = (f"kernel={braces(kernel)}, strides={braces(strides)}, dilations={braces(dilations)}, padding={braces(pads)}, "
                     f"ceil_mode={str(up).lower()}")
            counted = pool(*args, lambda seen: sum(inside(seen)) / len(seen))
            bare = pool(*args, lambda seen: sum(inside(seen)) / len(inside(seen)))
            sizes = pool(abs(args[0]), *args[1:], lambda seen: sum(inside(seen)) / len(inside(seen)))
            ulp = close(bare, sizes, name)
            yield Case("avg_pool2d", [x], to_dtype(counted, name), attrs, ulp=ulp, symbolic=False)
            yield Case("avg_pool2d", [x], to_dtype(bare, name), attrs + ", count_boundary=false", ulp=ulp, symbolic=False)
            yield Case("max_pool2d", [x], to_dtype(pool(*args, lambda seen: max(inside(seen))), name), attrs, symbolic=False)
    x = numbers("f32", 2, 12, 6)                 # 2 x 3 windows of 2 x 2 of 3 channels on an image of 3 x 4
    y = np.zeros((2, 3, 3, 4))
    for c, r, s, i, k in np.ndindex(3, 2, 2, 2, 3):
        y[:, c, i + r, k + s] += f64(x)[:, (c * 2 + r) * 2 + s, i * 3 + k]
    yield Case("fold", [x], to_dtype(y, "f32"), "output_size={3, 4}, kernel={2, 2}", ulp=64, symbolic=False)


def bilinear(x, v, u):
    h, w = x.shape[:2]
    if v < -1 or v > h or u < -1 or u > w:
        return np.zeros(x.shape[2])
    v, u = min(max(v, 0), h - 1), min(max(u, 0), w - 1)
    v0, u0 = int(v), int(u)
    v1, u1 = min(v0 + 1, h - 1), min(u0 + 1, w - 1)
    a, b = v - v0, u - u0
    return (1 - a) * (1 - b) * x[v0, u0] + (1 - a) * b * x[v0, u1] + a * (1 - b) * x[v1, u0] + a * b * x[v1, u1]


def roi_align(x, rois, size, scale, ratio, aligned, fn):
    y = np.zeros((len(rois), *size, x.shape[3]))
    shift = 0.5 if aligned else 0
    for m, (batch, x1, y1, x2, y2) in enumerate(rois):
        at = np.array([y1, x1]) * scale - shift
        whole = np.array([y2, x2]) * scale - shift - at
        step = (whole if aligned else np.maximum(whole, 1)) / size
        n = [ratio or math.ceil(s) for s in step]
        for i, k in np.ndindex(*size):
            y[m, i, k] = fn([bilinear(x[int(batch)], at[0] + (i + (r + 0.5) / n[0]) * step[0], at[1] + (k + (q + 0.5) / n[1]) * step[1])
                             for r in range(n[0]) for q in range(n[1])])
    return y


def matrix(op, size, now, mode, antialias=False, rounding="half_down"):
    """[now, size]: how an axis is resized."""
    m = np.zeros((now, size))
    for i in range(now):
        at = {"half_pixel": (i + 0.5) * size / now - 0.5, "asymmetric": i * size / now,
              "align_corners": i * (size - 1) / max(now - 1, 1)}.get(mode, 0 if now == 1 else (i + 0.5) * size / now - 0.5)
        if op == "resize_nearest":
            k = {"half_down": math.ceil(at - 0.5), "half_up": math.floor(at + 0.5), "floor": math.floor(at), "ceil": math.ceil(at)}[rounding]
            m[i, min(max(k, 0), size - 1)] = 1
            continue
        stretch = max(size / now, 1) if antialias else 1
        for k in range(math.floor(at - 2 * stretch), math.ceil(at + 2 * stretch) + 1):
            d = abs(k - at)
            if op == "resize_linear":
                weight = max(1 - d / stretch, 0)
            else:
                a = -0.75
                weight = (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1 if d <= 1 else a * (d ** 3 - 5 * d ** 2 + 8 * d - 4) if d < 2 else 0
            if stretch == 1 or 0 <= k < size:
                m[i, min(max(k, 0), size - 1)] += weight
        m[i] /= m[i].sum()
    return m


def resize_cases():
    for name in ["f32", "f16"]:
        x = numbers(name, 2, 3, 5, 6)
        for shape in [(2, 3, 9, 4), (2, 3, 5, 13), (2, 3, 2, 3)]:
            def resized(op, mode="half_pixel", **more):
                y = f64(x)
                for axis in (2, 3):
                    if shape[axis] != x.shape[axis]:
                        y = np.moveaxis(np.tensordot(matrix(op, x.shape[axis], shape[axis], mode, **more), y, (1, axis)), 0, axis)
                return to_dtype(y, name)

            size = f"shape={braces(shape)}"
            for mode in ["half_pixel", "align_corners", "asymmetric", "half_pixel_1d"]:
                yield Case("resize_linear", [x], resized("resize_linear", mode), f"{size}, coordinates={mode}", ulp=1024, symbolic=False)
            yield Case("resize_linear", [x], resized("resize_linear", antialias=True), f"{size}, antialias=true", ulp=1024, symbolic=False)
            for rounding in ["half_down", "half_up", "floor", "ceil"]:
                yield Case("resize_nearest", [x], resized("resize_nearest", rounding=rounding), f"{size}, round={rounding}", symbolic=False)
            yield Case("resize_bicubic", [x], resized("resize_bicubic"), size, ulp=4096, symbolic=False)
    x, rois = numbers("f32", 2, 8, 7, 3), np.array([[0, 1, 1, 5, 6], [1, -2, 0, 3.5, 20], [0, 2, 2, 2, 2]], np.float32)
    for aligned, ratio, pooling in [(False, 2, "avg"), (True, 2, "max"), (False, 0, "avg")]:
        fn = (lambda s: np.mean(s, 0)) if pooling == "avg" else (lambda s: np.max(s, 0))
        want = roi_align(f64(x), f64(rois), (3, 2), 0.5, ratio, aligned, fn)
        yield Case("roi_align", [x, rois], to_dtype(want, "f32"), "output_height=3, output_width=2, spatial_scale=0.5, "
                   f"sampling_ratio={ratio}, aligned={str(aligned).lower()}, mode={pooling}", ulp=1024, symbolic=False)


# ---- Transforms, blocks, random numbers ----------------------------------------------------------------

def other_cases():
    for name in ["f32", "f64"]:
        x = numbers(name, 3, 5, 2)
        z = f64(x)[..., 0] + 1j * f64(x)[..., 1]
        for n, norm in [(8, "backward"), (9, "ortho"), (12, "forward"), (6, "backward")]:
            yield Case("irfft", [x], to_dtype(np.fft.irfft(z, n, 1, norm), name), f"n={n}, normalization={norm}", ulp=1 << 14, symbolic=False)
        yield Case("irfft", [x], to_dtype(np.fft.irfft(z, axis=0), name), "axis=0", ulp=1 << 14, symbolic=False)
        for n, periodic in [(8, True), (9, False), (1, True)]:
            i = np.arange(n)
            want = np.ones(1) if n == 1 else 0.5 - 0.5 * np.cos(2 * np.pi * i / (n if periodic else n - 1))
            yield Case("hann_window", [], to_dtype(want, name), f"{name}[{n}], periodic={str(periodic).lower()}", ulp=64)
    blocks = RNG.integers(0, 256, (3, 2, 18), dtype=np.uint8)
    blocks[..., 1] &= 0x3f                       # scales without infinities
    scale = blocks[..., :2].copy().view(np.float16).astype(np.float32)
    low, high = (blocks[..., 2:] & 15).astype(np.float32) - 8, (blocks[..., 2:] >> 4).astype(np.float32) - 8
    w = (scale * np.concatenate([low, high], -1)).reshape(3, 64)
    blocks = blocks.reshape(3, 36)
    yield Case("dequantize", [blocks], w, "q4_0", symbolic=False)
    yield from block_cases()
    x = numbers("f32", 2, 64)
    want = f64(x) @ f64(w).T
    yield Case("qmatmul", [x, blocks], to_dtype(want, "f32"), "q4_0", ulp=close(want, abs(f64(x)) @ abs(f64(w)).T, "f32"), symbolic=False)
    for seed in (0, 7, -3):
        r = philox(seed, 15)
        u = r[0] / 2.0 ** 32
        yield Case("random_uniform", [np.array(seed)], to_dtype((-1 + u * 3).reshape(3, 5), "f32"), "f32[3,5], low=-1, high=2", ulp=2)
        z = np.sqrt(-2 * np.log((r[0] + 1.0) / 2 ** 32)) * np.cos(2 * np.pi * r[1] / 2.0 ** 32)
        yield Case("random_normal", [np.array(seed)], to_dtype((1 + 2 * z).reshape(3, 5), "f64"), "f64[3,5], mean=1, std=2", ulp=1 << 14)


def block_cases():
    """Blocks of each type by their meaning to the package that defines the files."""
    for kind in BLOCKS:
        elems, size = gguf.GGML_QUANT_SIZES[kind]
        raw = RNG.integers(0, 256, (3, 2 * size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(gguf.quants.dequantize(raw, kind)).all(1)         # scales that are no number
        raw[bad] = raw[~bad][0] if (~bad).any() else 0
        w = gguf.quants.dequantize(raw, kind)
        name = kind.name.lower()
        yield Case("dequantize", [raw], w, name, symbolic=False)
        yield Case("dequantize", [raw[:0]], w[:0], name, symbolic=False)
        x = numbers("f32", 2, 1, 2 * elems)
        want = f64(x) @ f64(w).T
        yield Case("qmatmul", [x, raw], to_dtype(want, "f32"), name, ulp=close(want, abs(f64(x)) @ abs(f64(w)).T, "f32"), symbolic=False)


def philox(seed, n):
    """Philox4x32-10 of key seed and counters 0..n-1: the first two words."""
    mask = 0xffffffff
    words = []
    for i in range(n):
        c, k = [i, 0, 0, 0], [seed & mask, seed >> 32 & mask]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        words.append(c[:2])
    return np.array(words, np.float64).T


def cases(family):
    """Those of a family, always the same."""
    global RNG
    RNG = np.random.default_rng(list(FAMILIES).index(family))
    return FAMILIES[family]()


FAMILIES = {"binary": binary_cases, "compare": compare_cases, "unary": unary_cases, "cast": cast_cases, "view": view_cases,
            "index": index_cases, "order": order_cases, "reduce": reduce_cases, "norm": norm_cases, "matmul": matmul_cases,
            "conv": conv_cases, "pool": pool_cases, "resize": resize_cases, "other": other_cases,
            "ranks": ranks_cases}
