"""A record held against another run of the same cell, number by number: identical, within tolerance, or different.

What may be asked depends on what is the same. With the same kind of processor, packages, threads and stage keys the
suite promises the same bits, and anything less is a fault. Elsewhere a training takes another path from its first
rounded sum on and ends as another seed would; then a number may differ by as much as two runs on independent users of
the same number do at 95 %, and HR@10 and NDCG@10 of both sides decide (docs/results.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.runs.record import Environment, RunRecord, StageRef

__all__ = [
    "LIMIT",
    "ZERO_COUNT",
    "Compared",
    "Difference",
    "Repetition",
    "Verdict",
    "compare",
    "environment_changes",
]

Verdict = Literal["identical", "within", "differs", "not judged"]

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

COST = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""How the names begin of what a clock shows, or of a tuning that is not repeated."""


@dataclass(frozen=True)
class Difference:
    """Something about the surroundings that is not as it was.

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
        allowed: Largest difference that counts as within tolerance; None where the record holds no standard error.
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
    """What came of running a record's cell once more.

    Attributes:
        then: The record that was to be repeated.
        now: The record of the repetition.
        changes: How the surroundings differ.
        bitwise: Whether the same bits are to be expected.
        parted: The first stage whose content came out differently, in words; empty where none did.
        reused: Stages that were read from the cache, not made again.
    """

    then: RunRecord
    now: RunRecord
    changes: tuple[Difference, ...]
    rows: tuple[Compared, ...]
    bitwise: bool
    parted: str
    reused: tuple[str, ...]

    @property
    def matches(self) -> bool:
        """Whether the record holds: to the bit where that is promised, within tolerance elsewhere."""
        if self.then.diverged != self.now.diverged:
            return False
        if self.bitwise:
            return _table(self.then) == _table(self.now) and set(self.counts) <= {"identical"}
        return not any(row.verdict == "differs" for row in self.rows if row.deciding)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many numbers got which verdict, cost aside."""
        found = Counter(row.verdict for row in self.rows if not row.metric.startswith(COST))
        order: tuple[Verdict, ...] = ("identical", "within", "differs", "not judged")
        return {verdict: found[verdict] for verdict in order if found[verdict]}


def compare(then: RunRecord, now: RunRecord) -> Repetition:
    """Hold a repetition against its record."""
    changes = tuple(
        environment_changes(then, now.environment, arithmetic=now.arithmetic, method_digest=now.method_digest)
    )
    moved = _moved(then, now)
    bitwise = now.environment.device == "cpu" and not moved and not any(change.bits for change in changes)
    measured = {(value.metric, value.group, value.beam): value for value in now.metrics}
    rows = [_compared(value, measured.pop((value.metric, value.group, value.beam), None)) for value in then.metrics]
    rows += [_compared(None, value) for value in measured.values()]
    return Repetition(
        then=then,
        now=now,
        changes=changes,
        rows=tuple(rows),
        bitwise=bitwise,
        parted=_parted(then, now),
        reused=tuple(stage.name for stage in now.stages if stage.cached),
    )


def environment_changes(
    then: RunRecord, now: Environment, *, arithmetic: Mapping[str, str], method_digest: str
) -> Iterator[Difference]:
    """How this machine and checkout differ from the record's."""
    was = then.environment
    names = {"commit": "git_commit", "device": "device", "processor": "device_name", "threads": "threads"}
    names |= {"precision": "precision", "Python": "python", "platform": "platform"}
    for what, name in names.items():
        one, other = getattr(was, name), getattr(now, name)
        if one != other:
            bits = name in ("device", "device_name", "threads", "precision")
            yield Difference(what, _told(one), _told(other), bits)
    for package in sorted(was.packages.keys() | now.packages.keys()):
        one, other = was.packages.get(package), now.packages.get(package)
        if one != other:
            yield Difference(package, _told(one), _told(other), bits=True)
    # Older records do not say.
    for name in sorted(then.arithmetic.keys() & arithmetic.keys()):
        if then.arithmetic[name] != arithmetic[name]:
            yield Difference(name, then.arithmetic[name], arithmetic[name], bits=True)
    if then.method_digest != method_digest:
        yield Difference("source of the method", then.method_digest[:10], method_digest[:10], bits=False)


def _table(record: RunRecord) -> str:
    """Digest of what was measured: the evaluation stage's, as a published table has other bytes than the run's."""
    found = [stage.digest for stage in record.stages if stage.name == EVALUATION]
    return found[0] if found else record.per_user_digest


def _told(value: object) -> str:
    text = "none" if value is None else str(value)
    return text[:10] if len(text) == 40 else text


def _moved(then: RunRecord, now: RunRecord) -> bool:
    """Whether any stage was asked for under another key: then its code, configuration or input is another."""
    keys = {stage.name: stage.key for stage in now.stages}
    return any(keys.get(stage.name) != stage.key for stage in then.stages)


def _parted(then: RunRecord, now: RunRecord) -> str:
    after: dict[str, StageRef] = {stage.name: stage for stage in now.stages}
    for stage in then.stages:
        other = after.get(stage.name)
        if other is None:
            return f"the stage {stage.name!r} is no longer made"
        if other.digest != stage.digest:
            why = "from the same inputs and code" if other.key == stage.key else "from other inputs, settings or code"
            return f"the stage {stage.name!r} came out differently, {why}"
    return ""


def _compared(then: MetricValue | None, now: MetricValue | None) -> Compared:
    one = then or now
    if one is None:
        raise ValueError("there is nothing to compare")
    was, found = then.value if then else None, now.value if now else None
    allowed = _allowed(then) if then else None
    return Compared(one.metric, one.group, one.beam, was, found, allowed, _verdict(then, now, allowed))


def _verdict(then: MetricValue | None, now: MetricValue | None, allowed: float | None) -> Verdict:
    if then is None or now is None:
        missing = then or now
        return "differs" if missing is not None and missing.value is not None else "identical"
    if (then.value, then.n, then.sd, then.interval) == (now.value, now.n, now.sd, now.interval):
        return "identical"
    if then.value is None or now.value is None:
        return "differs"
    if allowed is None:
        return "not judged"
    return "within" if abs(then.value - now.value) <= allowed else "differs"


def _allowed(value: MetricValue) -> float | None:
    """The repeatability limit of a mean over users; None for a number that is no such mean."""
    if value.n is None or value.sd is None or value.n < 2:
        return None
    return LIMIT * value.sd / math.sqrt(value.n) if value.sd > 0 else ZERO_COUNT / value.n
