"""Each general op of graphs x dtypes x shapes, in the executions that graphrun has, against NumPy.

An operand comes as it is, strided (every second element of a larger array, backwards, axes in another
order) and through a permute in the graph; sizes are numbers or, where the op allows, names. Code takes a while to
be made: without FXTEST_LONG it is for each op's first case and every 16th of a family, in one of these ways."""
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from conftest import FORNAX, ROOT
from op_cases import FAMILIES, cases
from op_runs import GRAPHRUN, Runner, has_llvm, is_float, name_of, ulps

EXECUTIONS = ["ref", "interp"] + ["compiled"] * has_llvm()
pytestmark = pytest.mark.skipif(not GRAPHRUN.exists(), reason=f"{GRAPHRUN} is not built")


@pytest.fixture(scope="module")
def runners():
    made = {name: Runner(name) for name in EXECUTIONS}
    yield made
    assert not any(r.close() for r in made.values())


def type_text(x, symbolic, axes=None):
    """The type of an operand, axes in this order. A size above 1 may be a name made of it: equal sizes, equal names."""
    sizes = [f"d{n}" if symbolic and n > 1 else str(n) for n in x.shape]
    sizes = [sizes[a] for a in axes] if axes else sizes
    return name_of(x) + (f"[{','.join(sizes)}]" if sizes else "")


def spell(case, symbolic=False, permuted=False):
    lines, names = [], []
    for i, x in enumerate(case.inputs):
        if x is None:
            names.append("_")
            continue
        names.append(f"%x{i}")
        if permuted and x.ndim > 1:
            axes = list(range(x.ndim))[::-1]
            lines += [f"%r{i} = input {type_text(x, symbolic, axes)}",
                      f"%x{i} = permute %r{i}, axes={{{', '.join(map(str, axes))}}}"]
        else:
            lines.append(f"%x{i} = input {type_text(x, symbolic)}")
    results = ", ".join(f"%y{i}" for i in range(len(case.want)))
    args = ", ".join(filter(None, [*names, case.attrs]))
    return "\n".join([*lines, f"{results} = {case.op} {args}", f"output {results}", ""])


def strided(x):
    """The same elements in a larger array: every second one of the last axis, backwards; axes laid out in turn."""
    if x.ndim == 0 or x.size == 0:
        return x
    room = np.zeros((*x.shape[1:], 2 * x.shape[0] + 1), x.dtype)
    view = np.moveaxis(room[..., 2 * x.shape[0] - 1::-2], -1, 0)
    view[...] = x
    return view


def variants(case):
    dense = [np.ascontiguousarray(x).reshape(x.shape) for x in case.inputs if x is not None]
    yield "dense", spell(case), dense
    yield "strided", spell(case), [strided(x) for x in dense]
    if any(x.ndim > 1 for x in dense):
        yield "permuted", spell(case, permuted=True), [np.ascontiguousarray(x.T) if x.ndim > 1 else x for x in dense]
    if case.symbolic and any(n > 1 for x in dense for n in x.shape):
        yield "symbolic", spell(case, symbolic=True), dense


def fault_of(case, got):
    """What is wrong with the results, or None."""
    if isinstance(got, str):
        return got
    for i, (y, want) in enumerate(zip(got, case.want, strict=True)):
        want = np.asarray(want)
        if y.dtype != want.dtype or y.shape != want.shape:
            return f"result {i} is {y.dtype}{list(y.shape)}, expected {want.dtype}{list(want.shape)}"
        if is_float(name_of(y)):
            far = ulps(y, want)
            if y.size and far.max() > case.ulp:
                at = np.unravel_index(far.argmax(), far.shape)
                return f"result {i} at {at} is {y[at]}, expected {want[at]}: {far[at]:g} ulps, at most {case.ulp}"
        elif (y != want).any():
            at = tuple(np.argwhere(y != want)[0])
            return f"result {i} at {at} is {y[at]}, expected {want[at]}"
    return None


@pytest.mark.parametrize("execution", ["ref", "interp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_ops(runners, execution, family):
    faults, n = [], 0
    for case in cases(family):
        for kind, text, inputs in variants(case):
            fault = fault_of(case, runners[execution].run(text, inputs, case.symbols))
            n += 1
            if fault:
                faults.append(f"{case}, {kind}: {fault}")
    assert not faults, f"{len(faults)} of {n}:\n" + "\n".join(faults[:40])


def some_variants(family):
    """Those that code is made for."""
    seen = set()
    for i, case in enumerate(cases(family)):
        ways = [(case, *way) for way in variants(case)]
        if not os.environ.get("FXTEST_LONG"):
            ways = [ways[i % len(ways)]] if case.op not in seen or i % 16 == 0 else []
        seen.add(case.op)
        yield from ways


def same_bits(a, b):
    """NaNs are all alike, zeroes aren't."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not is_float(name_of(a)):
        return a.tobytes() == b.tobytes()
    nan = np.isnan(a.astype(np.float64))
    return (nan == np.isnan(b.astype(np.float64))).all() and a[~nan].tobytes() == b[~nan].tobytes()


@pytest.mark.skipif(not has_llvm(), reason="built without LLVM")
@pytest.mark.parametrize("family", FAMILIES)
def test_ops_compiled(runners, family):
    """The bits of the interpreter, within the bounds."""
    faults, n = [], 0
    for case, kind, text, inputs in some_variants(family):
        got, want = (runners[e].run(text, inputs, case.symbols) for e in ("compiled", "interp"))
        fault = fault_of(case, got)
        n += 1
        if not fault and not all(map(same_bits, got, want)):
            fault = f"other bits than interpreted: {got}, {want}"
        if fault:
            faults.append(f"{case}, {kind}: {fault}")
    assert n and not faults, f"{len(faults)} of {n}:\n" + "\n".join(faults[:40])


@pytest.fixture(scope="module")
def device():
    made = Runner("opencl")
    try:
        made.run("%x = input f32[1]\n%y = negate %x\noutput %y\n", [np.ones(1, np.float32)])
    except AssertionError:
        pytest.skip("no OpenCL device, such as PoCL")
    yield made
    assert made.close() == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_on_a_device(runners, device, family):
    """The bits of the interpreter by OpenCL C; without FXTEST_LONG of one op of the family, else of each, in two of its cases."""
    ops = {}
    for case in cases(family):
        ops.setdefault(case.op, []).append(case)
    names = list(ops) if os.environ.get("FXTEST_LONG") else list(ops)[len(family) % len(ops):][:1]
    for case in [case for name in names for case in {id(c): c for c in (ops[name][0], ops[name][-1])}.values()]:
        kind, text, inputs = next(variants(case))
        got, want = (r.run(text, inputs, case.symbols) for r in (device, runners["interp"]))
        assert not isinstance(got, str) and not isinstance(want, str), f"{case}: {got}, interpreted {want}"
        assert all(map(same_bits, got, want)), f"{case}, {kind}: {got}, interpreted {want}"


PTXAS = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")


@pytest.mark.skipif(not has_llvm() or not PTXAS, reason="built without LLVM, or there is no ptxas")
@pytest.mark.parametrize("family", FAMILIES)
def test_ptx_is_taken(family, tmp_path):
    """What each op becomes for GPUs, its kernels in one file; without FXTEST_LONG of one op of the family."""
    ops = {case.op: case for case in reversed(list(cases(family)))}
    names = list(ops) if os.environ.get("FXTEST_LONG") else list(ops)[len(family) % len(ops):][:1]
    for i, name in enumerate(names):
        text, ptx = tmp_path / "graph.txt", tmp_path / "graph.ptx"
        text.write_text(spell(ops[name]))
        target = ("sm_80", "sm_90")[i % 2]
        for argv in ([FORNAX, "compile", text, "--emit", "asm", "--target", target, "-o", ptx],
                     [PTXAS, "-arch=" + target, "-o", "/dev/null", ptx]):
            if argv[0] == PTXAS and not ptx.read_text():
                continue                         # an op without a kernel of the loop IR
            p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300)
            assert p.returncode == 0, f"{ops[name]}, {target}: {p.stderr}"


FLOW = """
subgraph @twice {
  %v = input f32[m]
  %y = add %v, %v
  output %y
}
graph @main {
  %x = input f32[n]
  %count = input i64
  %b = input buffer f32[n]
  %zero = constant i64, {0}
  %one = constant i64, {1}
  %c0 = chain
  %y, %i, %c1 = while %x, %zero, %c0 { %v: f32[n], %k: i64, %c: chain
    %more = greater %count, %k
    yield %more
  } { %v.2: f32[n], %k.2: i64, %c.2: chain
    %d = call %v.2, callee="twice"
    %next = add %k.2, %one
    %c.3 = buffer_store %b, %d, %c.2
    yield %d, %next, %c.3
  }
  %many = greater %i, %one
  %z = cond %many {
    yield %y
  } {
    %n = negate %y
    yield %n
  }
  %held, %c4 = buffer_load %b, %c1
  output %z, %held
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_loops_choices_calls_and_buffers(runners, execution):
    x = np.array([1, -2, 3], np.float32)
    for count in range(4):
        got = runners[execution].run(FLOW, [x, np.array(count), np.zeros(3, np.float32)])
        assert not isinstance(got, str), got
        y = x * 2 ** count
        assert (got[0] == (y if count > 1 else -y)).all() and (got[1] == (y if count else 0)).all()


BAD = [  # an op, operands, and a part of what is wrong with the data
    ("gather %x0, %x1, axis=0", [np.zeros((3, 2), np.float32), np.array([0, 3])], "index 3 is outside of an axis of 3"),
    ("gather_nd %x0, %x1", [np.zeros((3, 2), np.float32), np.array([[0, -3]])], "index -3 is outside of an axis of 2"),
    ("scatter %x0, %x1, %x2", [np.zeros(3, np.float32), np.ones(1, np.float32), np.array([-4])], "index -4"),
    ("slice %x0, %x1, axis=0, start=0, length=2", [np.zeros((3, 2), np.float32), np.array(2)], "index 3"),
    ("masked_scatter %x0, %x1, %x2", [np.zeros(3, np.float32), np.ones(3, bool), np.ones(2, np.float32)], "more places than"),
]


@pytest.mark.parametrize("op, inputs, why", BAD)
def test_data_that_an_op_cannot_take(runners, op, inputs, why):
    lines = [f"%x{i} = input {type_text(x, False)}" for i, x in enumerate(inputs)]
    got = runners["ref"].run("\n".join([*lines, f"%y = {op}", "output %y", ""]), inputs)
    assert isinstance(got, str) and why in got


def test_graphs_of_the_docs_parse(runners):
    """Run without inputs, they must get as far as missing them."""
    blocks = []
    for page in ("graph.md", "ops.md"):
        blocks += re.findall(r"```graph\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert len(blocks) >= 2
    for text in blocks:
        assert "input is missing" in runners["ref"].run(text, []), text
