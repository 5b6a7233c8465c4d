#!/usr/bin/env python3
"""Builds and runs all tests; scripts/test calls this after scripts/setup.

usage: run_tests.py [--long] [--only STEP,...] [--list] [--no-model]

Steps: unit (each instruction-set level the machine has), tree, asan (unit tests
and fuzz targets under the address and undefined-behaviour sanitizers; with --long each op of graphs too), e2e
(pytest on the program), guard (instructions of a fixed workload). --long adds tsan, fuzzing for half a minute a target, every
cut and 10,000 changes of each kind of file (FXTEST_LONG), e2e at each level, at the best one with all ops and conversations, and aarch64. Prints a line a test binary and what fails in full; the last
line is "N passed, N failed, N skipped". Exit status 1 if anything failed."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
JOBS = len(os.sched_getaffinity(0))

total = {"passed": 0, "failed": 0, "skipped": 0}
failures = []


def say(text):
    print(text, flush=True)


def count(where, passed=0, failed=0, skipped=0):
    total["passed"] += passed
    total["failed"] += failed
    total["skipped"] += skipped
    if failed:
        failures.append(where)


def run(argv, timeout, env=None, cwd=ROOT):
    """Exit status and output of a command; a timeout is status 124."""
    try:
        p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", stdin=subprocess.DEVNULL, timeout=timeout, cwd=cwd,
                           env={**os.environ, **(env or {})})
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        out = e.stdout.decode(errors="replace") if isinstance(e.stdout, bytes) else (e.stdout or "")
        return 124, out + f"\ntimed out after {timeout} s"


def tally(where, rc, out, seconds):
    """Counts one test program by its last line; shows its output if it failed."""
    found = SUMMARY.findall(out)
    skips = [line for line in out.splitlines() if line.startswith("skipped ")]
    if found:
        passed, failed, skipped = map(int, found[-1])
        failed = max(failed, int(rc != 0))
    else:
        passed, failed, skipped = int(rc == 0), int(rc != 0), 0
    count(where, passed, failed, skipped)
    say(f"  {where}: {passed} passed, {failed} failed, {skipped} skipped, {seconds:.1f} s")
    for line in skips:
        say(f"    {line}")
    if failed:
        say("\n".join("    " + line for line in out.splitlines()[-60:]) + f"\n    exit status {rc}")


def cpu_levels():
    """The levels of FORNAX_CPU that this machine has, best last."""
    if os.uname().machine == "aarch64":
        return ["scalar", "neon"]
    flags = set()
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith("flags"):
                flags = set(line.split(":")[1].split())
                break
    except OSError:
        say("  no /proc/cpuinfo: only the scalar level is known to be there")
    levels = ["scalar"]
    if {"avx2", "fma", "f16c", "bmi2"} <= flags:
        levels.append("avx2")
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"} <= flags:
            levels.append("avx512")
    return levels


def build(folder, *options):
    """Configures and builds; False (counted) if that fails. Warnings are shown."""
    start = time.time()
    for name, argv in (("configure", ["cmake", "-S", ROOT, "-B", ROOT / folder, "-DFORNAX_TESTS=ON", *options]),
                       ("build", ["cmake", "--build", ROOT / folder, "-j", JOBS])):
        rc, out = run(argv, 3600)
        if rc:
            say("\n".join(out.splitlines()[-60:]))
            say(f"  {folder}: {name} failed")
            count(f"{name} of {folder}", failed=1)
            return False
        say("\n".join(line for line in out.splitlines() if "warning:" in line) or f"  {name}: ok")
    say(f"  built {folder} in {time.time() - start:.0f} s")
    return True


# Tests that open a context and so obey FORNAX_CPU (those of kernels go through all levels by themselves),
# and tests that have threads.
PUBLIC = r'"fornax(_graph)?\.h"|FORNAX_CPU'
THREADED = r'"fornax(_graph)?\.h"|pthread|fx_pool'


def unit_tests(folder, label, env=None, timeout=600, which="", parts=()):
    """Runs the unit tests whose source matches; of those in parts, what has that in its name."""
    names = [p.stem for p in sorted((ROOT / "tests").glob("*/test_*.c")) if re.search(which, p.read_text())]

    def one(name):
        start = time.time()
        rc, out = run([ROOT / folder / "unit" / name, *([parts[name]] if name in parts else [])], timeout, env, ROOT / folder)
        return name, rc, out, time.time() - start

    with ThreadPoolExecutor(JOBS) as pool:
        for name, rc, out, seconds in pool.map(one, names):
            tally(f"{name} ({label})", rc, out, seconds)


# __tls_get_addr: gcc 12's leak checker misreads the thread-local blocks of libraries that dlopen has brought in, as LLVM is
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:allocator_may_return_null=1:intercept_tls_get_addr=0",
                 "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=1"}


def fuzz_targets(folder, label, seconds):
    """Replays the corpus of each target and mutates it for a while."""
    def one(source):
        start = time.time()
        corpus = ROOT / "tests/fuzz/corpus" / source.stem.removeprefix("fuzz_")
        rc, out = run([ROOT / folder / "fuzz" / source.stem, "--seconds", seconds, corpus], seconds + 300,
                      SANITIZER_ENV, ROOT / folder)
        return source.stem, rc, out, time.time() - start

    with ThreadPoolExecutor(JOBS) as pool:
        for name, rc, out, seconds_taken in pool.map(one, sorted((ROOT / "tests/fuzz").glob("fuzz_*.c"))):
            tally(f"{name} ({label})", rc, out, seconds_taken)


def fetch_model(args, name="smollm2"):
    """Path of a small model, or "" (the tests that need it say so)."""
    if args.no_model:
        return ""
    p = subprocess.run([ROOT / "scripts/model", name], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    return p.stdout.strip().splitlines()[-1] if p.returncode == 0 and p.stdout.strip() else ""


def step_build(args):
    if not build("build"):
        raise SystemExit(finish())


def step_unit(args):
    best = cpu_levels()[-1]
    model = fetch_model(args)
    for level in reversed(cpu_levels()):
        env = {"FORNAX_CPU": level}
        if level == best or args.long:
            env["FORNAX_MODEL"] = model
        unit_tests("build", level, env, which="" if level == best else PUBLIC)


def step_tree(args):
    start = time.time()
    rc, out = run([sys.executable, ROOT / "tests/tree/check_tree.py", "--build", ROOT / "build"], 600)
    tally("tree", rc, out, time.time() - start)


def step_asan(args):
    if build("build-asan", "-DCMAKE_BUILD_TYPE=Debug", "-DFORNAX_SANITIZE=address,undefined"):
        unit_tests("build-asan", "asan", {**SANITIZER_ENV, **({"FXTEST_LONG": "1"} if args.long else {})}, 1800)
        fuzz_targets("build-asan", "asan", 30 if args.long else 3)
        if args.long and pytest_is_there():      # each op of graphs by its reference function, interpreted and compiled
            pytest_run("ops (asan)", ROOT / "tests/e2e/test_ops.py", True, {**SANITIZER_ENV, "FORNAX": str(ROOT / "build-asan/fornax")})


def step_tsan(args):
    if build("build-tsan", "-DCMAKE_BUILD_TYPE=Debug", "-DFORNAX_SANITIZE=thread", "-DFORNAX_FUZZ=OFF"):
        unit_tests("build-tsan", "tsan", SANITIZER_ENV, 1800, THREADED, {"test_rowops_attend": "threads"})


def pytest_is_there():
    return not run([sys.executable, "-c", "import pytest, openai, numpy"], 60)[0]


def pytest_run(where, tests, whole, env):
    """Runs pytest on the program that env names; counted under 'where'. whole: all cases of the largest suites."""
    report = CACHE / (re.sub(r"\W+", "-", where).strip("-") + ".xml")
    report.unlink(missing_ok=True)
    start = time.time()
    rc = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}", tests],
                        cwd=ROOT, stdin=subprocess.DEVNULL,
                        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({"FXTEST_LONG": "1"} if whole else {}), **env}).returncode
    try:
        suite = xml.etree.ElementTree.parse(report).getroot().find("testsuite")
        tests_n, failed, errors, skipped = (int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped"))
    except (OSError, AttributeError, xml.etree.ElementTree.ParseError):
        tests_n, failed, errors, skipped = 1, 1, 0, 0
    failed = max(failed + errors, int(rc not in (0, 5)))
    passed = max(tests_n - failed - skipped, 0)
    count(where, passed, failed, skipped)
    say(f"  {where}: {passed} passed, {failed} failed, {skipped} skipped, {time.time() - start:.0f} s")


def step_e2e(args):
    tests = ROOT / "tests/e2e"
    if not list(tests.glob("**/test_*.py")):
        say("  no end-to-end tests")
        return
    if not pytest_is_there():
        say("  skipped: pytest, openai and numpy are not installed")
        count("e2e", skipped=1)
        return
    model, minilm = fetch_model(args), fetch_model(args, "minilm")
    for level in cpu_levels() if args.long else cpu_levels()[-1:]:
        real = [model, minilm] if level != "scalar" else ["", ""]      # the reference kernels need minutes for them
        pytest_run(f"e2e ({level})", tests, args.long and level == cpu_levels()[-1],       # the largest suites once
                   {"FORNAX": str(ROOT / "build/fornax"), "FORNAX_MODEL": real[0], "FORNAX_MINILM": real[1], "FORNAX_CPU": level})


def step_guard(args):
    start = time.time()
    rc, out = run([sys.executable, ROOT / "bench/guard"], 1800, {"FORNAX_MODEL": fetch_model(args)})
    tally("guard", rc, out, time.time() - start)


# Processors that qemu plays: with sdot and smmla, with sdot, with neither; and the unit tests that run on each, slow ones
# first, of some the tests of that name only.
ARMS = [("max", "test_matmul test_rowops_attend test_rowops test_calls test_scan test_experts test_runtime test_pool test_base"),
        ("cortex-a76", "test_matmul:each_kernel test_base"),
        ("cortex-a72", "test_matmul:each_kernel test_base")]
# Of SmolLM2's recorded answers, how many ids are asked for: a token takes more than a second.
ARM_IDS = {"en_plain": 12, "chat_simple": 4}


def arm_unit_tests(qemu):
    def one(job):
        cpu, (name, _, which) = job[0], job[1].partition(":")
        start = time.time()
        rc, out = run([*qemu, "-cpu", cpu, ROOT / "build-aarch64/unit" / name, *which.split()], 1800, cwd=ROOT / "build-aarch64")
        return f"{name} (aarch64, {cpu})", rc, out, time.time() - start

    with ThreadPoolExecutor(JOBS) as pool:
        for result in pool.map(one, [(cpu, name) for cpu, names in ARMS for name in names.split()]):
            tally(*result)


def arm_smollm2(qemu, model):
    """Exact-mode greedy ids, by the program."""
    reference = json.loads((ROOT / "tests/data/smollm2/reference.json").read_text())
    for entry in reference["entries"]:
        n = ARM_IDS.get(entry["name"])
        if not n:
            continue
        start = time.time()
        rc, out = run([*qemu, ROOT / "build-aarch64/fornax", "generate", model, "--tokens",
                       ",".join(map(str, entry["prompt_ids"])), "-n", n, "--dtype", "f32", "--ignore-eos", "--json"], 1800)
        try:
            wrong = json.loads(out)["ids"] != entry["exact_f32"]["greedy_ids"][:n]
        except (ValueError, KeyError):
            wrong = True
        tally(f"{entry['name']} of SmolLM2 (aarch64)", rc or wrong, out, time.time() - start)


def step_aarch64(args):
    """The library and its tests built for aarch64, and run under qemu-user."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    for there, what in ((shutil.which("aarch64-linux-gnu-gcc"), "gcc-aarch64-linux-gnu"), (qemu, "qemu-user")):
        if not there:
            say(f"  skipped: package {what} isn't installed")
            count("aarch64", skipped=1)
            return
    rc, out = run([ROOT / "scripts/cross"], 900)
    if rc:
        say("\n".join("  " + line for line in out.splitlines()[-5:]) + "\n  skipped: no libraries for aarch64")
        count("aarch64", skipped=1)
        return
    if build("build-aarch64", "--toolchain", ROOT / "cmake/aarch64.cmake", "-DFORNAX_WERROR=ON", "-DFORNAX_FUZZ=OFF"):
        emulated = [qemu, "-L", out.splitlines()[-1]]
        arm_unit_tests(emulated)
        model = fetch_model(args)
        if model:
            arm_smollm2(emulated, model)
        else:
            say("  skipped: no SmolLM2 to generate with")
            count("SmolLM2 (aarch64)", skipped=1)


STEPS = {"build": step_build, "unit": step_unit, "tree": step_tree, "asan": step_asan, "tsan": step_tsan,
         "e2e": step_e2e, "guard": step_guard, "aarch64": step_aarch64}
LONG_ONLY = {"tsan", "aarch64"}


def finish():
    if failures:
        say("failed: " + ", ".join(failures))
    say(", ".join(f"{n} {what}" for what, n in total.items()))
    return 1 if total["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="also thread sanitizer, aarch64, long fuzzing and suites, e2e at all levels")
    parser.add_argument("--only", default="", help="these steps only, comma-separated")
    parser.add_argument("--list", action="store_true", help="name the steps")
    parser.add_argument("--no-model", action="store_true", help="do not download the small model")
    args = parser.parse_args()
    if args.list:
        say(" ".join(STEPS))
        return 0
    only = [s for s in args.only.split(",") if s]
    unknown = [s for s in only if s not in STEPS]
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}")
    CACHE.mkdir(exist_ok=True)
    for name, step in STEPS.items():
        if name in only or (not only and (args.long or name not in LONG_ONLY)):
            say(f"== {name}")
            step(args)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
