"""Claims that hold for every honest smoke run: directions, not numbers, so another seed or machine does not break them.

Margins are far from what was measured on the demo with TIGER at seeds 0 to 2, beam 10. Forget HR@10: original .349,
.349, .443, TRACER .00, .02, .05, retraining .00. Retain NDCG@10 as a share of the original's: TRACER .98, .98, 1.03,
gradient ascent at a hundred times its rate .06, .06, .04, retraining 1.08 at seed 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord

TASK = "demo-brand"
FIRST = "tiger"
METHODS = (
    "original",
    "retrain",
    "sasrec",
    "popularity",
    "filter",
    "filter-history",
    "grad-ascent",
    "random-reassign",
    "tracer",
)
"""Run on ``FIRST``."""
FEW = ("original", "retrain", "popularity", "filter", "tracer")
"""Run on every other backbone."""
FULL_METHODS = ("original", "retrain", "filter")
"""Cases with known answers for the full suite: the original remembers, the retrained model never knew, and a filter
hides the concept of a model that remembers everything."""

DESTRUCTIVE = {"lr": 0.01, "retain_ceiling": None}
"""Gradient ascent at a hundred times its learning rate, without its guard."""

BEAM = 50

HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "≤": operator.le,
    ">": operator.gt,
    "≥": operator.ge,
    "=": operator.eq,
}


@dataclass(frozen=True, eq=False)
class Rows:
    """One backbone's records by method; a number that was not measured is NaN, which makes every comparison false."""

    records: Mapping[str, RunRecord]

    def value(self, method: str, metric: str, group: Group, beam: int | None = None) -> float:
        """A metric of a row; without ``beam``, one that belongs to no beam or has the same value at each."""
        for value in self.records[method].metrics if method in self.records else ():
            if (value.metric, value.group) == (metric, group) and beam in (None, value.beam):
                return float("nan") if value.value is None else value.value
        return float("nan")

    def hits(self, method: str) -> float:
        """Forget HR@10."""
        return self.value(method, "hr@10", Group.FORGET, BEAM)

    def listed(self, method: str) -> float:
        """Share of concept items in the forget users' lists."""
        return self.value(method, "concept-rate@10", Group.FORGET, BEAM)

    def kept(self, method: str) -> float:
        """Retain NDCG@10."""
        return self.value(method, "ndcg@10", Group.RETAIN, BEAM)

    def moved(self, method: str) -> float:
        """Items that got another semantic ID."""
        return float(self.records[method].report.get("items_moved", 0))


@dataclass(frozen=True)
class Claim:
    """Two numbers and the relation that must hold between them.

    Attributes:
        method: The row it is about.
        backbone: The one backbone it is about; empty for every one.
    """

    method: str
    text: str
    left: Callable[[Rows], float]
    relation: str
    right: Callable[[Rows], float]
    backbone: str = ""

    def violation(self, rows: Rows) -> str:
        """The claim with its numbers where it does not hold; empty where it does."""
        left, right = self.left(rows), self.right(rows)
        return "" if HOLDS[self.relation](left, right) else f"{self.text} ({left:.4g} {self.relation} {right:.4g})"


def _zero(rows: Rows) -> float:
    return 0.0


CLAIMS = (
    Claim(
        "original",
        "the original has learned the concept: forget HR@10 above 0.05",
        lambda rows: rows.hits("original"),
        ">",
        lambda rows: 0.05,
    ),
    Claim(
        "original",
        "the original still recommends the concept: CR@10 above 0",
        lambda rows: rows.listed("original"),
        ">",
        _zero,
    ),
    Claim(
        "popularity",
        "the original beats popularity on retain users by a quarter: NDCG@10",
        lambda rows: rows.kept("original"),
        ">",
        lambda rows: 1.25 * rows.kept("popularity"),
    ),
    Claim(
        "sasrec",
        "SASRec beats popularity twice over on retain users: NDCG@10",
        lambda rows: rows.kept("sasrec"),
        ">",
        lambda rows: 2 * rows.kept("popularity"),
    ),
    Claim(
        "retrain",
        "retraining forgets: forget HR@10 below a third of the original's",
        lambda rows: rows.hits("retrain"),
        "<",
        lambda rows: rows.hits("original") / 3,
    ),
    Claim(
        "retrain",
        "retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's",
        lambda rows: rows.kept("retrain"),
        "≥",
        lambda rows: 0.7 * rows.kept("original"),
    ),
    Claim("filter", "filter has no concept item as a hit", lambda rows: rows.hits("filter"), "=", _zero),
    Claim("filter", "filter lists no concept item", lambda rows: rows.listed("filter"), "=", _zero),
    Claim(
        "filter-history",
        "filter-history has no concept item as a hit",
        lambda rows: rows.hits("filter-history"),
        "=",
        _zero,
    ),
    Claim(
        "filter-history", "filter-history lists no concept item", lambda rows: rows.listed("filter-history"), "=", _zero
    ),
    Claim(
        "grad-ascent",
        "gradient ascent at a high rate destroys: retain NDCG@10 below half of the original's",
        lambda rows: rows.kept("grad-ascent"),
        "<",
        lambda rows: 0.5 * rows.kept("original"),
    ),
    Claim("random-reassign", "random-reassign moves items", lambda rows: rows.moved("random-reassign"), ">", _zero),
    Claim("tracer", "TRACER moves items", lambda rows: rows.moved("tracer"), ">", _zero),
    Claim(
        "tracer",
        "TRACER lowers forget HR@10",
        lambda rows: rows.hits("tracer"),
        "<",
        lambda rows: rows.hits("original"),
    ),
    Claim(
        "tracer",
        "TRACER lowers the concept rate",
        lambda rows: rows.listed("tracer"),
        "<",
        lambda rows: rows.listed("original"),
    ),
    Claim(
        "tracer",
        "TRACER forgets: forget HR@10 below a third of the original's",
        lambda rows: rows.hits("tracer"),
        "<",
        lambda rows: rows.hits("original") / 3,
        backbone="tiger",
    ),
    Claim(
        "tracer",
        "TRACER keeps the rest: retain NDCG@10 at least 0.7 of the original's",
        lambda rows: rows.kept("tracer"),
        "≥",
        lambda rows: 0.7 * rows.kept("original"),
        backbone="tiger",
    ),
)


def _same_as_original(method: str, text: str, metric: str, *, of: str = "", group: Group = Group.FORGET) -> Claim:
    """A metric of one row equals that of the original, or the original's metric ``of``, to the bit."""
    return Claim(
        method,
        text,
        lambda rows: rows.value(method, metric, group),
        "=",
        lambda rows: rows.value("original", of or metric, group),
    )


def _none(method: str, text: str, metric: str) -> Claim:
    return Claim(method, text, lambda rows: rows.value(method, metric, Group.FORGET), "=", _zero)


def _above(text: str, metric: str, *, method: str = "original", other: str = "") -> Claim:
    """A metric of the original is above that of ``method``, or above its metric ``other``."""
    return Claim(
        "original",
        text,
        lambda rows: rows.value("original", metric, Group.FORGET),
        ">",
        lambda rows: rows.value(method, other or metric, Group.FORGET),
    )


FULL_CLAIMS = (
    _none("filter", "under attack, a filter serves nothing of the concept", "relearning.area.mixed"),
    _same_as_original(
        "filter",
        "without its rules, the filtered model is the original under the same attack",
        "relearning.original-sids.area.mixed",
        of="relearning.area.mixed",
    ),
    _none("retrain", "retrain comes back no faster than itself", "relearning.recovery.mixed"),
    Claim(
        "original",
        "before the attack, R of the original is 1, so that its largest R is no less",
        lambda rows: rows.value("original", "relearning.peak.mixed", Group.FORGET),
        "≥",
        lambda rows: 1.0,
    ),
    _above("the original gives its forget set away more than retrain does", "membership.auc.loss", method="retrain"),
    _same_as_original("filter", "a filter hides no membership", "membership.auc.loss"),
    _above(
        "the original answers forgotten examples less like retrain than another retrained model does",
        "forget-quality.ks.d",
        other="forget-quality.ceiling.d",
    ),
    _same_as_original("filter", "a filter changes no answer's likelihood", "forget-quality.ks.d"),
    _same_as_original("filter", "a filter changes no hidden state", "probing.auroc.pooled", group=Group.ALL),
    _none("filter", "a filter holds at 4 bits", "quantisation.hr@10.int4"),
)


def claims_about(backbone: str) -> Iterator[Claim]:
    """The claims of ``make smoke`` about the rows that are run on a backbone."""
    methods = METHODS if backbone == FIRST else FEW
    return (claim for claim in CLAIMS if claim.method in methods and claim.backbone in ("", backbone))
