"""Speed of grids: two processes against one on jobs that wait, and a cell on shared stages against the cell alone.

Run with ``-s`` to see the numbers. Jobs that wait show what starting a process for each job and feeding it cost, and
nothing of the machine.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.executors.base import run_jobs
from genrec_unlearn_bench.executors.limits import Machine
from genrec_unlearn_bench.executors.local import LocalProcesses
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.executors.conftest import ROOT
from tests.executors.light_work import WORK, job
from tests.pipeline.conftest import TINY, TINY_TRACER

pytestmark = pytest.mark.speed

CELLS = 12


def cells(root: Path) -> list[Job]:
    """Twelve cells on one original, two seconds each."""
    first = job("original", root, until="original", method="original", seconds=0.01)
    return [first, *(job(f"cell{number}", root, needs=("original",), seconds=2.0) for number in range(CELLS))]


def seconds(root: Path, processes: int) -> float:
    """Wall-clock of the whole grid, the start of the processes included."""
    cache = root / "cache"
    folder = SweepFolder.of(cache, "twelve")
    local = LocalProcesses(folder, cache, processes=processes, machine=Machine(cores=2, gpus=()), work=WORK)
    began = time.perf_counter()
    outcome = run_jobs(cells(root), local, folder, Progress())
    took = time.perf_counter() - began
    assert len(outcome.done) == CELLS + 1
    return took


def test_twelve_cells_on_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    one, two = seconds(tmp_path / "one", 1), seconds(tmp_path / "two", 2)
    print(f"\none process {one:.1f} s, two {two:.1f} s, ratio {one / two:.2f}", flush=True)
    assert one / two >= 1.6


def test_a_cell_on_shared_stages_against_the_same_cell_alone(tmp_path: Path) -> None:
    def cell(cache: str, method: str) -> float:
        request = RunRequest(
            task="demo-brand",
            method=method,
            device="cpu",
            threads=1,
            backbone_set={**TINY, "training.epochs": 4},
            method_set=TINY_TRACER if method == "tracer" else {},
            results_dir=tmp_path / cache / "results",
        )
        # Processor time, as other work on the machine would count otherwise.
        began = time.process_time()
        run_cell(request, StageStore(tmp_path / cache))
        return time.process_time() - began

    # Imports and the demo's generation are paid before, by neither of the two.
    cell("warm", "popularity")
    alone = cell("alone", "tracer")
    cell("shared", "retrain")
    shared = cell("shared", "tracer")
    print(f"\ntracer alone {alone:.1f} s, on shared stages {shared:.1f} s, ratio {alone / shared:.1f}", flush=True)
    assert alone / shared >= 1.5
