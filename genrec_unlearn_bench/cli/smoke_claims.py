"""What every honest smoke run shows: directions, not numbers, so another seed or machine does not break them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.runs.record import RunRecord

__all__ = ["CLAIMS", "Claim", "Reading", "violations"]


@dataclass(frozen=True, eq=False)
class Reading:
    """One backbone's records by method."""

    records: Mapping[str, RunRecord]

    def of(self, method: str, metric: str, group: Group = Group.FORGET) -> float:
        """A number at beam 50; NaN where it was not measured, which makes every comparison false."""
        for value in self.records[method].metrics:
            if (value.metric, value.group, value.beam) == (metric, group, 50) and value.value is not None:
                return value.value
        return float("nan")

    def kept(self, method: str) -> float:
        """Retain NDCG@10."""
        return self.of(method, "ndcg@10", Group.RETAIN)

    def moved(self, method: str) -> float:
        """Items that got another semantic ID."""
        return float(self.records[method].report.get("items_moved", 0))


@dataclass(frozen=True)
class Claim:
    """Something that must hold.

    Attributes:
        method: Whom it is about; the claim is left out where that method was not run.
    """

    method: str
    text: str
    holds: Callable[[Reading], bool]


CLAIMS = (
    Claim(
        "original",
        "the original has learned the concept: forget HR@10 above 0.05",
        lambda found: found.of("original", "hr@10") > 0.05,
    ),
    Claim(
        "original",
        "the original still recommends the concept: CR@10 above 0",
        lambda found: found.of("original", "concept-rate@10") > 0,
    ),
    Claim(
        "popularity",
        "the original beats popularity on retain users by a quarter: NDCG@10",
        lambda found: found.kept("original") > 1.25 * found.kept("popularity"),
    ),
    Claim(
        "sasrec",
        "SASRec beats popularity twice over on retain users: NDCG@10",
        lambda found: found.kept("sasrec") > 2 * found.kept("popularity"),
    ),
    Claim(
        "retrain",
        "retraining forgets: forget HR@10 below a third of the original's",
        lambda found: found.of("retrain", "hr@10") < found.of("original", "hr@10") / 3,
    ),
    Claim(
        "retrain",
        "retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's",
        lambda found: found.kept("retrain") >= 0.7 * found.kept("original"),
    ),
    Claim("filter", "filter has no concept item as a hit", lambda found: found.of("filter", "hr@10") == 0),
    Claim("filter", "filter lists no concept item", lambda found: found.of("filter", "concept-rate@10") == 0),
    Claim(
        "filter-history",
        "filter-history has no concept item as a hit",
        lambda found: found.of("filter-history", "hr@10") == 0,
    ),
    Claim(
        "filter-history",
        "filter-history lists no concept item",
        lambda found: found.of("filter-history", "concept-rate@10") == 0,
    ),
    Claim("random-reassign", "random-reassign moves items", lambda found: found.moved("random-reassign") > 0),
    Claim("tracer", "TRACER moves items", lambda found: found.moved("tracer") > 0),
    Claim(
        "tracer",
        "TRACER lowers forget HR@10",
        lambda found: found.of("tracer", "hr@10") < found.of("original", "hr@10"),
    ),
    Claim(
        "tracer",
        "TRACER lowers the concept rate",
        lambda found: found.of("tracer", "concept-rate@10") < found.of("original", "concept-rate@10"),
    ),
)


def violations(records: Mapping[str, RunRecord]) -> list[str]:
    """What is wrong with one backbone's smoke run, as sentences; ``records`` by method."""
    found = Reading(records)
    broken = [claim.text for claim in CLAIMS if claim.method in records and not claim.holds(found)]
    return broken + [f"{name} did not diverge" for name, record in records.items() if record.diverged]
