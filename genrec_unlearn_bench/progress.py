"""How long work says where it stands: one small interface, silent by default.

The engine reports through a ``Progress``; the command line draws it. A method's losses and notes go the
same way, so that the runner can store them without the method knowing of any file.

At the end: how many processes ``accelerate launch`` or ``torchrun`` started for one run. The first of them owns files,
results and the terminal; the others compute along.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ENDED_EARLY = "ended_early"
"""What the notes are called that ``Progress.end_early`` leaves."""

NoteValue = str | int | float | bool | None | list[float] | list[int] | list[str]


@dataclass(frozen=True)
class StepLog:
    """The losses of one step of training or unlearning, as they were reported."""

    stage: str
    step: int
    losses: Mapping[str, float]


@dataclass
class Progress:
    """Collects steps and notes; subclasses draw them.

    Attributes:
        steps: Every reported step, in order.
        notes: Facts worth keeping in the result record, by name (last value wins).
        optimiser_steps: Steps that ``descend`` took, of all its calls; None where a method has a loop of its own, whose
            log entries are counted instead.
        diverged: Set once a loss was reported that is not finite.
        work: Folder in which long work may keep what it needs to go on after a kill; None where nobody would come back.
        earlier_seconds: Time of interrupted processes whose work was taken over instead of done again.
        until: Monotonic time after which the training of a model is ended (``limit``).
        outer: Whatever is shown goes there as well: bars, lines, losses, the stage that is computed.
    """

    steps: list[StepLog] = field(default_factory=list)
    notes: dict[str, NoteValue] = field(default_factory=dict)
    optimiser_steps: int | None = None
    diverged: bool = False
    work: Path | None = None
    earlier_seconds: float = 0.0
    until: float = math.inf
    outer: Progress | None = None

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        """Iterate over ``sequence`` while showing a bar (here: showing nothing)."""
        return iter(sequence) if self.outer is None else self.outer.track(label, sequence, total=total)

    def info(self, text: str) -> None:
        """A line for people; nothing depends on it."""
        if self.outer is not None:
            self.outer.info(text)

    def log(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        """Report the losses of one step; a loss that is not finite marks the run as diverged."""
        self.steps.append(StepLog(stage, step, dict(losses)))
        self.diverged = self.diverged or not all(math.isfinite(value) for value in losses.values())
        self.follow(stage, step, losses)

    def limit(self, hours: float | None) -> None:
        """From now on a training has so many hours; None: as many as it takes."""
        self.until = math.inf if hours is None else time.monotonic() + 3600 * hours

    @property
    def late(self) -> bool:
        """Whether the hours of ``limit`` are over, the time of interrupted processes counted."""
        return time.monotonic() + self.earlier_seconds >= self.until

    def end_early(self, stage: str, how_far: str) -> None:
        """Note that a training was ended because it was late, for the result's record."""
        self.note(f"{stage}.{ENDED_EARLY}", how_far)
        self.info(f"{stage}: ended by max_hours {how_far}")

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        """Losses as they come, for those that show them to somebody."""
        if self.outer is not None:
            self.outer.follow(stage, step, losses)

    @contextmanager
    def computing(self, stage: str) -> Iterator[None]:
        """Around the computation of a stage, for those that show which; one stage may need another."""
        with nullcontext() if self.outer is None else self.outer.computing(stage):
            yield

    def note(self, name: str, value: NoteValue) -> None:
        """Keep a fact for the result record."""
        self.notes[name] = value


def launched() -> int:
    """Processes of this launch; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def process_index() -> int:
    """Which of them this is, from 0."""
    return int(os.environ.get("RANK") or 0)
