"""Measures the noise floor of a run: repeats it on a GPU until there are enough repetitions, each kept at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reproduce.noise_floor import FEWEST, Anew, NoiseFloor, extended, read_floors, write_floor

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.reproduce.repetition import Repetition

__all__ = ["measure_floor"]


def measure_floor(
    folder: Path,
    record: RunRecord,
    count: int,
    repeat: Callable[[tuple[NoiseFloor, ...]], Repetition],
    *,
    anew: Anew,
    progress: Progress,
) -> tuple[NoiseFloor, Repetition]:
    """Repeat until ``count`` repetitions are there, at least once; returns the floor and the last repetition by it.

    What an interrupted call has measured counts, in the same surroundings.

    Args:
        folder: Of the record; the floor is written there after every repetition.
        repeat: Repeats the run and holds it against the record, by the floors that are given.

    Raises:
        UsageError: The record is of a CPU, or too few repetitions are asked for.
        StorageError: The floor cannot be written.
    """
    if record.environment.device == "cpu":
        raise UsageError(
            "the run was made on a CPU, where the same bits are owed: there is no noise to measure",
            where=str(folder),
            hint="leave out --floor",
        )
    if count < FEWEST:
        raise UsageError(f"{count} repetitions say nothing about a spread", hint=f"--floor {FEWEST} or more")
    known = read_floors(folder)
    while True:
        done = repeat(known)
        if done.now.environment.device == "cpu":
            raise UsageError("the run was repeated on a CPU, which is not where its noise is", hint="--device cuda")
        before = [floor for floor in known if floor.key == record.key and floor.holds_for(done.now, anew=anew)]
        floor = extended(before[0] if before else None, done.now, key=record.key, anew=anew)
        write_floor(folder, floor, known)
        known = read_floors(folder)
        progress.info(f"noise floor: {floor.runs} of {max(count, floor.runs)} repetitions")
        if floor.runs >= count:
            return floor, done.by(known, anew)
