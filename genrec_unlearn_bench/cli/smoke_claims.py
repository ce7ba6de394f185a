"""What every honest smoke run shows: directions, not numbers, so another seed or machine does not break them.

Margins are far from what was measured on the demo at three seeds (docs/own-method-ci.md has the numbers).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord

__all__ = ["CLAIMS", "DESTRUCTIVE", "Claim", "Judged", "Reading", "judged", "own_claims", "violations"]

DESTRUCTIVE = {"lr": 0.01, "retain_ceiling": None}
"""Gradient ascent at a hundred times its learning rate, with nothing to hold it."""

BEAM = 50

Relation = Literal["<", "≤", ">", "≥", "="]

_HOLDS: Mapping[Relation, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
    "=": operator.eq,
}


@dataclass(frozen=True, eq=False)
class Reading:
    """One backbone's records by method."""

    records: Mapping[str, RunRecord]

    def of(self, method: str, metric: str, group: Group = Group.FORGET) -> float:
        """A number at beam 50; NaN where it was not measured, which makes every comparison false."""
        if method not in self.records:
            return float("nan")
        for value in self.records[method].metrics:
            if (value.metric, value.group, value.beam) == (metric, group, BEAM) and value.value is not None:
                return value.value
        return float("nan")

    def single(self, method: str, metric: str, group: Group) -> float:
        """A number that belongs to no beam; NaN where it was not measured."""
        found = self.records[method].metrics if method in self.records else ()
        for value in found:
            if (value.metric, value.group) == (metric, group) and value.value is not None:
                return value.value
        return float("nan")

    def hits(self, method: str) -> float:
        """Forget HR@10."""
        return self.of(method, "hr@10")

    def listed(self, method: str) -> float:
        """Share of concept items in the forget users' lists."""
        return self.of(method, "concept-rate@10")

    def kept(self, method: str) -> float:
        """Retain NDCG@10."""
        return self.of(method, "ndcg@10", Group.RETAIN)

    def moved(self, method: str) -> float:
        """Items that got another semantic ID."""
        return float(self.records[method].report.get("items_moved", 0))


@dataclass(frozen=True)
class Claim:
    """Something that must hold: two numbers and how they stand to each other.

    Attributes:
        method: Whom it is about; the claim is left out where that method was not run.
        backbone: The one backbone it is about; empty for every one.
    """

    method: str
    text: str
    left: Callable[[Reading], float]
    relation: Relation
    right: Callable[[Reading], float]
    backbone: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim with its numbers; ``holds`` is None for what is said for information alone."""

    text: str
    numbers: str
    holds: bool | None

    def __str__(self) -> str:
        sign = {True: "✓", False: "✗", None: "·"}[self.holds]
        return f"{sign} {self.text}  ({self.numbers})"


def _nothing(found: Reading) -> float:
    return 0.0


CLAIMS = (
    Claim(
        "original",
        "the original has learned the concept: forget HR@10 above 0.05",
        lambda found: found.hits("original"),
        ">",
        lambda found: 0.05,
    ),
    Claim(
        "original",
        "the original still recommends the concept: CR@10 above 0",
        lambda found: found.listed("original"),
        ">",
        _nothing,
    ),
    Claim(
        "popularity",
        "the original beats popularity on retain users by a quarter: NDCG@10",
        lambda found: found.kept("original"),
        ">",
        lambda found: 1.25 * found.kept("popularity"),
    ),
    Claim(
        "sasrec",
        "SASRec beats popularity twice over on retain users: NDCG@10",
        lambda found: found.kept("sasrec"),
        ">",
        lambda found: 2 * found.kept("popularity"),
    ),
    Claim(
        "retrain",
        "retraining forgets: forget HR@10 below a third of the original's",
        lambda found: found.hits("retrain"),
        "<",
        lambda found: found.hits("original") / 3,
    ),
    Claim(
        "retrain",
        "retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's",
        lambda found: found.kept("retrain"),
        "≥",
        lambda found: 0.7 * found.kept("original"),
    ),
    Claim("filter", "filter has no concept item as a hit", lambda found: found.hits("filter"), "=", _nothing),
    Claim("filter", "filter lists no concept item", lambda found: found.listed("filter"), "=", _nothing),
    Claim(
        "filter-history",
        "filter-history has no concept item as a hit",
        lambda found: found.hits("filter-history"),
        "=",
        _nothing,
    ),
    Claim(
        "filter-history",
        "filter-history lists no concept item",
        lambda found: found.listed("filter-history"),
        "=",
        _nothing,
    ),
    Claim(
        "grad-ascent",
        "gradient ascent at a high rate destroys: retain NDCG@10 below half of the original's",
        lambda found: found.kept("grad-ascent"),
        "<",
        lambda found: 0.5 * found.kept("original"),
    ),
    Claim(
        "random-reassign",
        "random-reassign moves items",
        lambda found: found.moved("random-reassign"),
        ">",
        _nothing,
    ),
    Claim("tracer", "TRACER moves items", lambda found: found.moved("tracer"), ">", _nothing),
    Claim(
        "tracer",
        "TRACER lowers forget HR@10",
        lambda found: found.hits("tracer"),
        "<",
        lambda found: found.hits("original"),
    ),
    Claim(
        "tracer",
        "TRACER lowers the concept rate",
        lambda found: found.listed("tracer"),
        "<",
        lambda found: found.listed("original"),
    ),
    Claim(
        "tracer",
        "TRACER forgets: forget HR@10 below a third of the original's",
        lambda found: found.hits("tracer"),
        "<",
        lambda found: found.hits("original") / 3,
        backbone="tiger",
    ),
    Claim(
        "tracer",
        "TRACER keeps the rest: retain NDCG@10 at least 0.7 of the original's",
        lambda found: found.kept("tracer"),
        "≥",
        lambda found: 0.7 * found.kept("original"),
        backbone="tiger",
    ),
)


def judged(records: Mapping[str, RunRecord], claims: Sequence[Claim] = CLAIMS) -> list[Judged]:
    """Every claim about one backbone's smoke run; ``records`` by method."""
    found = Reading(records)
    backbones = {record.cell.backbone for record in records.values()}
    asked = [claim for claim in claims if claim.method in records and claim.backbone in ("", *backbones)]
    return [_judged(claim, found) for claim in asked] + [
        Judged(f"{name} did not diverge", "a loss or weight is not finite", holds=False)
        for name, record in records.items()
        if record.diverged and name != "grad-ascent"
    ]


def own_claims(name: str, records: Mapping[str, RunRecord], faults: tuple[str, ...]) -> Iterator[Judged]:
    """What must be true of anyone's method, however good it is.

    Args:
        faults: What a call of it with everything looked at has shown (runs/matrix.py).
    """
    record, found = records[name], Reading(records)
    sound = "; ".join(faults) or "weights, semantic IDs, mode and hooks"
    yield Judged(f"{name} leaves the original as it is and returns a whole recommender", sound, holds=not faults)
    finite = "a loss or weight is not finite" if record.diverged else f"{record.cost.steps} steps"
    yield Judged(f"{name} did not diverge", finite, holds=not record.diverged)
    changed = _changed(record, records["original"])
    yield Judged(f"{name} changes what is recommended", f"{changed} metrics differ from the original's", changed > 0)
    broken = check_invariants(record.metrics)
    yield Judged(f"the record of {name} keeps the invariants", broken[0] if broken else "all", holds=not broken)
    for side, one, other in (
        ("forget HR@10", found.hits(name), found.hits("original")),
        ("retain NDCG@10", found.kept(name), found.kept("original")),
    ):
        # A method in the making need not forget yet.
        yield Judged(f"{name}, {side}", f"{one:.4f}; the original has {other:.4f}", holds=None)


def violations(records: Mapping[str, RunRecord]) -> list[str]:
    """What is wrong with one backbone's smoke run, as sentences; ``records`` by method."""
    return [one.text for one in judged(records) if one.holds is False]


def _judged(claim: Claim, found: Reading) -> Judged:
    left, right = claim.left(found), claim.right(found)
    return Judged(claim.text, f"{left:.4g} {claim.relation} {right:.4g}", _HOLDS[claim.relation](left, right))


def _changed(record: RunRecord, other: RunRecord) -> int:
    """How many list metrics have another value."""
    was = {(value.metric, value.group, value.beam): value.value for value in other.metrics}
    return sum(
        value.beam is not None and was.get((value.metric, value.group, value.beam)) != value.value
        for value in record.metrics
    )
