"""C programs compiled against an installed library."""
import os
import subprocess
from pathlib import Path

from conftest import FORNAX


def install(where):
    subprocess.run(["cmake", "--install", os.path.dirname(os.path.abspath(FORNAX)), "--prefix", where], check=True, capture_output=True)
    return where


def compile_c(prefix, source, out, *packages):
    """packages: of pkg-config, beside fornax."""
    pc = next(p.parent for p in Path(prefix).rglob("fornax.pc"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fornax", *packages], env=env, check=True, capture_output=True,
                           text=True).stdout.split()
    p = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", source, *flags, f"-Wl,-rpath,{pc.parent}", "-o", out],
                       capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return out
