#!/usr/bin/env python3
"""Checks of the tree itself; Python's standard library only.

usage: check_tree.py [--build DIR] [--cc CC] [NAME...]

Each check is a function below named check_<name>; it returns a list of faults,
or a Skip. The last line is "N passed, N failed, N skipped"."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402

MAX_FUNCTION_LINES = 120
MAX_COLUMNS = 150           # about 100 is the rule; rows of tables may be longer


class Skip(Exception):
    """What a check lacks."""


def sources(*suffixes):
    return [p for p in sorted((ROOT / "src").rglob("*")) if p.suffix in suffixes]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


PUBLIC = ["fornax.h", "fornax_graph.h", "fornax_kernel.h"]


def public_functions():
    """Names declared with FORNAX_API in the public headers."""
    text = "".join(strip((ROOT / "include" / name).read_text()) for name in PUBLIC)
    return set(re.findall(r"FORNAX_API\b[^;()]*?\b(fornax_\w+)\s*\(", text))


def make_ops_header(folder):
    """fornax_ops.h, as the build makes it."""
    rc, out = run(tool("awk"), "-f", ROOT / "cmake/ops_header.awk", ROOT / "src/tensor/ops.def")
    Path(folder, "fornax_ops.h").write_text(out)
    return Path(folder, "fornax_ops.h")


def strip(text, keep_strings=False):
    """C text with comments, strings and characters blanked; lines stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(m):
        if keep_strings and m.group(0)[0] in "\"'":
            return m.group(0)
        return re.sub(r"[^\n]", " ", m.group(0))

    return pattern.sub(blank, text)


def run(*argv):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace")
    return p.returncode, p.stdout + p.stderr


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed")
    return path


# ---- includes and headers ---------------------------------------------------------


def check_layers_in_order(args):
    return check_layers.check(ROOT / "src", ROOT / "layers.txt")


def check_layers_checker(args):
    """The checker itself, on a made-up tree with one fault of each kind."""
    with tempfile.TemporaryDirectory() as d:
        files = {"src/a/a.h": '#include "a/b.h"\n', "src/a/b.h": '#include "a/a.h"\n#include "z/z.h"\n',
                 "src/z/z.h": '#include "a/a.h"\n#include "a/none.h"\n#include "a/none2.h" // x\n',
                 "src/q/q.c": "", "layers.txt": "a:\nz: a q\n"}
        for name, text in files.items():
            path = Path(d, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = "\n".join(check_layers.check(Path(d, "src"), Path(d, "layers.txt")))
    wanted = ["z may include q, which is not above", "a/b.h:2: a may not include z/z.h", "no such header: a/none.h",
              "z/z.h:3: no such header", "q/q.c: its folder", "include cycle: a/a.h -> a/b.h -> a/a.h"]
    return [f"not reported: {w}" for w in wanted if w not in found]


def check_public_header_alone(args):
    with tempfile.TemporaryDirectory() as d:
        made = make_ops_header(d)
        return [f for h in [*(ROOT / "include" / n for n in PUBLIC), made] for f in public_header_faults(args, h, d)]


def public_header_faults(args, header, generated):
    faults = []
    jobs = [(args.cc, "-x", "c", f"-std={std}") for std in ("c99", "c11")]
    cxx = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if cxx:
        jobs += [(cxx, "-x", "c++", f"-std={std}") for std in ("c++11", "c++20")]
    for job in jobs:
        rc, out = run(*job, "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header",
                      f"-I{ROOT / 'include'}", f"-I{generated}", "-fsyntax-only", header)
        if rc:
            faults.append(f"{header.name}, {' '.join(job[:1] + job[-1:])}: {out.strip()[:500]}")
    return faults


ISA = {"avx2": "-mavx2 -mfma -mf16c -mbmi2", "avxvnni": "-mavx2 -mfma -mf16c -mbmi2 -mavxvnni",
       "avx512": "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni"}
ISA["avx512bf16"] = ISA["avx512"] + " -mavx512bf16"


def check_headers_alone(args):
    _, machine = run(args.cc, "-dumpmachine")

    llvm = shutil.which("llvm-config-19") or shutil.which("llvm-config")
    llvm_include = run(llvm, "--includedir")[1].strip() if llvm else None

    def one(path):
        suffix = path.stem.rsplit("_", 1)[-1]
        if path.parent.name == "llvm" and not (llvm_include and Path(llvm_include, "llvm-c/Core.h").exists()):
            return None
        if suffix == "neon" and "aarch64" not in machine or suffix in ISA and "x86_64" not in machine:
            return None
        rc, out = run(args.cc, "-x", "c", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wno-unused-function",
                      "-Werror", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", f"-I{generated}",
                      *(["-isystem", llvm_include] if llvm_include else []), *ISA.get(suffix, "").split(),
                      "-fsyntax-only", "-include", path, os.devnull)
        return f"{name_of(path)}: {out.strip()[:500]}" if rc else None

    with tempfile.TemporaryDirectory() as generated, ThreadPoolExecutor(os.cpu_count()) as pool:
        make_ops_header(generated)
        return [f for f in pool.map(one, sources(".h")) if f]


# ---- what the library shows and keeps ------------------------------------------------


def library(args):
    path = Path(args.build or ROOT / "build") / "libfornax.so"
    if not path.exists():
        raise Skip(f"{path} is not built")
    return path


def check_exported_symbols(args):
    path = library(args)
    if not (ROOT / "src/api").exists():
        raise Skip("src/api does not exist yet")
    _, out = run(tool("nm"), "-D", "--defined-only", path)
    exported = {line.split()[-1].split("@")[0] for line in out.splitlines() if len(line.split()) == 3}
    declared = public_functions()
    return ([f"exported but not in a public header: {n}" for n in sorted(exported - declared)] +
            [f"in a public header but not exported: {n}" for n in sorted(declared - exported)])


def check_code_generator_shows_its_entry(args):
    """libfornax-llvm.so shows one symbol and needs nothing of libfornax; libfornax doesn't need LLVM."""
    path = library(args).with_name("libfornax-llvm.so.0")
    if not path.exists():
        raise Skip(f"{path} is not built: no LLVM")
    _, out = run(tool("nm"), "-D", "--defined-only", path)
    shown = [line.split()[-1].split("@")[0] for line in out.splitlines() if len(line.split()) == 3]
    faults = [] if shown == ["fornax_llvm_plugin"] else [f"{path.name} shows {', '.join(shown)}; only fornax_llvm_plugin is to be seen"]
    for file, banned in ((path, "libfornax.so"), (library(args), "libLLVM")):
        _, out = run(tool("readelf"), "-d", file)
        faults += [f"{file.name} needs {banned}" for line in out.splitlines() if "(NEEDED)" in line and banned in line]
    return faults


def check_static_library_is_local(args):
    path = library(args).with_name("libfornax.a")
    if not path.exists():
        raise Skip(f"{path} is not built")
    _, out = run(tool("nm"), "--defined-only", "-g", path)
    names = {line.split()[-1] for line in out.splitlines() if len(line.split()) == 3}
    return [f"libfornax.a shows {n}" for n in sorted(names) if not n.startswith("fornax_")]


# Not ours: the compiler's, and the sanitizers'.
NOT_OURS = re.compile(r"^(completed\.\d+|__|_|\.|crtstuff|\w+\.c$)|(asan|ubsan|tsan|odr)")


def check_no_mutable_globals(args):
    """Variables in .data and .bss of the library's own objects."""
    path = library(args).with_name("libfornax.a")
    if not path.exists():
        raise Skip(f"{path} is not built")
    _, out = run(tool("objdump"), "-t", path)
    listed = {line.split()[0] for line in (ROOT / "tests/tree/globals.txt").read_text().splitlines()
              if line.strip() and not line.startswith("#")}
    faults = []
    for line in out.splitlines():
        m = re.match(r"[0-9a-f]+ (.{7}) (\.data|\.bss)(?:\.(?!rel\.ro)\S+)?\t[0-9a-f]+ (?:\.hidden )?(\S+)$", line)
        if m and "O" in m.group(1) and not NOT_OURS.search(m.group(3)):
            name = re.sub(r"\.\d+$", "", m.group(3))
            if name not in listed:
                faults.append(f"mutable variable {name}: pass it as an argument, or say in tests/tree/globals.txt "
                              "why it is filled once")
    return sorted(set(faults))


def check_install(args):
    """make install's result: the readme's program compiles against it with pkg-config, linked
    to either library, and says what is wrong with a model that isn't there; the examples
    compile."""
    build = library(args).parent
    if not (ROOT / "src/api").exists():
        raise Skip("src/api does not exist yet")
    program = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    faults = []
    with tempfile.TemporaryDirectory() as d:
        rc, out = run(tool("cmake"), "--install", build, "--prefix", f"{d}/usr")
        if rc:
            return [f"cmake --install: {out.strip()[-500:]}"]
        libs = {p.parent for p in Path(d).rglob("libfornax.so")}
        found = {p.name for p in Path(d).rglob("*")}
        faults += [f"not installed: {n}" for n in (*PUBLIC, "fornax_ops.h", "libfornax.so.0", "libfornax.a", "fornax.pc")
                   if n not in found]
        if faults:
            return faults
        lib = libs.pop()
        Path(d, "chat.c").write_text(program)
        env = f"PKG_CONFIG_PATH={lib}/pkgconfig"
        config = f"{env} pkg-config --define-variable=prefix={d}/usr"
        flags = f"$({config} --cflags"
        links = {"shared": f"{flags} --libs fornax) -Wl,-rpath,{lib}",
                 "static": f"{flags} fornax) {lib}/libfornax.a $({config} --static --libs fornax | "
                           "sed 's/-lfornax//')"}
        for kind, link in links.items():
            rc, out = run("sh", "-c", f"{args.cc} -std=c99 -Wall -Wextra {d}/chat.c {link} -o {d}/chat-{kind}")
            if rc:
                faults.append(f"the readme's program, {kind}: {out.strip()[-800:]}")
                continue
            rc, out = run(f"{d}/chat-{kind}", f"{d}/none.gguf")
            if rc != 1 or "none.gguf" not in out:
                faults.append(f"the readme's program, {kind}: exit status {rc}, said: {out.strip()[:300]}")
        for example in sorted((ROOT / "examples").glob("*.c")):
            kind = "-shared -fPIC" if example.stem.endswith("_kernel") else ""       # a package of kernels
            rc, out = run("sh", "-c", f"{args.cc} -Wall -Wextra -Werror {kind} {example} {links['shared']} -o {d}/example")
            if rc:
                faults.append(f"{name_of(example)}: {out.strip()[:800]}")
    return faults


# ---- text of the sources ----------------------------------------------------------------

# function names -> folders that may call them, and what to use instead
BANNED = [
    ("malloc calloc realloc free strdup strndup asprintf vasprintf aligned_alloc posix_memalign",
     "base cli server", "fx_mem, fx_arena"),
    ("printf puts putchar putc fputs fprintf vprintf vfprintf perror dprintf fwrite", "cli", "fx_log_print, or errors"),
    ("exit _exit _Exit quick_exit atexit", "cli", "errors"),
    ("abort", "base", "FX_ASSERT, or errors"),
    ("getenv secure_getenv", "api cli", "options"),
    ("setenv putenv unsetenv clearenv", "", "options"),
    ("setlocale", "cli", "fx_format, fx_parse_double"),
    ("signal sigaction", "cli", "nothing: signals are the application's"),
    ("strtod strtof strtold atof atoi atol atoll sscanf scanf", "", "fx_parse_*"),
    ("sprintf vsprintf strcpy strcat strncpy strncat gets strtok alloca", "", "fx_buf"),
    ("rand srand random srandom drand48 strerror localtime gmtime ctime asctime", "", "the reentrant forms"),
    ("system popen", "", "a library call"),
    ("fork vfork execv execve execvp execl execlp", "cli", "threads"),
]


def check_banned_calls(args):
    faults = []
    for path in sources(".c", ".h"):
        folder = path.relative_to(ROOT / "src").parts[0]
        text = strip(path.read_text(errors="replace"))
        for names, folders, instead in BANNED:
            if folder in folders.split():
                continue
            for m in re.finditer(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\(", text):
                line = text.count("\n", 0, m.start()) + 1
                faults.append(f"{name_of(path)}:{line}: {m.group(1)}() is not for {folder}/; use {instead}")
    return faults


def check_locale_formats(args):
    """snprintf of floating-point numbers obeys the process's locale; fx_format doesn't."""
    faults = []
    for path in sources(".c", ".h"):
        if path.relative_to(ROOT / "src").parts[0] == "cli":
            continue                        # the program never sets LC_NUMERIC
        text = strip(path.read_text(errors="replace"), keep_strings=True)
        for m in re.finditer(r'\bv?snprintf\s*\([^;"]*"[^"]*%[-+ #0-9.*]*[lL]?[aefgAEFG]', text):
            faults.append(f"{name_of(path)}:{text.count(chr(10), 0, m.start()) + 1}: use fx_format")
    return faults


def check_opening_comments(args):
    faults = []
    for folder, pattern, opening in [("src", "*.[ch]", "/*"), ("include", "*.h", "/*"), ("tests", "*.[ch]", "/*"),
                                     ("src", "*.def", "/*"), ("tests", "*.py", ('"""', "#!", "#")),
                                     ("tools", "*.py", ("#!", '"""')), ("scripts", "*", "#!"),
                                     ("examples", "*.c", "/*"), ("bench", "*.[ch]", "/*")]:
        for path in sorted((ROOT / folder).rglob(pattern)) if (ROOT / folder).exists() else []:
            if path.is_file() and "data" not in path.parts and "__pycache__" not in path.parts:
                text = path.read_text(errors="replace").lstrip()
                if text and not text.startswith(opening):
                    faults.append(f"{name_of(path)}: does not open with a comment that says what it is")
                elif opening == "/*" and path.name not in text.split("*/")[0]:
                    faults.append(f"{name_of(path)}: its opening comment does not name it")
    return faults


def functions(path):
    """(name, first line, lines) of each function: a '{' alone at a line's begin opens
    a body after a line that ends a parameter list, a '}' there closes it."""
    lines = strip(path.read_text(errors="replace")).splitlines()
    start = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{" and i and lines[i - 1].rstrip().endswith(")"):
            start = i
        elif line.startswith("}") and start is not None:
            head = start - 1
            while head > 0 and lines[head][:1].isspace():
                head -= 1
            m = re.search(r"(\w+)\s*\(", lines[head])
            yield (m.group(1) if m else "?"), head + 1, i - head + 1
            start = None


def check_function_length(args):
    return [f"{name_of(p)}:{line}: {name} has {n} lines, at most {MAX_FUNCTION_LINES}"
            for p in sources(".c", ".h") for name, line, n in functions(p) if n > MAX_FUNCTION_LINES]


def check_line_length(args):
    return [f"{name_of(p)}:{i}: {len(line)} columns, at most {MAX_COLUMNS}" for p in sources(".c", ".h")
            for i, line in enumerate(p.read_text(errors="replace").splitlines(), 1) if len(line) > MAX_COLUMNS]


def check_white_space(args):
    faults = []
    for path in sources(".c", ".h", ".def"):
        text = path.read_text(errors="replace")
        if "\t" in text:
            faults.append(f"{name_of(path)}: has tabs")
        if re.search(r"[ \t]$", text, re.M):
            faults.append(f"{name_of(path)}: has blanks at a line's end")
        if text and not text.endswith("\n"):
            faults.append(f"{name_of(path)}: does not end with a newline")
    return faults


def check_unique_names(args):
    seen = {}
    for path in sources(".h"):
        seen.setdefault(path.name, []).append(name_of(path))
    return [f"one name, several files: {', '.join(v)}" for v in seen.values() if len(v) > 1]


def check_public_calls_documented(args):
    """Each group of lines that declares a function has a comment in or right above it."""
    faults = []
    for header in PUBLIC:
        for group in re.split(r"\n\s*\n", (ROOT / "include" / header).read_text()):
            names = re.findall(r"FORNAX_API\b[^;()]*?\b(fornax_\w+)\s*\(", group)
            if names and "/*" not in group:
                faults.append(f"include/{header}: {', '.join(names)}: no comment")
    return faults


def check_tests_exist(args):
    """Each folder of src/ with code has a test that includes one of its headers; api counts as
    tested by the public header. server, cli and what only api puts together (compile,
    runtime) are tested from outside, by tests/e2e."""
    included = set()
    for path in (ROOT / "tests").rglob("*.[ch]"):
        included |= {m.split("/")[0].replace("fornax.h", "api").replace("fornax_graph.h", "api") for m in check_layers.INCLUDE.findall(path.read_text(errors="replace"))}
    folders = {p.relative_to(ROOT / "src").parts[0] for p in sources(".c")}
    return [f"src/{f}: no unit test includes its headers" for f in sorted(folders - included - {"server", "cli", "compile", "runtime"})]


def main():
    checks = {n[6:]: f for n, f in list(globals().items()) if n.startswith("check_") and callable(f)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="build folder, for the checks of the library")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("names", nargs="*", choices=[[], *checks])
    args = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, check in checks.items():
        if args.names and name not in args.names:
            continue
        try:
            faults = check(args)
        except Skip as e:
            print(f"skipped {name}: {e}")
            counts["skipped"] += 1
            continue
        for fault in faults:
            print(fault)
        if faults:
            print(f"FAILED {name}")
        counts["failed" if faults else "passed"] += 1
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
