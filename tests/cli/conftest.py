"""A wide terminal for all verbs, and sweeps of light cells."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.executors.task import WorkResult
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.executors import light_work
from tests.executors.in_process import InProcess
from tests.grid.light_graphs import LightBuilder


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and digests in one line: a worker of pytest-xdist has a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "160")


class Light:
    """Cells of light stages, done in this process; faults by method, each raised once."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.faults: dict[str, BaseException] = {}
        self.diverged: set[str] = set()

    def work(self, job: Job, store: StageStore, progress: Progress) -> WorkResult:
        if job.until == "result" and job.request.method in self.faults:
            raise self.faults.pop(job.request.method)
        result = light_work.do(job, store, progress)
        self.done += [job.name] if job.until == "result" else []
        return WorkResult(result.folder, job.request.method in self.diverged)


def install_light(monkeypatch: pytest.MonkeyPatch) -> Light:
    """Let ``bench grid run`` do light cells."""
    found = Light()

    monkeypatch.setattr("genrec_unlearn_bench.grid.expand.graph_builder", lambda **_: LightBuilder())
    monkeypatch.setattr("genrec_unlearn_bench.executors.local.LocalProcesses", lambda folder, **_: InProcess(folder))
    monkeypatch.setattr("genrec_unlearn_bench.executors.task.run_job", found.work)
    return found


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> Light:
    return install_light(monkeypatch)
