"""Real cells come out the same under every executor, but for times: tiny recommenders on the demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.executors.local import InProcess
from genrec_unlearn_bench.executors.pool import Pool
from genrec_unlearn_bench.executors.limits import Machine
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.log import read_log
from genrec_unlearn_bench.executors.base import SweepOutcome
from genrec_unlearn_bench.cli.sweep import sweep
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.progress import Progress
from tests.pipeline.conftest import TINY, TINY_TRACER

TIMES = {
    *("created", "seconds", "unlearn_seconds", "retrain_seconds", "share_of_retraining", "peak_memory_mib", "cached"),
    # What git says is said within ten seconds or not at all.
    *("tuning_seconds", "command", "git_commit", "git_dirty"),
}
"""What of a record may differ: times, the command, which names the results folder, and what git says of a tree."""

COSTS = ("cost.", "unlearn", "peak", "seconds", "share")


def jobs(results: Path) -> list[Job]:
    """The original, and on it a row that trains nothing and a method that does."""

    def request(method: str, **changes: Any) -> RunRequest:
        return RunRequest(
            task="demo-brand",
            method=method,
            device="cpu",
            backbone_set=TINY,
            results_dir=results,
            oracle_seeds=0,
            **changes,
        )

    return [
        Job(name="original of the demo", request=request("original"), until="original"),
        Job(name="filter", request=request("filter"), needs=("original of the demo",)),
        Job(name="tracer", request=request("tracer", method_set=TINY_TRACER), needs=("original of the demo",)),
    ]


def run(root: Path, kind: str) -> SweepOutcome:
    cache = root / kind / "cache"
    folder = SweepFolder.of(cache, "tiny")
    machine = Machine(cores=2, gpus=())
    executor = (
        InProcess(folder, cache)
        if kind == "in-process"
        else Pool(folder, cache, processes=int(kind[-1]), machine=machine)
    )
    outcome = sweep(jobs(root / kind / "results"), executor, folder, Journal(folder.events), Progress())
    assert outcome.failed == {}, [failure.error for failure in outcome.failed.values()]
    lines = read_log(folder.log("original of the demo"))
    assert {line.stage for line in lines if line.event == "stage"} >= {"sids", "original"}
    assert any(line.losses for line in lines)
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
    kinds = ("in-process", "pool of 1", "pool of 2")
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
