"""Noise floor of a run: how far repetitions on one GPU lie apart though nothing differs.

Kernels that add in no fixed order round another way each time, and a training follows. How much that is cannot be
derived, so it is measured: ``bench submission reproduce RUN --floor N`` repeats a run N times and keeps every number.
Another run in the same environment may then differ from the record by what two of them differ at 95 %: t √2 sd, with
the quantile t of Student's distribution for N - 1 degrees of freedom, as the spread itself is known from N runs alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.pipeline.record import Environment, RunRecord

FILE = "noise_floor.json"
FEWEST = 3
"""Runs from which a spread is taken: of two, t is 12.7, and the floor would let almost anything pass."""

Redo = Literal["row", "all"]
"""What a repetition recomputes: the row and its measurements, on the same original and oracles; or everything."""

NumberId = tuple[str, Group, int | None]
"""A number of a record: metric, group, beam."""


class FloorNumber(StrictModel):
    metric: str
    group: Group
    beam: int | None = None
    n: int | None = None
    """Over how many examples or items it was taken."""
    values: tuple[float | None, ...]


class NoiseFloor(StrictModel):
    """Repetitions of one run in one environment."""

    key: str
    """Of the record that was repeated."""
    redo: Redo
    """What each repetition recomputed."""
    method_digest: str
    environment: Environment
    arithmetic: dict[str, str] = Field(default_factory=dict)
    runs: int = Field(ge=1)
    numbers: tuple[FloorNumber, ...]

    def holds_for(self, record: RunRecord, *, redo: Redo) -> bool:
        """Whether a run took place in this environment; the commit and the operating system are no part of it."""
        same = self.redo == redo and self.method_digest == record.method_digest
        return same and _environment(self) == _environment(record)

    def allowed(self) -> dict[NumberId, float]:
        """Largest difference of two runs at 95 %; empty where there are too few, without numbers that were not there.

        Where all repetitions gave the same, it is the smallest step that a mean of ``n`` values of 0 or 1 can take.
        """
        if self.runs < FEWEST:
            return {}
        from scipy import stats

        quantile = float(stats.t.ppf(0.975, self.runs - 1))
        found = {}
        for number in self.numbers:
            values = [value for value in number.values if value is not None]
            if len(values) < self.runs:
                continue
            mean = math.fsum(values) / len(values)
            sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
            step = 1.0 / number.n if number.n else 0.0
            found[number.metric, number.group, number.beam] = max(quantile * math.sqrt(2.0) * sd, step)
        return found


def extended(known: Sequence[NoiseFloor], run: RunRecord, *, key: str, redo: Redo) -> NoiseFloor:
    """Add one repetition of the record ``key`` to its floor; start a new one where none is of this environment."""
    floor = next((one for one in known if one.key == key and one.holds_for(run, redo=redo)), None)
    before = {(one.metric, one.group, one.beam): one for one in floor.numbers} if floor else {}
    runs = floor.runs if floor else 0
    measured = {(value.metric, value.group, value.beam): value for value in run.metrics}
    numbers = []
    for number in dict.fromkeys([*before, *measured]):
        metric, group, beam = number
        earlier = before[number].values if number in before else (None,) * runs
        now = measured.get(number)
        n = now.n if now is not None else before[number].n
        value = now.value if now is not None else None
        numbers.append(FloorNumber(metric=metric, group=group, beam=beam, n=n, values=(*earlier, value)))
    return NoiseFloor(
        key=key,
        redo=redo,
        method_digest=run.method_digest,
        environment=run.environment,
        arithmetic=run.arithmetic,
        runs=runs + 1,
        numbers=tuple(numbers),
    )


class _Floors(StrictModel):
    floors: tuple[NoiseFloor, ...]


def read_floors(folder: Path) -> tuple[NoiseFloor, ...]:
    """The floors beside a record, of different machines and kinds. Raises CorruptArtefact."""
    path = folder / FILE
    try:
        return _Floors.model_validate_json(path.read_bytes()).floors
    except FileNotFoundError:
        return ()
    except ValidationError as fault:
        raise CorruptArtefact(
            f"the noise floor cannot be read: {fault.errors()[0]['msg']}",
            where=str(path),
            hint="remove it, and measure it again: bench submission reproduce RUN --floor N",
        ) from None


def write_floor(folder: Path, floor: NoiseFloor, known: Sequence[NoiseFloor]) -> None:
    """Write a floor, in place of an earlier one of the same kind and environment. Raises StorageError."""
    others = [one for one in known if (one.redo, _environment(one)) != (floor.redo, _environment(floor))]
    atomic_text(folder / FILE, _Floors(floors=(*others, floor)).model_dump_json(indent=1) + "\n", "the run's folder")


def _environment(one: NoiseFloor | RunRecord) -> tuple[object, ...]:
    """What of the environment can change a number."""
    here = one.environment
    packages = tuple(sorted(here.packages.items()))
    # Which of several equal GPUs it was makes no difference.
    kind = here.device.partition(":")[0]
    return kind, here.device_name, here.precision, here.threads, packages, tuple(sorted(one.arithmetic.items()))
