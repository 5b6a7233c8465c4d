"""Packed weights that are kept for the next start: used, replaced when they don't fit, never in the way."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import FORNAX, TINY, TINY_QWEN

TRIES = 20


@pytest.fixture(autouse=True)
def only_weights(monkeypatch):
    """Code has tests of its own (test_generated.py)."""
    monkeypatch.setenv("FORNAX_CODE", "off")


def generate(model, *args, check=True, **options):
    p = subprocess.run([FORNAX, "generate", model, "-p", "Hello", "-n", "4", "--json", *map(str, args)], capture_output=True,
                       timeout=120, stdin=subprocess.DEVNULL, **options)
    assert b"Sanitizer" not in p.stderr and (not check or p.returncode == 0), p.stderr
    return json.loads(p.stdout) if check else p, p.stderr.decode()


def kept(folder):
    return sorted(folder.glob("*.fxa"))


def ids(result):
    return [c["ids"] for c in result["choices"]] if "choices" in result else result["ids"]


@pytest.fixture
def model(tmp_path):
    """A copy of the tiny model, which a test may change."""
    return str(shutil.copytree(TINY, tmp_path / "model"))


def test_used_by_the_next_start(tmp_path):
    cache = tmp_path / "new/cache"
    plain, _ = generate(TINY, "--no-cache")
    first, err = generate(TINY, "--cache", cache)
    assert ids(first) == ids(plain) and not err
    (file,) = kept(cache)
    old = file.stat().st_mtime_ns
    os.utime(file, (1, 1))
    again, err = generate(TINY, "--cache", cache)
    assert ids(again) == ids(plain) and not err
    assert kept(cache) == [file] and file.stat().st_mtime_ns > old, "it was touched, so it was used"
    assert TINY in (cache / "manifest").read_text()


def test_what_it_depends_on(model, tmp_path):
    cache = tmp_path / "cache"
    for args in ([], ["--dtype", "f16"], ["--dtype", "f32"]):
        for _ in range(2):
            generate(model, "--cache", cache, *args)
    assert len(kept(cache)) == 3
    other = "avx2" if os.environ.get("FORNAX_CPU") == "scalar" else "scalar"
    generate(model, "--cache", cache, env={**os.environ, "FORNAX_CPU": other})
    assert len(kept(cache)) == 4
    weights = os.path.join(model, "model.safetensors")
    data = open(weights, "rb").read()
    times = os.stat(weights)
    with open(weights, "r+b") as f:                      # the same size, and the time of change set back
        f.seek(len(data) - 64)
        f.write(bytes(64))
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed, _ = generate(model, "--cache", cache)
    assert len(kept(cache)) == 5
    assert ids(changed) == ids(generate(model, "--no-cache")[0])


def test_damage_is_a_warning(tmp_path):
    plain, _ = generate(TINY, "--no-cache")
    generate(TINY, "--cache", tmp_path)
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    for at in (0, 60, 200, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        result, err = generate(TINY, "--cache", tmp_path)
        assert ids(result) == ids(plain)
        assert err.startswith("fornax: warning: an artifact isn't used: ") and err.count("\n") == 1
        assert file.read_bytes() == whole
    file.write_bytes(whole[:1000])
    assert "warning" in generate(TINY, "--cache", tmp_path)[1] and file.read_bytes() == whole


def test_folders_that_do_not_work(tmp_path):
    plain, _ = generate(TINY, "--no-cache")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file/below", "/proc/none/here"):
        result, err = generate(TINY, "--cache", folder)
        assert ids(result) == ids(plain)
        assert err.startswith("fornax: warning: packed weights aren't kept: ") and err.count("\n") == 1
    assert generate(TINY, "--no-cache", "--cache", tmp_path)[1] == "" and not kept(tmp_path)


def test_users_folder(tmp_path):
    """Small models aren't kept there; the variables name it."""
    generate(TINY, env={**os.environ, "FORNAX_CACHE_DIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_cap(tmp_path):
    assert generate(TINY, "--cache", tmp_path, "--cache-mib", 0, check=False)[0].returncode == 2
    generate(TINY, "--cache", tmp_path, "--cache-mib", 1)
    generate(TINY_QWEN, "--cache", tmp_path, "--cache-mib", 1)
    generate(TINY, "--cache", tmp_path, "--cache-mib", 1, "--dtype", "f32")
    assert sum(f.stat().st_size for f in kept(tmp_path)) <= 1 << 20


def test_metrics(serve, tmp_path):
    for hits in (0, 1):
        s = serve(TINY, "--cache", str(tmp_path))
        m = s.metrics()
        assert m["fornax_artifact_hits_total"] == hits and m["fornax_artifact_misses_total"] == 1 - hits
        assert m["fornax_artifact_faults_total"] == 0
        s.end()


def test_killed_while_it_is_written(tmp_path):
    plain, _ = generate(TINY, "--no-cache")
    rng = random.Random(5)
    for _ in range(TRIES):
        p = subprocess.Popen([FORNAX, "generate", TINY, "-p", "Hello", "-n", "1", "--cache", str(tmp_path)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.08)
        p.send_signal(signal.SIGKILL)
        p.wait()
        result, err = generate(TINY, "--cache", tmp_path)
        assert ids(result) == ids(plain) and not err
        for f in kept(tmp_path):
            f.unlink()
    assert not list(tmp_path.glob("*.tmp"))


def test_two_at_once(tmp_path):
    plain, _ = generate(TINY, "--no-cache")
    both = [subprocess.Popen([FORNAX, "generate", TINY, "-p", "Hello", "-n", "4", "--json", "--cache", str(tmp_path)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for p in both:
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0 and not err and ids(json.loads(out)) == ids(plain)
    assert len(kept(tmp_path)) == 1 and not list(tmp_path.glob("*.tmp"))
    assert ids(generate(TINY, "--cache", tmp_path)[0]) == ids(plain)


@pytest.mark.parametrize("cached", [False, True])
def test_memory_of_a_start(smol_path, tmp_path, cached):
    """One resident copy of the weights: what is packed leaves the file's pages, and what is found is mapped only."""
    args = ["--cache", tmp_path] if cached else ["--no-cache"]
    for _ in range(2):                  # what the first one keeps the second one finds
        p = subprocess.run([FORNAX, "bench", smol_path, "--start", "--repeat", "1", "--json", *map(str, args)], capture_output=True,
                           timeout=120)
        assert p.returncode == 0, p.stderr
        assert json.loads(p.stdout)["rss_bytes"] <= 1.15 * os.path.getsize(smol_path) + 48e6
    assert len(kept(tmp_path)) == cached
