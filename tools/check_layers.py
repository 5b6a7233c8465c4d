#!/usr/bin/env python3
"""Checks that #include edges below src/ follow layers.txt.

usage: check_layers.py [SRC [LAYERS]]

layers.txt has a line a folder, lowest first: "folder: folders it may include".
Reports a table that isn't in order, each edge that isn't allowed, each include
of a header that doesn't exist, and each include cycle. Exit status 1 if any."""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def read_table(path):
    """folder -> set of folders, and the faults of the table itself."""
    allowed, faults = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, _, rest = line.partition(":")
        for other in rest.split():
            if other not in allowed:
                faults.append(f"{path}:{number}: {folder} may include {other}, which is not above it in the table")
        allowed[folder.strip()] = set(rest.split())
    return allowed, faults


def read_edges(src):
    """file -> [(line, included name)], all relative to src."""
    edges = {}
    for path in sorted(src.rglob("*")):
        if path.suffix in (".c", ".h", ".def", ".def"):
            text = path.read_text(errors="replace")
            edges[path.relative_to(src).as_posix()] = [
                (text.count("\n", 0, m.start(1)) + 1, m.group(1)) for m in INCLUDE.finditer(text)]
    return edges


def find_cycles(edges):
    cycles, done = [], set()

    def visit(name, path):
        if name in path:
            cycles.append(" -> ".join(path[path.index(name):] + [name]))
        elif name not in done:
            for _, to in edges.get(name, []):
                visit(to, path + [name])
            done.add(name)

    for name in edges:
        visit(name, [])
    return cycles


def check(src, table):
    allowed, faults = read_table(table)
    edges = read_edges(src)
    for name, includes in edges.items():
        here = name.split("/")[0]
        if here not in allowed:
            faults.append(f"{name}: its folder is not in {table.name}")
            continue
        for line, to in includes:
            there = to.split("/")[0]
            if to in ("fornax.h", "fornax_graph.h", "fornax_kernel.h"):   # of include/
                continue
            if to not in edges:
                # Beside the file, or made by the build.
                beside = (src / name).parent / to
                if not beside.exists() and not to.startswith("generated/"):
                    faults.append(f"{name}:{line}: no such header: {to}")
            elif there != here and there not in allowed[here]:
                faults.append(f"{name}:{line}: {here} may not include {to}")
    return faults + [f"include cycle: {c}" for c in find_cycles(edges)]


def main():
    root = Path(__file__).resolve().parent.parent
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "src"
    table = Path(sys.argv[2]) if len(sys.argv) > 2 else root / "layers.txt"
    faults = check(src, table)
    print("\n".join(faults) if faults else "layers: all includes are in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
