"""What a verb that only reads pays before it starts, against what one that computes pays for its libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.timing import Duel

pytestmark = pytest.mark.speed

_READING = "import genrec_unlearn_bench.cli.main"
_COMPUTING = "import genrec_unlearn_bench.backbones.t5; from transformers import T5ForConditionalGeneration"


def test_reading_verbs_import_nothing_heavy() -> None:
    runs = [(_seconds(_READING), _seconds(_COMPUTING)) for _ in range(2)]
    result = Duel(min(one for one, _ in runs), min(two for _, two in runs))
    result.report("imports of bench ls", peer="of a run with TIGER")
    assert result.ratio >= 5.0


def _seconds(statement: str) -> float:
    """Processor time of a fresh interpreter, its own start left out."""
    program = f"import time; start = time.process_time()\n{statement}\nprint(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
