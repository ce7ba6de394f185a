"""Progress of a run beyond the terminal: the log of its job, and trackers of losses (TensorBoard, or any other that
accelerate knows; off by default).

A tracker is a second reader of what stages report anyway. No result depends on it, and one that fails is given up, with
a warning, while the run goes on.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import MissingExtra, UnknownName, UsageError
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.progress import Progress, process_index

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

T = TypeVar("T")

LOSS_SECONDS = 10.0
"""Seconds between two lines of losses in the log."""


class Tracking(StrictModel):
    """Names of trackers, and the folder of those that write files."""

    names: tuple[str, ...]
    folder: str


def tracking_of(names: Sequence[str], folder: Path) -> Tracking | None:
    """What ``--tracker`` and ``--tracker-dir`` ask for; None where no tracker is named.

    Raises UnknownName where accelerate knows no such tracker, MissingExtra or UsageError where it is not installed.
    """
    if not names:
        return None
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    there = {str(getattr(name, "value", name)) for name in get_available_trackers()}
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            raise UnknownName("tracker", name, LOGGER_TYPE_TO_CLASS)
        if name not in there and name == "tensorboard":
            raise MissingExtra(name, "trackers", "the tracker 'tensorboard'")
        if name not in there:
            raise UsageError(f"the tracker {name!r} is not installed", hint=f"pip install {name.replace('_', '-')}")
    return Tracking(names=tuple(dict.fromkeys(names)), folder=str(folder))


@contextmanager
def tracked(progress: Progress, tracking: Tracking | None, run: str) -> Iterator[Progress]:
    """A progress that also sends losses to trackers, under the name of a run; ``progress`` itself without tracking.

    Of several processes that compute one run together the first speaks.
    """
    if tracking is None or process_index() > 0:
        yield progress
        return
    found = TrackedProgress(progress, tracking, run)
    try:
        yield found
    finally:
        found.finish()


class TrackedProgress(Progress):
    """Passes everything on, and losses to trackers as ``<stage>/<part>.<loss>`` by step.

    A stage that is computed more than once in a run, as several oracles are, gets a number from the second on.
    """

    def __init__(self, outer: Progress, tracking: Tracking, run: str) -> None:
        super().__init__(outer=outer)
        self._trackers: dict[str, GeneralTracker] = {}
        self._stages: list[str] = []
        self._times: Counter[str] = Counter()
        for name in tracking.names:
            self._try(name, partial(self._open, name, tracking, run))

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        self._times[stage] += 1
        number = self._times[stage]
        self._stages.append(stage if number == 1 else f"{stage} {number}")
        try:
            with super().computing(stage):
                yield
        finally:
            self._stages.pop()

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        super().follow(stage, step, losses)
        within = self._stages[-1] if self._stages else "run"
        values = {f"{within}/{stage}.{name}": float(value) for name, value in losses.items()}
        for name, tracker in list(self._trackers.items()):
            self._try(name, partial(tracker.log, values, step=step))

    def finish(self) -> None:
        """Close the trackers."""
        for name, tracker in list(self._trackers.items()):
            self._try(name, tracker.finish)

    def _open(self, name: str, tracking: Tracking, run: str) -> None:
        from accelerate import tracking as trackers

        # Its own logger refuses to work before a training has set up processes and devices.
        trackers.logger = logging.getLogger(trackers.__name__)
        kind = trackers.LOGGER_TYPE_TO_CLASS[name]
        tracker = kind(run, tracking.folder) if kind.requires_logging_directory else kind(run)
        # Else it asks accelerate which process this is, and that sets up devices as a training of its own would.
        tracker.main_process_only = False
        tracker.start()
        self._trackers[name] = tracker

    def _try(self, name: str, call: Callable[[], Any]) -> None:
        """Call a tracker, which may raise what it likes (a full disk, a service that is away)."""
        try:
            call()
        except Exception as fault:
            self._trackers.pop(name, None)
            self.info(f"warning: the tracker {name!r} is given up: {type(fault).__name__}: {fault}")


class JobProgress(Progress):
    """Writes messages to a job's log at once and losses now and then; knows the stage that is being computed."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._stages: list[str] = []
        self._loop = ""
        self._losses_at: dict[str, float] = {}

    @property
    def position(self) -> str:
        """The stage and how far it has come; empty between stages."""
        return " · ".join(part for part in (*self._stages[-1:], self._loop) if part)

    def info(self, text: str) -> None:
        append_to_log(self._log, text)

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        self._stages.append(stage)
        self.info(f"{stage}: computing")
        try:
            yield
        finally:
            self._stages.pop()

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        if total is None:
            total = len(sequence) if isinstance(sequence, Sized) else None
        outer = self._loop
        try:
            for done, part in enumerate(sequence):
                self._loop = f"{label} {done}/{total}" if total else f"{label} {done}"
                yield part
        finally:
            self._loop = outer

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        finite = all(abs(value) < float("inf") for value in losses.values())
        now = time.monotonic()
        if finite and now - self._losses_at.get(stage, -LOSS_SECONDS) < LOSS_SECONDS:
            return
        self._losses_at[stage] = now
        values = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        self.info(f"{'' if finite else 'warning: a loss is not finite: '}{stage} step {step}: {values}")


def append_to_log(log: Path, text: str) -> None:
    """Append text behind the time of day; it is in the file when this returns. Raises StorageError."""
    line = f"{time.strftime('%H:%M:%S')} {text.rstrip()}\n".encode("utf-8", errors="replace")
    with guarded(log, "--cache-dir"):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab", buffering=0) as file:
            file.write(line)
