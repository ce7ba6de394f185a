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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.pipeline.record import Environment, RunRecord, StageRef

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

FLOOR_FILE = "noise_floor.json"
FEWEST = 3
"""Runs from which a spread is taken: of two, t is 12.7, and the floor would let almost anything pass."""

Redo = Literal["row", "all"]
"""What a repetition recomputes: the row and its measurements, on the same original and oracles; or everything."""

NumberId = tuple[str, Group, int | None]
"""A number of a record: metric, group, beam."""


class NoiseFloor(StrictModel):
    """Repetitions of one run in one environment."""

    key: str
    """Of the record that was repeated."""
    redo: Redo
    method_digest: str
    environment: Environment
    arithmetic: dict[str, str] = Field(default_factory=dict)
    repetitions: tuple[tuple[MetricValue, ...], ...] = Field(min_length=1)
    """The metrics of each."""

    @property
    def runs(self) -> int:
        return len(self.repetitions)

    def holds_for(self, run: NoiseFloor | RunRecord, redo: Redo) -> bool:
        """Whether another run took place in this environment; commit and operating system are no part of it."""
        return (self.redo, *_setting(self)) == (redo, *_setting(run))

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


class _Floors(StrictModel):
    floors: tuple[NoiseFloor, ...]


def extended(known: Sequence[NoiseFloor], run: RunRecord, *, key: str, redo: Redo) -> NoiseFloor:
    """Add one repetition of the record ``key`` to its floor; start a new one where none is of this environment."""
    earlier = next((one.repetitions for one in known if one.key == key and one.holds_for(run, redo)), ())
    return NoiseFloor(
        key=key,
        redo=redo,
        method_digest=run.method_digest,
        environment=run.environment,
        arithmetic=run.arithmetic,
        repetitions=(*earlier, run.metrics),
    )


def read_floors(folder: Path) -> tuple[NoiseFloor, ...]:
    """The floors next to a record, of different machines and kinds. Raises CorruptArtefact."""
    path = folder / FLOOR_FILE
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
    others = [one for one in known if not one.holds_for(floor, floor.redo)]
    content = _Floors(floors=(*others, floor)).model_dump_json(indent=1)
    atomic_text(folder / FLOOR_FILE, f"{content}\n", "the run's folder")


def _setting(one: NoiseFloor | RunRecord) -> tuple[object, ...]:
    """The method's source, and what of the environment can change a number."""
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
        own: Stages that were recomputed where that was the row alone.
        floor_unused: Why a noise floor of the record was not used; empty where it was, or where there is none.
    """

    then: RunRecord
    now: RunRecord
    rows: tuple[Compared, ...]
    basis: Basis
    own: frozenset[str] = frozenset()
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
    then: RunRecord,
    now: RunRecord,
    *,
    floors: Sequence[NoiseFloor] = (),
    redo: Redo = "row",
    own: frozenset[str] = frozenset(),
) -> Repetition:
    """Compare a repetition with its record.

    Args:
        floors: Noise floors of the record.
        redo: What the repetition recomputed.
        own: Stages that it recomputed where that is the row alone.
    """
    keys = {stage.name: stage.key for stage in now.stages}
    same_keys = all(keys.get(stage.name) == stage.key for stage in then.stages)
    same_bits = not any(change.bits for change in environment_changes(then, now))
    bitwise = now.environment.device == "cpu" and same_keys and same_bits
    mine = [] if bitwise else [floor for floor in floors if floor.key == then.key]
    floor = next((floor for floor in mine if floor.holds_for(now, redo)), None)
    unused = _floor_fault(then, now, floor, own) if mine else ""
    limits = floor.allowed() if floor is not None and not unused else None
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


def _floor_fault(then: RunRecord, now: RunRecord, floor: NoiseFloor | None, own: frozenset[str]) -> str:
    """Why a floor of the present environment does not say how far apart these two may lie; empty where it does."""
    if floor is None:
        return "it was measured on another machine, with other packages, or with more or less recomputed"
    if not floor.holds_for(then, floor.redo):
        return "the record itself was made in another environment"
    if floor.runs < FEWEST:
        return f"it was measured by {floor.runs} runs, and {FEWEST} are the fewest"
    stage, other = _first_difference(then, now) or (None, None)
    if stage is not None and (other is None or other.key != stage.key):
        return f"the stage {stage.name!r} was made from other inputs, settings or code"
    if stage is not None and floor.redo == "row" and stage.name.partition(" ")[0] not in own:
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
