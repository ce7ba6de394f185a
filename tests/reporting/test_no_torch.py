"""Reporting and submissions read records and tables: no module of theirs brings torch along, at any depth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import genrec_unlearn_bench

ROOMS = ("reporting", "submissions")


def test_no_module_brings_torch_along() -> None:
    root = Path(genrec_unlearn_bench.__file__).parent
    names = [
        ".".join(("genrec_unlearn_bench", *path.relative_to(root).with_suffix("").parts))
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
    ]
    program = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
