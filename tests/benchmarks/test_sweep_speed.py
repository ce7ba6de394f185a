"""What several processes and shared stages save: a grid on two processes against one, a cell on stages at hand.

Run with ``-s`` to see the numbers. The first ratio is taken twice: with jobs that wait, which shows what starting,
feeding and answering cost and nothing of the machine; and with jobs that compute, which only a machine without other
work can show.
"""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
from genrec_unlearn_bench.executors.sweep import Sweep
from genrec_unlearn_bench.grid.spec import Job
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


def cells(root: Path, way: dict[str, object]) -> list[Job]:
    """Twelve cells on one original, two seconds each."""
    first = job("original", root, until="original", method="original", seconds=0.01)
    return [first, *(job(f"cell{number}", root, needs=("original",), **way) for number in range(CELLS))]


def seconds(root: Path, processes: int, way: dict[str, object]) -> float:
    """Wall-clock of the whole grid, the start of the processes included."""
    folder = SweepFolder.of(root / "cache", "twelve")
    local = LocalProcesses(folder, processes=processes, machine=Machine(cores=2, gpus=()), work=WORK)
    began = time.perf_counter()
    outcome = Sweep(cells(root, way), local, folder, Progress()).run()
    took = time.perf_counter() - began
    assert len(outcome.done) == CELLS + 1
    return took


def free_cores() -> float:
    """How many cores two busy processes get just now."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_share, [0.0, 0.0])
        return sum(pool.map(_share, [2.0, 2.0]))


def _share(wall: float) -> float:
    """The share of a core that this process gets."""
    began, until = time.process_time(), time.perf_counter() + wall
    while time.perf_counter() < until:
        pass
    return (time.process_time() - began) / max(wall, 1e-9)


@pytest.mark.parametrize("kind", ["waiting", "computing"])
def test_twelve_cells_on_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    way: dict[str, object] = {"seconds": 2.0} if kind == "waiting" else {"ends": "spins", "turns": 40_000_000}
    cores = free_cores()
    one = seconds(tmp_path / "one", 1, way)
    two = seconds(tmp_path / "two", 2, way)
    told = f"{kind}: one process {one:.1f} s, two {two:.1f} s, ratio {one / two:.2f}"
    print(f"\n{told}; two busy processes get {cores:.2f} cores", flush=True)
    if cores < (1.8 if kind == "computing" else 1.0):
        pytest.skip(f"other work leaves {cores:.2f} of two cores: {told}")
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
            results_dir=tmp_path / "results",
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
