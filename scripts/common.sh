#!/bin/bash
# common.sh - sourced by the other scripts: where things are, and how they talk.
#
# Words for people go to standard error; noise goes to .cache/log/ and is shown
# only when the command that made it fails.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=$ROOT/.cache
BUILD=$ROOT/build
VENV=$CACHE/venv
mkdir -p "$CACHE/log"

say() { echo "[$(basename "$0")] $*" >&2; }
die() { say "$*"; exit 1; }

# quietly NAME COMMAND...: runs it with its output in a log; on failure shows the log's end.
quietly() {
    local log=$CACHE/log/$1.log
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" >&2
        die "failed: $* (all of its output: $log)"
    fi
}

processors() { nproc 2>/dev/null || echo 2; }
