"""Real cells come out the same under every executor, but for times: tiny recommenders on the demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
from genrec_unlearn_bench.executors.sweep import Sweep, SweepOutcome
from genrec_unlearn_bench.grid.expand import GridCell, graph_builder
from genrec_unlearn_bench.grid.plan import make_plan
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.executors.in_process import InProcess
from tests.pipeline.conftest import TINY, TINY_TRACER

TIMES = {
    *("created", "seconds", "unlearn_seconds", "retrain_seconds", "share_of_retraining", "peak_memory_mib", "cached"),
    # What git says is said within ten seconds or not at all.
    *("tuning_seconds", "command", "git_commit", "git_dirty"),
}
"""What of a record may differ: times, the command, which names the results folder, and what git says of a tree."""

COSTS = ("cost.", "unlearn", "peak", "seconds", "share")


def jobs(results: Path, cache: Path) -> list[Job]:
    """A row that trains nothing and a method that does, and what they share."""

    def cell(method: str, **changes: Any) -> GridCell:
        request = RunRequest(
            task="demo-brand",
            method=method,
            device="cpu",
            backbone_set=TINY,
            results_dir=results,
            oracle_seeds=0,
            **changes,
        )
        return GridCell(method, request, axes={"dataset": "demo"})

    cells = [cell("filter"), cell("tracer", method_set=TINY_TRACER)]
    return list(make_plan(cells, graph_builder(), StageStore(cache), Progress()).jobs)


def run(root: Path, kind: str) -> SweepOutcome:
    cache = root / kind / "cache"
    folder = SweepFolder.of(cache, "tiny")
    machine = Machine(cores=2, gpus=())
    executor = (
        InProcess(folder) if kind == "in-process" else LocalProcesses(folder, processes=int(kind[0]), machine=machine)
    )
    wanted = jobs(root / kind / "results", cache)
    outcome = Sweep(wanted, executor, folder, Progress()).run()
    assert outcome.failed == {}, outcome.failed
    original = next(job for job in wanted if job.until == "original")
    log = folder.log(original.name).read_text()
    assert "original: computing" in log
    assert "step 0: loss" in log
    return outcome


def untimed(content: Any) -> Any:
    """A record without times."""
    if isinstance(content, dict):
        return {name: untimed(value) for name, value in content.items() if name not in TIMES}
    if isinstance(content, list):
        return [untimed(part) for part in content if not _is_cost(part)]
    return content


def _is_cost(part: Any) -> bool:
    return isinstance(part, dict) and str(part.get("metric", "")).startswith(COSTS)


@pytest.mark.slow
def test_records_do_not_depend_on_the_executor(tmp_path: Path) -> None:
    kinds = ("in-process", "1 process", "2 processes")
    outcomes = {kind: run(tmp_path, kind) for kind in kinds}
    for name in ("filter", "tracer"):
        folders = [Path(outcomes[kind].done[name].result) for kind in kinds]
        assert len({folder.name for folder in folders}) == 1
        records = [untimed(json.loads((folder / "result.json").read_text())) for folder in folders]
        assert records[0]["metrics"]
        assert records[0]["environment"]["threads"] == 1
        assert records[0] == records[1] == records[2]
        files = sorted(path.name for path in folders[0].iterdir() if path.name != "result.json")
        assert "per_user.parquet" in files
        for file in files:
            assert len({(folder / file).read_bytes() for folder in folders}) == 1, file
