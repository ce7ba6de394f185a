"""Small stages for tests of the store: a few files, and a count of how often they were computed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import StoredStage, content_key
from genrec_unlearn_bench.store.store import Compute, StageStore

KINDS = ("dataset", "sids", "original", "unlearned", "evaluation")


class Lines(Progress):
    """Keeps the lines for the user."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


def recipe(number: int, name: str = "original", inputs: dict[str, str] | None = None, **config: Any) -> dict[str, Any]:
    """The recipe of a stage."""
    return {
        "stage": name,
        "version": 1,
        "config": {"seed": number, "lr": 0.1, **config},
        "files": {},
        "inputs": inputs or {},
    }


def key(number: int, name: str = "original") -> str:
    """The key of a stage without inputs."""
    return content_key(recipe(number, name))


def make(
    store: StageStore | Path,
    number: int,
    name: str = "original",
    work: Compute | None = None,
    *,
    inputs: dict[str, str] | None = None,
    **config: Any,
) -> StoredStage:
    """The stage of a number, from a store or computed into it."""
    made_from = recipe(number, name, inputs, **config)
    here = store if isinstance(store, StageStore) else StageStore(store)
    return here.make(name, content_key(made_from), made_from, work or compute(number))


def compute(number: int, log: Path | None = None, *, pause: Callable[[], None] = lambda: None) -> Any:
    """A computation whose files depend on its number alone; each time it is done makes a line in a log."""

    def work(folder: Path) -> dict[str, Any]:
        if log is not None:
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.write(handle, f"{number}\n".encode())
            os.close(handle)
        generator = random.Random(number)
        (folder / "model").mkdir()
        pause()
        (folder / "model" / "weights.bin").write_bytes(generator.randbytes(2000))
        pause()
        (folder / "values.json").write_text(f'{{"value": {generator.random()}}}')
        return {"seconds": 0.5, "peak_memory_mib": 10.0}

    return work


def done(log: Path) -> list[int]:
    """Numbers of the computations that were begun, in order."""
    return [int(line) for line in log.read_text().split()] if log.is_file() else []


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked process; returns its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    """Wait for a forked process; its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
