"""CPU seconds of calls that should answer at once, against importing the libraries that any typed command line has.

Both sides are processes of their own, in turns, so that a busy machine hits both alike. Run with ``-s`` to see the
seconds.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.timing import Duel
from tests.test_startup import measured

pytestmark = pytest.mark.speed

PEER = """
import resource
import typer, typer.main, rich.console, pydantic, yaml
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
ROUNDS = 5
LEAST = 0.2
"""The imports alone take this share of a call's time, or more (measured: .25 to .35)."""


def peer_seconds() -> float:
    """CPU seconds of a process that only imports the libraries."""
    return float(subprocess.run([sys.executable, "-c", PEER], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("ls",), ("ls", "methods")], ids=" ".join)
def test_a_call_takes_no_more_than_five_times_its_libraries(words: tuple[str, ...]) -> None:
    measured(*words)  # the first call may have to compile bytecode
    rounds = [(measured(*words)[1], peer_seconds()) for _ in range(ROUNDS)]
    found = Duel(ours=min(ours for ours, _ in rounds), theirs=min(theirs for _, theirs in rounds))
    found.report("bench " + " ".join(words), peer="libraries")
    assert found.ratio > LEAST
