"""A sweep of light jobs in a folder of its own, under any executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.executors import sweep
from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
from genrec_unlearn_bench.executors.sweep import Sweep, SweepOutcome
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, SweepFolder
from genrec_unlearn_bench.progress import Progress
from tests.executors import light_work
from tests.executors.in_process import InProcess

ROOT = Path(__file__).parents[2]


class Lines(Progress):
    """Keeps what was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class World:
    """A cache, a results folder, and a short way to sweep in them."""

    root: Path
    shown: Lines

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def folder(self) -> SweepFolder:
        return SweepFolder.of(self.cache, "light")

    def local(self, processes: int = 2, *, machine: Machine | None = None, grace: float = 2.0) -> LocalProcesses:
        machine = machine or Machine(cores=processes, gpus=())
        return LocalProcesses(self.folder, processes=processes, machine=machine, grace=grace, work=light_work.WORK)

    def in_process(self) -> InProcess:
        return InProcess(self.folder, work=light_work.WORK)

    def sweep(self, jobs: Sequence[Job], executor: LocalProcesses | None = None, **options: Any) -> SweepOutcome:
        return Sweep(jobs, executor or self.in_process(), self.folder, self.shown, **options).run()

    def state(self, job: str) -> JobState:
        state = self.folder.state(job)
        assert state is not None
        return state

    def log(self, job: str) -> str:
        path = self.folder.log(job)
        return path.read_text() if path.exists() else ""

    def job(self, name: str, **given: Any) -> Job:
        return light_work.job(name, self.root, **given)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(sweep, "PAUSES", (0.01, 0.01))
    # The fork server imports the light work by its name.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return World(tmp_path, Lines())


@pytest.fixture(params=["in-process", "1 process", "2 processes"])
def executor(request: pytest.FixtureRequest, world: World) -> Callable[[], LocalProcesses]:
    """Each executor that this machine has."""
    kinds: dict[str, Callable[[], LocalProcesses]] = {
        "in-process": world.in_process,
        "1 process": lambda: world.local(1),
        "2 processes": lambda: world.local(2),
    }
    return kinds[request.param]
