"""The examples, and the C snippets of README.md and fornax.h's opening, compiled against an installed library and run."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from c_programs import compile_c, install
from conftest import FORNAX, TINY

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SMOL = os.environ.get("FORNAX_MODEL", "")
needs_smol = pytest.mark.skipif(not SMOL, reason="FORNAX_MODEL doesn't name SmolLM2")


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    return install(tmp_path_factory.mktemp("install"))


def run(binary, *argv, stdin=""):
    p = subprocess.run([binary, *argv], input=stdin, capture_output=True, text=True, timeout=300)
    assert p.returncode == 0, p.stderr
    return p.stdout


@needs_smol
def test_chat(prefix, tmp_path):
    compile_c(prefix, os.path.join(ROOT, "examples", "chat.c"), tmp_path / "chat")
    out = run(tmp_path / "chat", SMOL, stdin="What is gravity?\nAnd why?\n")
    assert "gravity" in out.lower() and out.count("\n") >= 2


@needs_smol
def test_raw_logits(prefix, tmp_path):
    compile_c(prefix, os.path.join(ROOT, "examples", "raw_logits.c"), tmp_path / "raw_logits")
    out = run(tmp_path / "raw_logits", SMOL, "The capital of France is")
    assert out.strip() and "e" not in out


@needs_smol
def test_stepped(prefix, tmp_path):
    compile_c(prefix, os.path.join(ROOT, "examples", "stepped.c"), tmp_path / "stepped")
    prompts = ["The capital of France is", "The sun is"]
    lines = run(tmp_path / "stepped", SMOL, *prompts)
    alone = [run(tmp_path / "stepped", SMOL, p) for p in prompts]
    assert lines == "".join(alone)
    assert "Paris" in alone[0]


@needs_smol
def test_masked_words(prefix, tmp_path):
    """Masking a name's ids: the name itself in other tokens, other case and synonyms get through."""
    compile_c(prefix, os.path.join(ROOT, "examples", "masked_words.c"), tmp_path / "masked_words")
    page = open(os.path.join(ROOT, "docs", "gates.md"), encoding="utf-8").read()
    command, shown = re.search(r"^    \$ masked_words SmolLM2.gguf (.*)\n((?:    .*\n)+)", page, re.M).groups()
    assert run(tmp_path / "masked_words", SMOL, *command.split()) == re.sub("^    ", "", shown, flags=re.M)


def test_graph_mlp(prefix, tmp_path):
    np = pytest.importorskip("numpy")
    compile_c(prefix, os.path.join(ROOT, "examples", "graph_mlp.c"), tmp_path / "graph_mlp")
    p = subprocess.run([tmp_path / "graph_mlp", tmp_path / "mlp.fxa"], capture_output=True, text=True, timeout=300)
    if "libfornax-llvm" in p.stderr:
        pytest.skip("no LLVM: " + p.stderr.strip())
    assert p.returncode == 0, p.stderr
    x = (np.arange(24) % 5 - 2.0).reshape(3, 8)
    w1, w2 = (np.arange(128) % 7 * 0.1 - 0.3).reshape(8, 16), (np.arange(64) % 3 * 0.2 - 0.2).reshape(16, 4)
    e = np.exp(np.maximum(x @ w1, 0) @ w2)
    rows = [[float(v) for v in line.split()] for line in p.stdout.splitlines()]
    assert np.allclose(rows, (e / e.sum(1, keepdims=True))[[0, 0, 1, 2]], atol=1e-4)
    assert (tmp_path / "mlp.fxa").stat().st_size > 1000


def package(prefix, name, out):
    pc = next(p.parent for p in Path(prefix).rglob("fornax.pc"))
    flags = subprocess.run(["pkg-config", "--cflags", "fornax"], env={**os.environ, "PKG_CONFIG_PATH": str(pc)}, check=True,
                           capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", os.path.join(ROOT, "examples", name), *flags,
                    "-o", out], check=True)
    return out


def run_graph(binary, *argv):
    p = subprocess.run([binary, *argv], capture_output=True, text=True, timeout=300)
    if "libfornax-llvm" in p.stderr:
        pytest.skip("no LLVM: " + p.stderr.strip())
    return p


def test_custom_op(prefix, tmp_path):
    compile_c(prefix, os.path.join(ROOT, "examples", "custom_op.c"), tmp_path / "custom_op")
    so = package(prefix, "custom_op_kernel.c", tmp_path / "custom_op.so")
    p = run_graph(tmp_path / "custom_op", so, "1", "-2", "3")
    assert p.returncode == 0 and p.stdout == "5 0 11\n", p.stderr
    gated = package(prefix, "gated_logits_kernel.c", tmp_path / "gated.so")
    for path, says in ((gated, "no kernel library of the module has a kernel affine"), (tmp_path / "none.so", "none.so"),
                       (tmp_path, "folder of sources")):
        p = run_graph(tmp_path / "custom_op", path, "1")
        assert p.returncode == 1 and says in p.stderr, p.stderr


@needs_smol
def test_gated_logits(prefix, tmp_path):
    compile_c(prefix, os.path.join(ROOT, "examples", "gated_logits.c"), tmp_path / "gated_logits")
    so = package(prefix, "gated_logits_kernel.c", tmp_path / "gated_logits.so")
    p = run_graph(tmp_path / "gated_logits", SMOL, so)
    assert p.returncode == 0 and p.stdout == "GATE_OP_DEMO_OK 4/4\n", p.stdout + p.stderr


def test_examples_report_faults(prefix, tmp_path):
    for name, argv in (("chat", []), ("raw_logits", ["x"]), ("stepped", ["x"]), ("masked_words", ["x", "y", "z"])):
        compile_c(prefix, os.path.join(ROOT, "examples", name + ".c"), tmp_path / name)
        p = subprocess.run([tmp_path / name, "/no/such/model.gguf", *argv], input="", capture_output=True, text=True, timeout=60)
        assert p.returncode != 0 and "/no/such/model.gguf" in p.stderr


@needs_smol
def test_readme_snippet(prefix, tmp_path):
    text = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
    snippet = re.search(r"```c\n(.*?)```", text, re.S).group(1)
    (tmp_path / "snippet.c").write_text(snippet)
    compile_c(prefix, tmp_path / "snippet.c", tmp_path / "snippet")
    assert "gravity" in run(tmp_path / "snippet", SMOL).lower()


def page(name):
    return open(os.path.join(ROOT, "docs", name), encoding="utf-8").read()


def test_structured_snippet(prefix, tmp_path):
    (tmp_path / "snippet.c").write_text(re.search(r"```c\n(.*?)```", page("structured.md"), re.S).group(1))
    compile_c(prefix, tmp_path / "snippet.c", tmp_path / "snippet")
    assert run(tmp_path / "snippet", TINY, '"nor') == "not whole, then 'th'\n"
    assert run(tmp_path / "snippet", TINY, '"south"') == "whole, then ''\n"
    p = subprocess.run([tmp_path / "snippet", TINY, '"west'], capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and p.stderr == "the grammar doesn't allow this here\n"


def test_structured_commands(tmp_path):
    """What the page shows on a terminal; times and sizes aside."""
    lines = re.search(r"^    \$ cat person.json\n(    .*\n)+", page("structured.md"), re.M).group(0).replace("\n    ", "\n")[4:]
    *files, (command, shown) = re.findall(r"^\$ (.*)\n((?:(?!\$).*\n)*)", lines, re.M)
    for cat, content in files:
        (tmp_path / cat.removeprefix("cat ")).write_text(content)
    p = subprocess.run([FORNAX, *command.split()[1:]], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    plain = lambda text: re.sub(r"[0-9.]+ (ms|KiB)", r"- \1", text)  # noqa: E731
    assert plain(p.stdout) == plain(shown) and p.returncode == 1
