"""What a monitor sees: the metrics by a strict reader of Prometheus' text format, and that looking changes nothing."""
import re
import threading

import pytest

from conftest import TINY

NAME, LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*", r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf)|NaN)")
ASK = {"prompt": [1, 2, 3], "max_tokens": 3, "ignore_eos": True}


def parse(text):
    """{name: (type, {labels: value})}; fails at anything that version 0.0.4 of the format doesn't allow, and at colons, which
    are for rules."""
    assert text.endswith("\n") and "\r" not in text
    types, helped, out, current = {}, set(), {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, current, words = line.split(" ", 3)
            assert re.fullmatch(NAME, current) and words and current not in helped
            helped.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
            out[name] = (kind, {})
        else:
            m = SAMPLE.fullmatch(line)
            assert m, line
            name, labels, value = m.groups()
            base = re.sub("_(bucket|sum|count)$", "", name) if types[current] == "histogram" else name
            assert base == current, f"{name} belongs to no family"
            key = (name, labels or "")
            assert key not in out[base][1]
            out[base][1][key] = float(value)
    assert helped == set(types)
    return out


def check_histogram(samples, name):
    buckets = [(float(labels.split('"')[1]), v) for (n, labels), v in samples.items() if n == name + "_bucket"]
    assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
    counts = [v for _, v in buckets]
    assert counts == sorted(counts) and counts[-1] == samples[(name + "_count", "")] and samples[(name + "_sum", "")] >= 0


def scrape(s):
    status, head, data = s.request("GET", "/metrics")
    assert status == 200 and head["content-type"].replace(" ", "") == "text/plain;version=0.0.4;charset=utf-8"
    return data.decode()


def totals(families):
    return {k: v for kind, samples in families.values() if kind != "gauge" for k, v in samples.items()}


def test_metrics_by_a_strict_reader(serve):
    s = serve(TINY)
    first = parse(scrape(s))
    assert s.post("/v1/completions", ASK)[0] == 200
    second = parse(scrape(s))
    for name, (kind, samples) in second.items():
        assert name.startswith("fornax_")
        if kind == "histogram":
            check_histogram(samples, name)
        if kind == "counter":
            assert name.endswith("_total")
    a, b = totals(first), totals(second)
    assert set(a) == set(b) and all(b[k] >= a[k] for k in a) and any(b[k] > a[k] for k in a)
    assert any(kind == "histogram" for kind, _ in second.values())


def test_looking_changes_nothing(serve):
    s = serve(TINY)
    assert s.post("/v1/completions", ASK)[0] == 200
    assert s.quiet()
    before, seen = scrape(s), []
    threads = [threading.Thread(target=lambda: seen.extend(scrape(s) for _ in range(10))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    s.health()
    assert len(seen) == 20 and set(seen) == {before} and scrape(s) == before


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_probes_take_get_and_head_only(tiny, path):
    assert tiny.request("HEAD", path)[0] == 200 and tiny.request("HEAD", path)[2] == b""
    status, head, _ = tiny.request("POST", path, "{}")
    assert status == 405 and "GET" in head["allow"]


def test_health_has_what_a_probe_needs(tiny):
    h = tiny.health()
    assert h["status"] == "ok" and h["model"] == "tiny" and h["running"] == h["waiting"] == h["prefill_tokens"] == h["prefill_done"] == 0
    assert h["uptime_s"] >= 0 and h["steps"] >= 0
