"""The critical-difference diagram: the same numbers give the same bytes, and no name breaks or executes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from genrec_unlearn_bench.reporting.statistics.friedman import Friedman, critical_difference, friedman

NAMES = ("tracer", "grad-diff", "npo", "rmu", "scrub")


def compared(methods: int = 5) -> Friedman:
    values = np.random.default_rng(0).normal(size=(12, methods)) + np.arange(methods) * 0.8
    return friedman(values)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_same_bytes_twice_and_no_date() -> None:
    found = compared()
    svg, pdf = (critical_difference(found, NAMES, form) for form in ("svg", "pdf"))
    assert svg == critical_difference(found, NAMES, "svg")
    assert pdf == critical_difference(found, NAMES, "pdf")
    assert pdf.startswith(b"%PDF")
    for word in ("Date", "Creat"):
        assert word.encode() not in pdf
    assert "<dc:date>" not in svg.decode()


@pytest.mark.slow
def test_the_same_bytes_in_another_process() -> None:
    """Sets of names are walked in another order under every hash seed."""
    program = (
        "import hashlib; from tests.reporting.statistics.test_critical_difference import compared\n"
        "from genrec_unlearn_bench.reporting.statistics.friedman import critical_difference\n"
        "names = [f'method {number}' for number in range(9)]\n"
        "drawn = [critical_difference(compared(9), names, form) for form in ('svg', 'pdf')]\n"
        "print(hashlib.blake2b(b''.join(drawn)).hexdigest())"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""


def test_every_method_is_named_with_its_mean_rank() -> None:
    found = compared()
    shown = texts(critical_difference(found, NAMES, "svg").decode())
    for name, rank in zip(NAMES, found.mean_ranks, strict=True):
        assert any(name in text and f"({rank:.2f})" in text for text in shown)


def test_odd_names_are_text() -> None:
    names = ("a_b", "50% $x^2$", "<script>alert(1)</script>", "{label} \\input{x}", "עברית 😀")
    svg = critical_difference(compared(), names, "svg").decode()
    assert "<script>" not in svg
    shown = " ".join(texts(svg))
    for name in names:
        assert name in shown


def test_forty_methods() -> None:
    names = [f"method {number}" for number in range(40)]
    svg = critical_difference(compared(40), names, "svg").decode()
    assert all(any(name in text for text in texts(svg)) for name in names)


def test_importing_the_statistics_brings_nothing_heavy() -> None:
    folder = Path(sys.modules[critical_difference.__module__].__file__ or "").parent
    names = [f"genrec_unlearn_bench.reporting.statistics.{path.stem}" for path in sorted(folder.glob("[a-z]*.py"))]
    heavy = ["torch", "pandas", "matplotlib", "scipy", "statsmodels", "scikit_posthocs"]
    program = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
