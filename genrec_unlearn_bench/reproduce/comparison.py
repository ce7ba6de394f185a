"""Comparison of a record with another run of its cell, number by number: identical, within tolerance, or different.

What is required depends on what is the same. With the same kind of processor, packages, threads and stage keys the
suite promises the same bits, and anything less is a fault. Elsewhere, and on a GPU, a training takes another path from
its first rounded sum on and ends as another seed would; then a number may differ by as much as two runs on independent
users of the same number do at 95 %, and HR@10 and NDCG@10 of both sides decide (docs/submit.md).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import RunRecord

Verdict = Literal["identical", "within", "differs", "not judged", "new"]
"""``new``: the suite measures it now, and the record is older than that; nothing is said against the record."""

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

HARMLESS = frozenset({"git_commit", "python", "platform", "source of the method"})
"""Differences of environments that change no digit by themselves."""

COST = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""Prefixes of metrics that depend on the clock, or on a tuning that is not repeated."""


class EnvironmentChange(NamedTuple):
    """A difference between the environments of two runs; ``bits``: whether it can change the last digits by itself."""

    what: str
    then: str
    now: str
    bits: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.then} then, {self.now} now"


class Compared(NamedTuple):
    """One number then and now; ``allowed``: the largest difference that is within tolerance, None where unknown."""

    metric: str
    group: Group
    beam: int | None
    then: float | None
    now: float | None
    allowed: float | None
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Repetition:
    """A record, the record of its repetition, and how they compare; ``bitwise``: whether the same bits are required."""

    then: RunRecord
    now: RunRecord
    rows: tuple[Compared, ...]
    bitwise: bool
    changes: list[EnvironmentChange]

    @property
    def first_difference(self) -> str:
        """The first stage, upstream first, whose content came out differently, in words; empty where none did."""
        after = {stage.name: stage for stage in self.now.stages}
        for stage in self.then.stages:
            other = after.get(stage.name)
            if other is None:
                return f"the stage {stage.name!r} is no longer made"
            if other.digest != stage.digest:
                why = "the same inputs and code" if other.key == stage.key else "other inputs, settings or code"
                return f"the stage {stage.name!r} came out differently, from {why}"
        return ""

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


def compare(then: RunRecord, now: RunRecord) -> Repetition:
    """Compare a repetition with its record."""
    keys = {stage.name: stage.key for stage in now.stages}
    same_keys = all(keys.get(stage.name) == stage.key for stage in then.stages)
    changes = environment_changes(then, now)
    bitwise = now.environment.device == "cpu" and same_keys and not any(change.bits for change in changes)
    recorded, measured = ({(one.metric, one.group, one.beam): one for one in run.metrics} for run in (then, now))
    rows = []
    for number in {**recorded, **measured}:
        was, found = recorded.get(number), measured.get(number)
        allowed = _allowed(was) if was else None
        values = (was.value if was else None, found.value if found else None)
        rows.append(Compared(*number, *values, allowed, _verdict(was, found, allowed)))
    return Repetition(then, now, tuple(rows), bitwise, changes)


def environment_changes(then: RunRecord, now: RunRecord) -> list[EnvironmentChange]:
    """How the environments of two runs differ: machine, packages, instructions for sums, source of the method."""
    # Older records do not say how they added.
    both = then.arithmetic.keys() & now.arithmetic.keys()
    was, here = (
        {
            **one.environment.model_dump(exclude={"packages", "git_dirty"}),
            **one.environment.packages,
            **{name: one.arithmetic[name] for name in sorted(both)},
            "source of the method": one.method_digest[:10],
        }
        for one in (then, now)
    )
    names = [name for name in {**was, **here} if was.get(name) != here.get(name)]
    return [EnvironmentChange(one, str(was.get(one)), str(here.get(one)), one not in HARMLESS) for one in names]


def _table(record: RunRecord) -> str:
    """Digest of what was measured: the evaluation stage's, as a published table has other bytes than the run's."""
    return next((stage.digest for stage in record.stages if stage.name == "evaluation"), record.per_user_digest)


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


def _allowed(value: MetricValue) -> float | None:
    """The repeatability limit of a mean over users; None for a number that is no such mean."""
    if value.n is None or value.sd is None or value.n < 2:
        return None
    return LIMIT * value.sd / math.sqrt(value.n) if value.sd > 0 else ZERO_COUNT / value.n
