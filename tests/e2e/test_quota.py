"""A control group's quota is obeyed, in a group made for the test (made-up trees: tests/unit/test_pool.c)."""
import os
import subprocess
from pathlib import Path

import pytest

from conftest import FORNAX, TINY


@pytest.fixture
def group():
    """A group with one processor's quota, by version 1 or 2; skipped where this user can't make one."""
    v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    at = Path("/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/cpu", f"fornax-test-{os.getpid()}")
    try:
        at.mkdir()
    except OSError as e:
        pytest.skip(f"can't make a control group: {e}")
    try:
        if v2:
            (at / "cpu.max").write_text("100000 100000")
        else:
            (at / "cpu.cfs_period_us").write_text("100000")
            (at / "cpu.cfs_quota_us").write_text("100000")
        yield at
    except OSError as e:
        pytest.skip(f"can't give a control group a quota: {e}")
    finally:
        at.rmdir()


def threads(**options):
    p = subprocess.run([FORNAX, "generate", TINY, "-p", "Hello", "-n", "1", "-v"], capture_output=True, timeout=120, text=True, **options)
    assert p.returncode == 0, p.stderr
    return next(line.rsplit(", ", 1)[1] for line in p.stderr.splitlines() if " threads" in line)


def test_one_processor(group):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    assert threads() != "1 threads"
    assert threads(preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) == "1 threads"
