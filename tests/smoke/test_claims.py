"""The claims of the smoke benchmark hold for honest numbers, and each of them fails where it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.registry import load_class, methods
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from tests.smoke.claims import CLAIMS, DESTRUCTIVE, FEW, FULL_CLAIMS, FULL_METHODS, METHODS, Claim, Rows, claims_about

F, R = Group.FORGET, Group.RETAIN
Numbers = dict[tuple[str, Group], float | None]
Make = Callable[..., RunRecord]

HONEST: dict[str, Numbers] = {
    "original": {("hr@10", F): 0.30, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.10},
    "retrain": {("hr@10", F): 0.01, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "sasrec": {("hr@10", F): 0.60, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.40},
    "popularity": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.03},
    "filter": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "filter-history": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.09},
    "grad-ascent": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.01},
    "random-reassign": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
    "tracer": {("hr@10", F): 0.04, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
}

HONEST_FULL: dict[str, dict[str, float]] = {
    "original": {
        "relearning.area.mixed": 0.2,
        "relearning.original-sids.area.mixed": 0.2,
        "relearning.recovery.mixed": 0.9,
        "relearning.peak.mixed": 1.0,
        "membership.auc.loss": 0.7,
        "forget-quality.ks.d": 0.8,
        "forget-quality.ceiling.d": 0.1,
        "probing.auroc.pooled": 0.6,
        "quantisation.hr@10.int4": 0.2,
    },
    "retrain": {
        "relearning.area.mixed": 0.01,
        "relearning.recovery.mixed": 0.0,
        "membership.auc.loss": 0.5,
        "forget-quality.ks.d": 0.1,
        "probing.auroc.pooled": 0.5,
    },
    "filter": {
        "relearning.area.mixed": 0.0,
        "relearning.original-sids.area.mixed": 0.2,
        "membership.auc.loss": 0.7,
        "forget-quality.ks.d": 0.8,
        "probing.auroc.pooled": 0.6,
        "quantisation.hr@10.int4": 0.0,
    },
}

# Each claim of CLAIMS, by a part of its text, and a number with which it does not hold.
FAILING: list[tuple[str, str, Group, float | None, str]] = [
    ("original", "hr@10", F, 0.01, "the original has learned the concept"),
    ("popularity", "ndcg@10", R, 0.09, "the original beats popularity"),
    ("sasrec", "ndcg@10", R, 0.05, "SASRec beats popularity"),
    ("retrain", "hr@10", F, 0.2, "retraining forgets"),
    ("retrain", "ndcg@10", R, 0.01, "retraining keeps the rest"),
    ("filter", "hr@10", F, 0.01, "filter has no concept item"),
    ("filter", "concept-rate@10", F, 0.01, "filter lists no concept item"),
    ("filter-history", "hr@10", F, 0.01, "filter-history has no concept item"),
    ("original", "concept-rate@10", F, 0.0, "the original still recommends the concept"),
    ("grad-ascent", "ndcg@10", R, 0.06, "gradient ascent at a high rate destroys"),
    ("tracer", "hr@10", F, 0.15, "TRACER forgets"),
    ("tracer", "ndcg@10", R, 0.06, "TRACER keeps the rest"),
    ("filter-history", "concept-rate@10", F, 0.01, "filter-history lists no concept item"),
    ("tracer", "hr@10", F, 0.30, "TRACER lowers forget HR@10"),
    ("tracer", "hr@10", F, None, "TRACER lowers forget HR@10"),
    ("tracer", "concept-rate@10", F, 0.31, "TRACER lowers the concept rate"),
]

FAILING_FULL = [
    ("filter", "relearning.area.mixed", 0.1, "serves nothing"),
    ("filter", "relearning.original-sids.area.mixed", 0.1, "without its rules"),
    ("retrain", "relearning.recovery.mixed", 0.1, "no faster than itself"),
    ("original", "relearning.peak.mixed", 0.9, "largest R"),
    ("original", "membership.auc.loss", 0.5, "gives its forget set away"),
    ("filter", "membership.auc.loss", 0.6, "hides no membership"),
    ("original", "forget-quality.ks.d", 0.1, "less like retrain"),
    ("filter", "forget-quality.ks.d", 0.7, "no answer's likelihood"),
    ("filter", "probing.auroc.pooled", 0.5, "no hidden state"),
    ("filter", "quantisation.hr@10.int4", 0.1, "holds at 4 bits"),
    ("filter", "quantisation.hr@10.int4", None, "holds at 4 bits"),
]


def rows(make: Make, wrong: dict[str, Numbers] | None = None, moved: int = 5) -> Rows:
    changes = wrong or {}
    return Rows(
        {
            name: make(name, {**numbers, **changes.get(name, {})}, report={"items_moved": moved})
            for name, numbers in HONEST.items()
        }
    )


def full_rows(make: Make, method: str = "", **wrong: float | None) -> Rows:
    def record(name: str) -> RunRecord:
        numbers = {**HONEST_FULL[name], **(wrong if name == method else {})}
        return make(name, {(one, Group.ALL if one.startswith("probing") else F): n for one, n in numbers.items()})

    return Rows({name: record(name) for name in HONEST_FULL})


def violations(found: Rows, claims: tuple[Claim, ...] = CLAIMS) -> list[str]:
    return [claim.text for claim in claims if claim.violation(found)]


def test_the_benchmark_makes_57_and_10_claims_about_rows_that_exist() -> None:
    assert sum(len(list(claims_about(backbone))) for backbone in backbones()) == 57
    assert len(FULL_CLAIMS) == 10
    assert {*METHODS, *FEW, *FULL_METHODS} <= set(methods())
    assert set(METHODS) == set(HONEST)


def test_the_destructive_rate_is_a_configuration_of_gradient_ascent() -> None:
    found: type[UnlearningMethod[Any]] = load_class(methods()["grad-ascent"], UnlearningMethod)  # type: ignore[type-abstract]
    config = found.Config.model_validate(DESTRUCTIVE)
    assert config.model_dump()["lr"] == 100 * found.Config().model_dump()["lr"]


def test_honest_numbers_pass(record_of: Make) -> None:
    assert violations(rows(record_of)) == []
    assert violations(full_rows(record_of), FULL_CLAIMS) == []


@pytest.mark.parametrize(("method", "metric", "group", "value", "words"), FAILING)
def test_each_claim_fails_where_it_should(
    record_of: Make, method: str, metric: str, group: Group, value: float | None, words: str
) -> None:
    broken = violations(rows(record_of, {method: {(metric, group): value}}))
    assert [text for text in broken if words in text]


@pytest.mark.parametrize(("method", "metric", "value", "words"), FAILING_FULL)
def test_each_claim_of_the_full_suite_fails_where_it_should(
    record_of: Make, method: str, metric: str, value: float | None, words: str
) -> None:
    broken = violations(full_rows(record_of, method, **{metric: value}), FULL_CLAIMS)
    assert [text for text in broken if words in text]


def test_every_claim_is_made_to_fail_above() -> None:
    words = [case[-1] for case in FAILING] + ["random-reassign moves items", "TRACER moves items"]
    assert [claim.text for claim in CLAIMS if not any(part in claim.text for part in words)] == []
    words = [case[-1] for case in FAILING_FULL]
    assert [claim.text for claim in FULL_CLAIMS if not any(part in claim.text for part in words)] == []


def test_a_method_that_moves_nothing_is_caught(record_of: Make) -> None:
    assert violations(rows(record_of, moved=0)) == ["random-reassign moves items", "TRACER moves items"]


def test_a_violation_shows_its_numbers(record_of: Make) -> None:
    found = rows(record_of, {"tracer": {("hr@10", F): 0.31}})
    told = [claim.violation(found) for claim in CLAIMS]
    assert "TRACER lowers forget HR@10 (0.31 < 0.3)" in told
