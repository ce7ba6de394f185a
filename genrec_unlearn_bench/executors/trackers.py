"""Losses shown elsewhere while they come: TensorBoard, or any other tracker that accelerate knows. Off by default.

A tracker is a second reader of what stages report anyway. Nothing of a result depends on it, and one that fails is
given up, with a word, while the run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import MissingExtra, UnknownName, UsageError
from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

__all__ = ["Tracking", "tracked", "tracking_of"]

T = TypeVar("T")

EXTRA = "trackers"


class Tracking(StrictModel):
    """Which trackers are told, and where those that write files put them."""

    names: tuple[str, ...]
    folder: str


def tracking_of(names: Sequence[str], folder: Path) -> Tracking | None:
    """What ``--tracker`` and ``--tracker-dir`` ask for; None where no tracker is named.

    Raises:
        UnknownName: accelerate knows no such tracker.
        MissingExtra: TensorBoard is not installed.
        UsageError: Another tracker is not installed.
    """
    if not names:
        return None
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    there = {str(getattr(name, "value", name)) for name in get_available_trackers()}
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            raise UnknownName("tracker", name, LOGGER_TYPE_TO_CLASS)
        if name not in there and name == "tensorboard":
            raise MissingExtra(name, EXTRA, "the tracker 'tensorboard'")
        if name not in there:
            raise UsageError(f"the tracker {name!r} is not installed", hint=f"pip install {name.replace('_', '-')}")
    return Tracking(names=tuple(dict.fromkeys(names)), folder=str(folder))


@contextmanager
def tracked(progress: Progress, tracking: Tracking | None, run: str) -> Iterator[Progress]:
    """A progress that also tells trackers of losses, under the name of a run; ``progress`` itself without tracking.

    Of several processes that compute one run together the first speaks.
    """
    if tracking is None or place() > 0:
        yield progress
        return
    told = TrackedProgress(progress, tracking, run)
    try:
        yield told
    finally:
        told.finish()


class TrackedProgress(Progress):
    """Passes everything on, and losses to trackers as ``<stage>/<part>.<loss>`` by step.

    A stage that is computed more than once in a run, as several oracles are, gets a number from the second on.
    """

    def __init__(self, outer: Progress, tracking: Tracking, run: str) -> None:
        super().__init__()
        self._outer = outer
        self._trackers: dict[str, GeneralTracker] = {}
        self._stages: list[str] = []
        self._times: Counter[str] = Counter()
        for name in tracking.names:
            self._try(name, lambda name=name: self._open(name, tracking, run))

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        return self._outer.track(label, sequence, total=total)

    def info(self, text: str) -> None:
        self._outer.info(text)

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        self._times[stage] += 1
        number = self._times[stage]
        self._stages.append(stage if number == 1 else f"{stage} {number}")
        try:
            with self._outer.computing(stage):
                yield
        finally:
            self._stages.pop()

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        self._outer.follow(stage, step, losses)
        within = self._stages[-1] if self._stages else "run"
        values = {f"{within}/{stage}.{name}": float(value) for name, value in losses.items()}
        for name, tracker in list(self._trackers.items()):
            self._try(name, lambda tracker=tracker: tracker.log(values, step=step))

    def finish(self) -> None:
        """Close the trackers."""
        for name, tracker in list(self._trackers.items()):
            self._try(name, tracker.finish)
        self._trackers.clear()

    def _open(self, name: str, tracking: Tracking, run: str) -> None:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        kind = LOGGER_TYPE_TO_CLASS[name]
        tracker = kind(run, tracking.folder) if kind.requires_logging_directory else kind(run)
        # Else it asks accelerate which process this is, and that sets up devices as a training of its own would.
        tracker.main_process_only = False
        tracker.start()
        self._trackers[name] = tracker

    def _try(self, name: str, call: Any) -> None:
        """Trackers raise what they like (a full disk, a service that is away), and no result may depend on it."""
        try:
            call()
        except Exception as fault:
            self._trackers.pop(name, None)
            self.info(f"warning: the tracker {name!r} is given up: {type(fault).__name__}: {fault}")
