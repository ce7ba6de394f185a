"""Methods, suites and kinds of requests on the demo against frozen outcomes, to the bit.

Minutes of processor time: ``make frozen``. What the smoke benchmark has left in the cache is not computed again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from genrec_unlearn_bench.pipeline.environment import PACKAGES, arithmetic, describe, versions
from tests.frozen.outcomes import CALLS, frozen, outcomes


@pytest.mark.frozen
@pytest.mark.parametrize("call", CALLS)
def test_outcomes_are_the_same_to_the_bit(call: str, tmp_path: Path) -> None:
    expected = frozen()
    known = expected["environment"]["arithmetic"]
    here = {
        "device_name": describe("cpu", threads=1).device_name,
        "arithmetic": {name: arithmetic()[name] for name in known},
        "packages": versions(PACKAGES),
    }
    if here != expected["environment"]:
        pytest.skip(f"frozen in another environment, whose sums round otherwise: {expected['environment']}")
    arguments = CALLS[call] if "--task" in CALLS[call] else ["--task", "demo-brand", *CALLS[call]]
    command = [sys.executable, "-c", "from genrec_unlearn_bench.cli.start import run; run()", "run", *arguments]
    done = subprocess.run([*command, "--results-dir", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = dict(outcomes(tmp_path))
    assert found
    differing = [
        f"{cell}: {part}"
        for cell, outcome in found.items()
        for part, value in outcome.items()
        if value != expected["cells"][cell][part]
    ]
    assert not differing
    values = sum(len(outcome["metrics"]) for outcome in found.values())
    print(f"{call}: {len(found)} cells, {values} metrics, none differs")
