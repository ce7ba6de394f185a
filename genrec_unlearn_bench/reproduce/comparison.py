"""Comparison of a record with another run of its cell, number by number: identical, within tolerance, or different.

What is owed depends on what is the same. With the same kind of processor, packages, threads and stage keys the suite
promises the same bits, and anything less is a fault. Elsewhere a training takes another path from its first rounded sum
on and ends as another seed would; then a number may differ by as much as two runs on independent users of the same
number do at 95 %, and HR@10 and NDCG@10 of both sides decide (docs/results.md). On a GPU whose noise floor was measured
for this very run, that floor is the limit instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import Environment, RunRecord, StageRef
from genrec_unlearn_bench.reproduce.noise_floor import FEWEST, NoiseFloor, NumberId, Redo

Verdict = Literal["identical", "within", "differs", "not judged", "new"]
"""``new``: the suite measures it now, and the record is older than that; nothing is said against the record."""

Basis = Literal["bits", "floor", "users"]
"""What is owed: the same bits, a difference within the recorded noise floor, or one within the spread over users."""

LIMIT = 1.96 * math.sqrt(2)
"""Standard errors that the difference of two independent means of one spread keeps to at 95 %: the repeatability limit,
2.8 standard deviations, of ISO 5725-6."""

ZERO_COUNT = 3.0
"""Where every user has the same value the standard error is 0 and says nothing: none of n users leaves room for up to
3 / n at 95 % (the rule of three: Hanley and Lippman-Hand, JAMA 249, 1983)."""

DECIDING = frozenset({"hr@10", "ndcg@10"})
"""What decides where the same bits are not owed. Of the hundred other numbers a few leave their limits by chance."""

EVALUATION = "evaluation"
"""Name of the stage with the values and the per-user table."""

OTHER_TIME, SHORTEST = 10.0, 0.5
"""A recorded time is doubted where it differs by more than so many times; below half a second clocks say little."""

COST = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""Prefixes of metrics that depend on the clock, or on a tuning that is not repeated."""


@dataclass(frozen=True)
class EnvironmentChange:
    """A difference between the environments of two runs.

    Attributes:
        bits: Whether it can change the last digits by itself.
    """

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

    @property
    def deciding(self) -> bool:
        """Whether the record stands or falls with it where the same bits are not owed."""
        return self.metric in DECIDING and self.group in (Group.FORGET, Group.RETAIN)


@dataclass(frozen=True, eq=False)
class Repetition:
    """A record, the record of its repetition, and how they compare.

    Attributes:
        changes: How the environments differ.
        basis: What is owed.
        first_difference: The first stage whose content came out differently, in words; empty where none did.
        reused: Stages that were read from the cache.
        own: Stages that were recomputed where that was the row alone.
        floor_unused: Why a noise floor beside the record was not used; empty where it was, or where there is none.
    """

    then: RunRecord
    now: RunRecord
    changes: tuple[EnvironmentChange, ...]
    rows: tuple[Compared, ...]
    basis: Basis
    first_difference: str
    reused: tuple[str, ...]
    own: frozenset[str] = frozenset()
    floor_unused: str = ""

    @property
    def bitwise(self) -> bool:
        return self.basis == "bits"

    @property
    def matches(self) -> bool:
        """Whether the record holds: to the bit where that is owed, within tolerance elsewhere."""
        if self.then.diverged != self.now.diverged:
            return False
        if self.bitwise:
            return _table(self.then) == _table(self.now) and set(self.counts) <= {"identical", "new"}
        return not any(row.verdict == "differs" for row in self.rows if row.deciding)

    @property
    def counts(self) -> dict[Verdict, int]:
        found = Counter(row.verdict for row in self.rows if not row.metric.startswith(COST))
        return {verdict: found[verdict] for verdict in get_args(Verdict) if found[verdict]}

    @property
    def time_fault(self) -> str:
        """How the recorded time of unlearning differs from the repetition's, where that is by more than ten times."""
        then, now = (max(one.cost.unlearn_seconds, SHORTEST) for one in (self.then, self.now))
        if max(then, now) <= OTHER_TIME * min(then, now):
            return ""
        return f"unlearning took {now:.3g} s, and the record says {then:.3g} s"


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
        floors: Noise floors beside the record.
        redo: What the repetition recomputed.
        own: Stages that it recomputed where that is the row alone.
    """
    changes = tuple(
        environment_changes(then, now.environment, arithmetic=now.arithmetic, method_digest=now.method_digest)
    )
    keys = {stage.name: stage.key for stage in now.stages}
    same_keys = all(keys.get(stage.name) == stage.key for stage in then.stages)
    bitwise = now.environment.device == "cpu" and same_keys and not any(change.bits for change in changes)
    first = _first_difference(then, now)
    floor, unused = (None, "") if bitwise else _usable_floor(then, now, floors, redo, own, first)
    limits = floor.allowed() if floor is not None else None
    measured = {(value.metric, value.group, value.beam): value for value in now.metrics}
    rows = [
        _compared(value, measured.pop((value.metric, value.group, value.beam), None), limits) for value in then.metrics
    ]
    rows += [_compared(None, value, limits) for value in measured.values()]
    return Repetition(
        then=then,
        now=now,
        changes=changes,
        rows=tuple(rows),
        basis="bits" if bitwise else "users" if floor is None else "floor",
        first_difference=_first_difference_text(first),
        reused=tuple(stage.name for stage in now.stages if stage.cached),
        own=own,
        floor_unused=unused,
    )


def _first_difference(then: RunRecord, now: RunRecord) -> tuple[StageRef, StageRef | None] | None:
    """The first stage, upstream first, whose content differs, then and now."""
    after = {stage.name: stage for stage in now.stages}
    pairs = ((stage, after.get(stage.name)) for stage in then.stages)
    return next(((one, other) for one, other in pairs if other is None or other.digest != one.digest), None)


def _first_difference_text(first: tuple[StageRef, StageRef | None] | None) -> str:
    if first is None:
        return ""
    then, now = first
    if now is None:
        return f"the stage {then.name!r} is no longer made"
    why = "from the same inputs and code" if now.key == then.key else "from other inputs, settings or code"
    return f"the stage {then.name!r} came out differently, {why}"


def _usable_floor(
    then: RunRecord,
    now: RunRecord,
    floors: Sequence[NoiseFloor],
    redo: Redo,
    own: frozenset[str],
    first: tuple[StageRef, StageRef | None] | None,
) -> tuple[NoiseFloor | None, str]:
    """The floor that says how far apart these two may lie, or why none of those that are there does."""
    mine = [floor for floor in floors if floor.key == then.key]
    if not mine:
        return None, ""
    here = [floor for floor in mine if floor.holds_for(now, redo=redo)]
    if not here:
        return None, "it was measured on another machine, with other packages, or with more or less recomputed"
    if not here[0].holds_for(then, redo=redo):
        return None, "the record itself was made in another environment"
    if here[0].runs < FEWEST:
        return None, f"it was measured by {here[0].runs} runs, and {FEWEST} are the fewest"
    if first is not None:
        stage, other = first
        if other is None or other.key != stage.key:
            return None, f"the stage {stage.name!r} was made from other inputs, settings or code"
        if redo == "row" and stage.name.partition(" ")[0] not in own:
            return None, f"the stage {stage.name!r}, which the row is built on, is another one here"
    return here[0], ""


def environment_changes(
    then: RunRecord, now: Environment, *, arithmetic: Mapping[str, str], method_digest: str
) -> Iterator[EnvironmentChange]:
    was = then.environment
    names = {"commit": "git_commit", "device": "device", "processor": "device_name", "threads": "threads"}
    names |= {"precision": "precision", "Python": "python", "platform": "platform"}
    for what, name in names.items():
        one, other = getattr(was, name), getattr(now, name)
        if one != other:
            bits = name in ("device", "device_name", "threads", "precision")
            yield EnvironmentChange(what, _text(one), _text(other), bits)
    for package in sorted(was.packages.keys() | now.packages.keys()):
        one, other = was.packages.get(package), now.packages.get(package)
        if one != other:
            yield EnvironmentChange(package, _text(one), _text(other), bits=True)
    # Older records do not say.
    for name in sorted(then.arithmetic.keys() & arithmetic.keys()):
        if then.arithmetic[name] != arithmetic[name]:
            yield EnvironmentChange(name, then.arithmetic[name], arithmetic[name], bits=True)
    if then.method_digest != method_digest:
        yield EnvironmentChange("source of the method", then.method_digest[:10], method_digest[:10], bits=False)


def _table(record: RunRecord) -> str:
    """Digest of what was measured: the evaluation stage's, as a published table has other bytes than the run's."""
    found = [stage.digest for stage in record.stages if stage.name == EVALUATION]
    return found[0] if found else record.per_user_digest


def _text(value: object) -> str:
    text = "none" if value is None else str(value)
    # A commit is 40 digits long.
    return text[:10] if len(text) == 40 else text


def _compared(then: MetricValue | None, now: MetricValue | None, limits: Mapping[NumberId, float] | None) -> Compared:
    """Compare one number; ``limits`` are the noise floor's, None without one."""
    one = then or now
    if one is None:
        raise ValueError("there is nothing to compare")
    was, found = then.value if then else None, now.value if now else None
    over_users = _allowed_over_users(then) if then else None
    allowed = over_users if limits is None else limits.get((one.metric, one.group, one.beam))
    return Compared(one.metric, one.group, one.beam, was, found, allowed, _verdict(then, now, allowed))


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


def _allowed_over_users(value: MetricValue) -> float | None:
    """The repeatability limit of a mean over users; None for a number that is no such mean."""
    if value.n is None or value.sd is None or value.n < 2:
        return None
    return LIMIT * value.sd / math.sqrt(value.n) if value.sd > 0 else ZERO_COUNT / value.n
