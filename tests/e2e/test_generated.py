"""Kernels generated for a model, whose code is kept for the next start."""
import json
import os
import re
import subprocess

import pytest

from conftest import FORNAX, TINY, TINY_QWEN

HERE = os.environ.get("FORNAX_CPU") != "scalar"


def fornax(*args, **env):
    return subprocess.run([FORNAX, *map(str, args)], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env})


def generate(model, *args, **env):
    p = fornax("generate", model, "-p", "Hello", "-n", "8", "--logprobs", "0", "--json", *args, **env)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout), p.stderr


def need_llvm():
    p = fornax("explain", TINY)
    assert p.returncode == 0, p.stderr
    if not re.search(r"LLVM \S+ can make it|is kept", p.stdout):
        pytest.skip(p.stdout.splitlines()[-1])


def kept(folder):
    """Files with code, which are known by their section."""
    return [f for f in folder.glob("*.fxa") if b"object" in f.read_bytes()[:4096]]


@pytest.mark.parametrize("model", [TINY, TINY_QWEN])
def test_kept_for_the_next_start(model, tmp_path):
    need_llvm()
    plain, _ = generate(model, "--no-cache", "--code", "off")
    first, err = generate(model, "--cache", tmp_path, "-v")
    assert first == plain and "code was made in" in err
    (file,) = kept(tmp_path)
    again, err = generate(model, "--cache", tmp_path, "-v", FORNAX_LLVM="/nowhere/llvm.so")
    assert again == plain and "code was kept and is there in" in err
    assert kept(tmp_path) == [file]


def test_a_start_with_kept_code_opens_no_llvm(serve, tmp_path):
    need_llvm()
    assert fornax("compile", TINY, "--cache", tmp_path).returncode == 0
    assert len(kept(tmp_path)) == 1
    s = serve(TINY, "--cache", str(tmp_path))
    assert s.post("/v1/completions", {"model": s.name, "prompt": "Hello", "max_tokens": 4})[0] == 200
    m = s.metrics()
    assert 0 < m["fornax_generated_launches_total"] < m["fornax_kernel_launches_total"]
    assert "LLVM" not in open(f"/proc/{s.process.pid}/maps").read()
    s.end()


def test_off_and_on_are_one(tmp_path):
    need_llvm()
    plain, _ = generate(TINY, "--no-cache", "--code", "off")
    for args, env in ((["--code", "now"], {}), ([], {"FORNAX_CODE": "now"}), (["--code", "off"], {"FORNAX_CODE": "now"})):
        got, err = generate(TINY, "--no-cache", "-v", *args, **env)
        assert got == plain
        assert ("code was made" in err) == (args != ["--code", "off"])
    assert fornax("generate", TINY, "-p", "x", "--code", "never").returncode == 2


def test_what_is_in_the_way_is_said(tmp_path):
    """No LLVM, or no folder: hand-written kernels do it, in silence unless somebody asks."""
    nowhere = {"FORNAX_LLVM": "/nowhere/llvm.so"}
    plain, _ = generate(TINY, "--no-cache", "--code", "off")
    got, err = generate(TINY, "--cache", tmp_path, **nowhere)
    assert got == plain and not err
    got, err = generate(TINY, "--no-cache", "--code", "now", **nowhere)
    assert got == plain and err.count("\n") == 1 and err.startswith("fornax: warning: ")
    reason = "/nowhere/llvm.so" if HERE else "no code for level scalar"
    assert reason in err
    p = fornax("compile", TINY, "--cache", tmp_path, **nowhere)
    assert p.returncode == 1 and reason in p.stderr
    p = fornax("explain", TINY, **nowhere, FORNAX_CACHE_DIR=str(tmp_path / "empty"))
    assert p.returncode == 0 and reason in p.stdout
    (tmp_path / "file").write_text("")
    got, err = generate(TINY, "--cache", tmp_path / "file")
    assert got == plain and err.count("\n") == 1


def test_damage_is_a_warning(tmp_path):
    need_llvm()
    plain, _ = generate(TINY, "--no-cache", "--code", "off")
    assert fornax("compile", TINY, "--cache", tmp_path).returncode == 0
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    for at in (0, 60, 150, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        got, err = generate(TINY, "--cache", tmp_path)
        assert got == plain
        assert err.startswith("fornax: warning: an artifact isn't used: ") and err.count("\n") == 1
        assert file.read_bytes() == whole


def test_explain(tmp_path):
    out = fornax("explain", TINY).stdout
    launches = out[out.index("# launches\n"):].splitlines()
    assert len([line for line in launches if ": generated, @" in line]) > 4
    assert re.fullmatch(r"# \d+ launches, \d+ generated kernels in \d+ places", launches[-2])


def test_wrong_usage(tmp_path):
    for args in (["--emit", "asm"], ["--target", "host"], ["--no-cache"], ["--code", "off"]):
        assert fornax("compile", TINY, *args).returncode == 2
