"""Sampled text validates; see generations.py, whose long form takes any model and number."""
import pytest

pytest.importorskip("jsonschema")

from conftest import FORNAX  # noqa: E402
from generations import run  # noqa: E402


def test_sampled_text_validates(tiny):
    counts = run(tiny, FORNAX, 70)
    assert counts["stop"] + counts["length"] == 70 and counts["stop"] > 20 and counts["length"] > 5
    assert counts["free"] == 10
