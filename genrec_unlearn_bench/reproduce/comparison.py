"""Comparison of a record with another run of its cell, number by number: identical, within tolerance, or different.

What is required depends on what is the same. With the same kind of processor, packages, threads and stage keys the
suite promises the same bits, and anything less is a fault. Elsewhere a training takes another path from its first
rounded sum on and ends as another seed would; then a number may differ by as much as two runs on independent users of
the same number do at 95 %, and HR@10 and NDCG@10 of both sides decide (docs/submit.md).

On a GPU, kernels that add in no fixed order round another way each time, though nothing differs. How much that is
cannot be derived, so it is measured: ``bench submission reproduce RUN --floor N`` repeats a run N times and keeps every
number. Another run in the same environment may then differ from the record by what two of them differ at 95 %: t √2 sd,
with the quantile t of Student's distribution for N - 1 degrees of freedom, as the spread itself is known from N runs.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.pipeline.record import RunRecord, StageRef

Verdict = Literal["identical", "within", "differs", "not judged", "new"]
"""``new``: the suite measures it now, and the record is older than that; nothing is said against the record."""

Basis = Literal["bits", "floor", "users"]
"""Required are the same bits, a difference within the recorded noise floor, or one within the spread over users."""

LIMIT = 1.96 * math.sqrt(2)
"""Standard errors that the difference of two independent means of one spread keeps to at 95 %: the repeatability limit,
2.8 standard deviations, of ISO 5725-6."""

ZERO_COUNT = 3.0
"""Where every user has the same value the standard error is 0 and says nothing: none of n users leaves room for up to
3 / n at 95 % (the rule of three: Hanley and Lippman-Hand, JAMA 249, 1983)."""

DECIDING = frozenset({"hr@10", "ndcg@10"})
"""They decide where the same bits are not required. Of the hundred other numbers a few leave their limits by chance."""

OTHER_TIME, SHORTEST = 10.0, 0.5
"""A recorded time is doubted where it differs by more than so many times; below half a second clocks say little."""

COST = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""Prefixes of metrics that depend on the clock, or on a tuning that is not repeated."""

Redo = Literal["row", "all"]
"""What a repetition recomputes: the row and its measurements, on the same original and oracles; or everything."""

FLOOR_FILES: Mapping[Redo, str] = {"row": "noise_floor.json", "all": "noise_floor_fresh.json"}
FEWEST = 3
"""Runs from which a spread is taken: of two, t is 12.7, and the floor would let almost anything pass."""

NumberId = tuple[str, Group, int | None]
"""A number of a record: metric, group, beam."""


class NoiseFloor(StrictModel):
    """Repetitions of one run in its own environment."""

    key: str
    """Of the record that was repeated."""
    repetitions: tuple[tuple[MetricValue, ...], ...] = Field(min_length=1)
    """The metrics of each."""

    @property
    def runs(self) -> int:
        return len(self.repetitions)

    def allowed(self) -> dict[NumberId, float]:
        """Largest difference of two runs at 95 %; empty where there are too few, without numbers that were not there.

        Where all repetitions gave the same, it is the smallest step that a mean of ``n`` values of 0 or 1 can take.
        """
        if self.runs < FEWEST:
            return {}
        from scipy import stats

        limit = float(stats.t.ppf(0.975, self.runs - 1)) * math.sqrt(2.0)
        measured: dict[NumberId, list[float]] = defaultdict(list)
        steps = {}
        for one in (one for repetition in self.repetitions for one in repetition):
            if one.value is not None:
                measured[_id(one)].append(one.value)
                steps[_id(one)] = 1.0 / one.n if one.n else 0.0
        whole = {number: values for number, values in measured.items() if len(values) == self.runs}
        return {number: max(limit * statistics.stdev(values), steps[number]) for number, values in whole.items()}


def read_floor(folder: Path, record: RunRecord, redo: Redo) -> NoiseFloor | None:
    """The floor next to a record, if one was measured. Raises CorruptArtefact."""
    path = folder / FLOOR_FILES[redo]
    try:
        floor = NoiseFloor.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as fault:
        raise CorruptArtefact(
            f"the noise floor cannot be read: {fault.errors()[0]['msg']}",
            where=str(path),
            hint="remove it, and measure it again: bench submission reproduce RUN --floor N",
        ) from None
    return floor if floor.key == record.key else None


def write_floor(folder: Path, floor: NoiseFloor, redo: Redo) -> None:
    """Raises StorageError."""
    atomic_text(folder / FLOOR_FILES[redo], floor.model_dump_json(indent=1) + "\n", "the run's folder")


def same_setting(one: RunRecord, other: RunRecord) -> bool:
    """Whether two runs share the method's source, and what of the environment can change a number."""
    return _setting(one) == _setting(other)


def _setting(one: RunRecord) -> tuple[object, ...]:
    here = one.environment
    # Which of several equal GPUs it was makes no difference.
    kind = here.device.partition(":")[0]
    return one.method_digest, kind, here.device_name, here.precision, here.threads, here.packages, one.arithmetic


@dataclass(frozen=True)
class EnvironmentChange:
    """A difference between the environments of two runs; ``bits``: whether it can change the last digits by itself."""

    what: str
    then: str
    now: str
    bits: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.then} then, {self.now} now"


@dataclass(frozen=True)
class Compared:
    """One number then and now.

    Attributes:
        allowed: Largest difference that counts as within tolerance; None where nothing says how much that is.
    """

    metric: str
    group: Group
    beam: int | None
    then: float | None
    now: float | None
    allowed: float | None
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Repetition:
    """A record, the record of its repetition, and how they compare.

    Attributes:
        basis: What is required.
        own: Stages that were recomputed; None for all.
        floor_unused: Why a noise floor of the record was not used; empty where it was, or where there is none.
    """

    then: RunRecord
    now: RunRecord
    rows: tuple[Compared, ...]
    basis: Basis
    own: frozenset[str] | None = None
    floor_unused: str = ""

    @property
    def bitwise(self) -> bool:
        return self.basis == "bits"

    @property
    def changes(self) -> list[EnvironmentChange]:
        return environment_changes(self.then, self.now)

    @property
    def first_difference(self) -> str:
        """The first stage whose content came out differently, in words; empty where none did."""
        then, now = _first_difference(self.then, self.now) or (None, None)
        if then is None or now is None:
            return f"the stage {then.name!r} is no longer made" if then else ""
        why = "from the same inputs and code" if now.key == then.key else "from other inputs, settings or code"
        return f"the stage {then.name!r} came out differently, {why}"

    @property
    def reused(self) -> tuple[str, ...]:
        """Stages that were read from the cache."""
        return tuple(stage.name for stage in self.now.stages if stage.cached)

    @property
    def matches(self) -> bool:
        """Whether the record holds: to the bit where that is required, within tolerance elsewhere."""
        if self.then.diverged != self.now.diverged:
            return False
        if self.bitwise:
            return _table(self.then) == _table(self.now) and set(self.counts) <= {"identical", "new"}
        sides = (Group.FORGET, Group.RETAIN)
        deciding = (row for row in self.rows if row.metric in DECIDING and row.group in sides)
        return all(row.verdict != "differs" for row in deciding)

    @property
    def counts(self) -> dict[Verdict, int]:
        found = Counter(row.verdict for row in self.rows if not row.metric.startswith(COST))
        return {verdict: found[verdict] for verdict in get_args(Verdict) if found[verdict]}

    @property
    def time_fault(self) -> str:
        """How the recorded time of unlearning differs from the repetition's, where that is by more than ten times."""
        then, now = (max(one.cost.unlearn_seconds, SHORTEST) for one in (self.then, self.now))
        differs = max(then, now) > OTHER_TIME * min(then, now)
        return f"unlearning took {now:.3g} s, and the record says {then:.3g} s" if differs else ""


def compare(
    then: RunRecord, now: RunRecord, *, floor: NoiseFloor | None = None, own: frozenset[str] | None = None
) -> Repetition:
    """Compare a repetition with its record.

    Args:
        floor: The record's noise floor, of repetitions that recomputed as much.
        own: Stages that were recomputed; None for all.
    """
    keys = {stage.name: stage.key for stage in now.stages}
    same_keys = all(keys.get(stage.name) == stage.key for stage in then.stages)
    same_bits = not any(change.bits for change in environment_changes(then, now))
    bitwise = now.environment.device == "cpu" and same_keys and same_bits
    unused = _floor_fault(then, now, floor, own) if floor is not None and not bitwise else ""
    limits = None if floor is None or bitwise or unused else floor.allowed()
    recorded, measured = ({_id(value): value for value in one.metrics} for one in (then, now))
    rows = []
    for number in {**recorded, **measured}:
        was, found = recorded.get(number), measured.get(number)
        allowed = _allowed_over_users(was) if limits is None else limits.get(number)
        values = (was.value if was else None, found.value if found else None)
        rows.append(Compared(*number, *values, allowed, _verdict(was, found, allowed)))
    basis: Basis = "bits" if bitwise else "users" if limits is None else "floor"
    return Repetition(then, now, tuple(rows), basis, own, unused)


def environment_changes(then: RunRecord, now: RunRecord) -> list[EnvironmentChange]:
    """How the environments of two runs differ: machine, packages, instructions for sums, source of the method."""
    was, here = then.environment, now.environment
    found = [
        ("commit", (was.git_commit or "none")[:10], (here.git_commit or "none")[:10], False),
        ("device", was.device, here.device, True),
        ("processor", was.device_name, here.device_name, True),
        ("threads", was.threads, here.threads, True),
        ("precision", was.precision, here.precision, True),
        ("Python", was.python, here.python, False),
        ("platform", was.platform, here.platform, False),
    ]
    for package in sorted(was.packages.keys() | here.packages.keys()):
        found.append((package, was.packages.get(package, "none"), here.packages.get(package, "none"), True))
    # Older records do not say how they added.
    for name in sorted(then.arithmetic.keys() & now.arithmetic.keys()):
        found.append((name, then.arithmetic[name], now.arithmetic[name], True))
    found.append(("source of the method", then.method_digest[:10], now.method_digest[:10], False))
    return [EnvironmentChange(what, str(one), str(other), bits) for what, one, other, bits in found if one != other]


def _first_difference(then: RunRecord, now: RunRecord) -> tuple[StageRef, StageRef | None] | None:
    """The first stage, upstream first, whose content differs, then and now."""
    after = {stage.name: stage for stage in now.stages}
    pairs = ((stage, after.get(stage.name)) for stage in then.stages)
    return next(((one, other) for one, other in pairs if other is None or other.digest != one.digest), None)


def _floor_fault(then: RunRecord, now: RunRecord, floor: NoiseFloor, own: frozenset[str] | None) -> str:
    """Why a floor does not say how far apart these two may lie; empty where it does."""
    if not same_setting(then, now):
        return "it was measured in the record's environment, and this is another one"
    if floor.runs < FEWEST:
        return f"it was measured by {floor.runs} runs, and {FEWEST} are the fewest"
    stage, other = _first_difference(then, now) or (None, None)
    if stage is not None and (other is None or other.key != stage.key):
        return f"the stage {stage.name!r} was made from other inputs, settings or code"
    if stage is not None and own is not None and stage.name.partition(" ")[0] not in own:
        return f"the stage {stage.name!r}, which the row is built on, is another one here"
    return ""


def _table(record: RunRecord) -> str:
    """Digest of what was measured: the evaluation stage's, as a published table has other bytes than the run's."""
    return next((stage.digest for stage in record.stages if stage.name == "evaluation"), record.per_user_digest)


def _id(value: MetricValue) -> NumberId:
    return value.metric, value.group, value.beam


def _verdict(then: MetricValue | None, now: MetricValue | None, allowed: float | None) -> Verdict:
    if then is None and now is not None:
        return "identical" if now.value is None else "differs" if now.metric in DECIDING else "new"
    if then is None or now is None:
        return "identical" if then is None or then.value is None else "differs"
    # Metrics have been given intervals since the first records were published.
    same_interval = then.interval is None or then.interval == now.interval
    if (then.value, then.n, then.sd) == (now.value, now.n, now.sd) and same_interval:
        return "identical"
    if then.value is None or now.value is None:
        return "differs"
    if allowed is None:
        return "not judged"
    return "within" if abs(then.value - now.value) <= allowed else "differs"


def _allowed_over_users(value: MetricValue | None) -> float | None:
    """The repeatability limit of a mean over users; None for a number that is no such mean."""
    if value is None or value.n is None or value.sd is None or value.n < 2:
        return None
    return LIMIT * value.sd / math.sqrt(value.n) if value.sd > 0 else ZERO_COUNT / value.n
