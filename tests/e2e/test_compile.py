"""fornax compile: graphs as text to code, and what it refuses."""
import re
import subprocess
from pathlib import Path

import pytest

from conftest import FORNAX, TINY

GRAPH = """
graph @twice {
  %a = input f32[k]
  %b = add %a, %a
  output %b
}
graph @main {
  %x = input f32[n,64]
  %w = weight f32[64,32]
  %h = matmul %x, %w
  %y = relu %h
  %s = softmax %y
  output %s
}
"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(GRAPH)
    return path


def compile_it(*args):
    p = subprocess.run([FORNAX, "compile", *map(str, args)], capture_output=True, text=True, timeout=300)
    if "libfornax-llvm" in p.stderr:
        pytest.skip("no LLVM: " + p.stderr.strip())
    return p.returncode, p.stdout, p.stderr


def test_forms(graph, tmp_path):
    status, out, err = compile_it(graph, "--emit", "kir")
    assert status == 0 and out.startswith("kernel @relu_0(") and "kernel @softmax_1(" in out, err
    status, out, err = compile_it(graph, "--emit", "kir", "-g", "twice")
    assert status == 0 and "kernel @add_0(" in out, err
    status, out, err = compile_it(graph, "--emit", "llvm")
    assert status == 0 and "define" in out and "@softmax_1(" in out, err
    status, out, err = compile_it(graph, "--emit", "asm", "--target", "x86-64-v3")
    assert status == 0 and "%ymm" in out and "%zmm" not in out, err
    status, out, err = compile_it(graph, "--emit", "asm", "--target", "neoverse-n1", "-o", tmp_path / "k.s")
    assert status == 0 and not out and "fmla" in (tmp_path / "k.s").read_text(), err
    status, out, err = compile_it(graph, "--emit", "asm", "--target", "sm_80")
    assert status == 0 and out.count(".target sm_80") == 1 and out.count(".visible .entry") == 2, err
    status, out, err = compile_it(graph, "--emit", "asm", "--target", "gfx90a")
    assert status == 0 and out.count(".amdhsa_kernel ") == 2, err


def test_stages(graph, tmp_path):
    status, out, err = compile_it(graph, "-o", tmp_path / "x.fxa", "--dump", tmp_path / "stages")
    assert status == 0 and not out, err
    stages = {p.name: p.read_text() for p in (tmp_path / "stages").iterdir()}
    assert sorted(stages) == ["1-graph.txt", "2-plan.txt", "3-kir.txt", "4-math.txt", "5-wide.txt", "6-llvm.txt", "7-asm.txt"]
    assert "%h = matmul %x, %w" in stages["1-graph.txt"] and "launch 2: kernel softmax_1" in stages["2-plan.txt"]
    assert " = exp " in stages["3-kir.txt"] and " = exp " not in stages["4-math.txt"]
    assert "f32x" in stages["5-wide.txt"] and "define" in stages["6-llvm.txt"] and "softmax_1:" in stages["7-asm.txt"]


def test_the_page_on_graphs(tmp_path):
    """The text of docs/graph.md compiles, to as many kernels as it says, by the commands that it shows."""
    page = (Path(__file__).parents[2] / "docs/graph.md").read_text()
    (tmp_path / "head.txt").write_text(re.search(r"```graph\n(.*?)```", page, re.S).group(1))
    commands = re.findall(r"^    fornax compile (.*?)(?: +#.*)?$", page, re.M)
    assert len(commands) == 4
    for command in commands:
        p = subprocess.run([FORNAX, "compile", *command.split()], capture_output=True, text=True, timeout=300, cwd=tmp_path)
        if "libfornax-llvm" in p.stderr:
            pytest.skip("no LLVM: " + p.stderr.strip())
        assert p.returncode == 0, p.stderr
        assert "kir" not in command or p.stdout.count("\nkernel @") + p.stdout.startswith("kernel @") == 2


def test_artifact(graph, tmp_path):
    one, two = tmp_path / "a.fxa", tmp_path / "b.fxa"
    for path in one, two:
        status, out, err = compile_it(graph, "-o", path)
        assert status == 0 and not out and not err
    assert one.read_bytes() == two.read_bytes()


def test_explain(graph):
    p = subprocess.run([FORNAX, "explain", graph], capture_output=True, text=True, timeout=60)
    lines = p.stdout.splitlines()
    assert p.returncode == 0 and lines[0] == "graph @twice {", p.stderr
    at = lines.index("graph @main {")
    assert "%h = matmul  f32[n,32]    computed where it is read" in lines[at:]
    assert "%y = relu  f32[n,32]    kept: a sum would be formed for each time that it is read" in lines[at:]
    assert "%s = softmax  f32[n,32]    kept: a result of the graph" in lines[at:]
    assert lines[-2:] == ["launch 1: kernel relu_0, for %y: matmul, relu", "launch 2: kernel softmax_1, for %s: softmax"]
    p = subprocess.run([FORNAX, "explain", TINY], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and p.stdout.startswith("graph @step {"), p.stderr
    passes = dict(re.findall(r"^# pass (\S+): (\d+) rewrites$", p.stdout, re.M))
    assert int(passes["fuse-gate"]) > 0 and p.stdout.count("graph @step {") == 1 + sum(int(n) > 0 for n in passes.values())
    assert re.search(r"^# pass gather-early: not at %\S+ \(gather\): all rows have another reader", p.stdout, re.M)
    p = subprocess.run([FORNAX, "explain", "none.txt"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "none.txt" in p.stderr


def test_targets():
    status, out, err = compile_it("--targets")
    assert status == 0 and {"x86-64-v3", "znver4", "sm_90"} <= set(out.split())


@pytest.mark.parametrize("args, status, says", [
    ([], 2, "--out is missing"), (["--emit", "elf"], 1, "form: expected"), (["-o", "x.fxa", "--target", "z80"], 2, "z80"),
    (["--emit", "kir", "-g", "none"], 1, "the module has no graph none"), (["-o", "/nonexistent/x.fxa"], 1, "/nonexistent")])
def test_refused(graph, args, status, says):
    got, out, err = compile_it(graph, *args)
    assert got == status and says in err and not out


def test_faults_have_their_place(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("%x = input f32[2,3]\n%y = matmul %x, %x\noutput %y\n")
    status, out, err = compile_it(path, "--emit", "kir")
    assert status == 1 and "bad.txt:2" in err and "matmul" in err and "f32[2,3]" in err
