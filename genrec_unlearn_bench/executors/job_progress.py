"""Progress of a run beyond the terminal: the log of its job, and TensorBoard."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from genrec_unlearn_bench.errors import MissingExtra
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.progress import Progress, process_index

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

T = TypeVar("T")

LOSS_SECONDS = 10.0
"""Seconds between two lines of losses in the log."""


class JobProgress(Progress):
    """Writes messages to a job's log at once and losses now and then; knows the stage that is being computed."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._stages: list[str] = []
        self._loop = ""
        self._losses_at = 0.0

    @property
    def position(self) -> str:
        """The stage and how far it has come; empty between stages."""
        return " · ".join(part for part in (*self._stages[-1:], self._loop) if part)

    def info(self, text: str) -> None:
        """Append text behind the time of day; it is in the file when this returns. Raises StorageError."""
        line = f"{time.strftime('%H:%M:%S')} {text.rstrip()}\n".encode("utf-8", errors="replace")
        with guarded(self._log, "--cache-dir"):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab", buffering=0) as file:
                file.write(line)

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        self._stages.append(stage)
        self.info(f"{stage}: computing")
        try:
            yield
        finally:
            self._stages.pop()

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        total = total or length_hint(sequence) or None
        outer = self._loop
        try:
            for done, part in enumerate(sequence):
                self._loop = f"{label} {done}/{total}" if total else f"{label} {done}"
                yield part
        finally:
            self._loop = outer

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        if time.monotonic() - self._losses_at > LOSS_SECONDS:
            self._losses_at = time.monotonic()
            values = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
            self.info(f"{stage} step {step}: {values}")


class TensorBoardProgress(Progress):
    """Passes everything on, and losses to TensorBoard as ``<stage>/<part>.<loss>`` by step.

    A stage that is computed more than once in a run, as several oracles are, gets a number from the second on.
    """

    def __init__(self, outer: Progress, writer: SummaryWriter) -> None:
        super().__init__(outer=outer)
        self._writer = writer
        self._stages = ["run"]
        self._times: Counter[str] = Counter()

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        self._times[stage] += 1
        self._stages.append(stage if self._times[stage] == 1 else f"{stage} {self._times[stage]}")
        try:
            with super().computing(stage):
                yield
        finally:
            self._stages.pop()

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        super().follow(stage, step, losses)
        # A full disk must not end a training: its losses are in the result as well.
        with suppress(OSError):
            for name, value in losses.items():
                self._writer.add_scalar(f"{self._stages[-1]}/{stage}.{name}", value, step)


@contextmanager
def tensorboard(progress: Progress, folder: Path | None, run: str) -> Iterator[Progress]:
    """A progress that also writes losses for TensorBoard, to ``folder/run``; ``progress`` itself without a folder.

    Of several processes that compute one run together the first writes. Raises MissingExtra.
    """
    if folder is None or process_index() > 0:
        yield progress
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("tensorboard", "trackers", "the option --tensorboard") from None
    with SummaryWriter(folder / run) as writer:
        yield TensorBoardProgress(progress, writer)
