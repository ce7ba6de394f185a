"""A job tells the trackers that its sweep was started with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from genrec_unlearn_bench.executors.trackers import tracking_of
from genrec_unlearn_bench.executors.worker import perform
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_facts import SweepFacts, read_facts, write_facts
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.stage_log import StageLog


def test_losses_of_a_job_go_to_the_sweep_s_trackers(tmp_path: Path) -> None:
    folder = SweepFolder.of(tmp_path / "cache", "mine")
    tracking = tracking_of(["tensorboard"], tmp_path / "board")
    facts = SweepFacts(grid="mine", started=1.0, host="h", command="", results_dir="results", tracking=tracking)
    write_facts(folder, facts)
    assert read_facts(folder) == facts

    def work(job: Job, store: Any, progress: Any, shelf: Any) -> None:
        with progress.computing("original"):
            StageLog(progress).log("train", 3, {"loss": 0.5})

    job = Job(name="a/b", request=RunRequest(task="demo-brand", method="filter"), until="original")
    ended = perform(job, folder, tmp_path / "cache", attempt=1, executor="test", work=work)
    assert ended.how == "done", ended.error
    assert [path.parent for path in (tmp_path / "board").rglob("events*")] == [tmp_path / "board" / "a" / "b"]
