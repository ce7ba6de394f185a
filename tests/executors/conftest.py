"""A sweep of light jobs in a folder of its own, under any executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.executors.executor import Executor
from genrec_unlearn_bench.executors.in_process import InProcess
from genrec_unlearn_bench.executors.pool import Pool
from genrec_unlearn_bench.executors.room import Machine
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.sweep import SweepOutcome, sweep
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from genrec_unlearn_bench.progress import Progress
from tests.executors import light_work

ROOT = Path(__file__).parents[2]


class Told(Progress):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class World:
    """A cache, a results folder, and a short way to sweep in them."""

    root: Path
    told: Told

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def folder(self) -> SweepFolder:
        return SweepFolder.of(self.cache, "light")

    def pool(self, processes: int = 2, *, machine: Machine | None = None, grace: float = 2.0) -> Pool:
        machine = machine or Machine(cores=processes, gpus=())
        return Pool(self.folder, self.cache, processes=processes, machine=machine, grace=grace, work=light_work.WORK)

    def in_process(self) -> InProcess:
        return InProcess(self.folder, self.cache, work=light_work.do)

    def sweep(self, jobs: Sequence[Job], executor: Executor | None = None, **options: Any) -> SweepOutcome:
        options.setdefault("pause", lambda attempt: 0.01)
        journal = Journal(self.folder.events)
        try:
            return sweep(jobs, executor or self.in_process(), self.folder, journal, self.told, **options)
        finally:
            journal.close()

    def events(self, job: str) -> list[Event]:
        return [event for event in Journal(self.folder.events).events() if event.job == job]

    def job(self, name: str, **given: Any) -> Job:
        return light_work.job(name, self.root, **given)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    # The pool's processes import the light work by its name.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return World(tmp_path, Told())


@pytest.fixture(params=["in-process", "pool of 1", "pool of 2"])
def executor(request: pytest.FixtureRequest, world: World) -> Callable[[], Executor]:
    """Each executor that this machine has."""
    kinds: dict[str, Callable[[], Executor]] = {
        "in-process": world.in_process,
        "pool of 1": lambda: world.pool(1),
        "pool of 2": lambda: world.pool(2),
    }
    return kinds[request.param]
