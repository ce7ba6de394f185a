"""Starting up is quick: help and lists import nothing heavy. tests/benchmarks/test_startup_speed.py takes the time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "sklearn", "pandas", "scipy", "pyarrow", "accelerate")
HEAVY += ("sentence_transformers", "datasets")

# Says at its end which heavy modules came along, and its own CPU time from the start of the interpreter.
PROGRAM = """
import resource, sys
sys.argv = ["bench", *sys.argv[1:]]
from genrec_unlearn_bench.cli.main import run
try:
    run()
except SystemExit as end:
    code = end.code
used = resource.getrusage(resource.RUSAGE_SELF)
print("\\nMEASURED", code, used.ru_utime + used.ru_stime, [name for name in {heavy!r} if name in sys.modules])
"""


def measured(*words: str) -> tuple[int, float, str]:
    """Exit code, CPU seconds of the child and the heavy modules it imported."""
    program = PROGRAM.replace("{heavy!r}", repr(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    code, seconds, heavy = done.stdout.strip().splitlines()[-1].removeprefix("MEASURED ").split(" ", 2)
    return int(code or 0), float(seconds), heavy


CALLS = [
    ("--help",),
    ("run", "--help"),
    ("tune", "--help"),
    ("ls",),
    ("ls", "tasks"),
    ("ls", "methods"),
    ("ls", "backbones"),
    ("ls", "datasets"),
    ("ls", "metrics"),
    ("data", "--help"),
    ("results", "compare", "--help"),
    ("leaderboard", "--help"),
    ("submission", "new", "--help"),
    ("submission", "verify", "--help"),
    ("submission", "reproduce", "--help"),
    ("submission", "reproduce"),
    ("grid", "status", "--help"),
    ("grid", "collect", "--help"),
    ("method", "check", "--help"),
    ("method", "new", "--help"),
]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_help_and_lists_import_nothing_heavy(words: tuple[str, ...]) -> None:
    code, _, heavy = measured(*words)
    assert code == 0
    assert heavy == "[]"


@pytest.mark.parametrize("words", [("--help",), ("ls",), ("ls", "methods"), ("run", "--help")], ids=" ".join)
def test_numpy_is_imported_where_it_is_needed(words: tuple[str, ...]) -> None:
    program = PROGRAM.replace("{heavy!r}", repr(("numpy",)))
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("bench")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
