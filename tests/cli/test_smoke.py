"""The smoke benchmark's claims: they hold for honest numbers, and each one fails when it should."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from genrec_unlearn_bench.cli.smoke import FEW, METHODS
from genrec_unlearn_bench.cli.smoke_claims import violations
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.runs.record import RunRecord

F, R = Group.FORGET, Group.RETAIN

Numbers = dict[tuple[str, Group], float | None]

HONEST: dict[str, Numbers] = {
    "original": {("hr@10", F): 0.30, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.10},
    "retrain": {("hr@10", F): 0.01, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "sasrec": {("hr@10", F): 0.60, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.40},
    "popularity": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.03},
    "filter": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "filter-history": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.09},
    "random-reassign": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
    "tracer": {("hr@10", F): 0.04, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
}


@pytest.fixture
def records(record_of: Callable[..., RunRecord]) -> Callable[..., dict[str, RunRecord]]:
    def make(**wrong: Numbers) -> dict[str, RunRecord]:
        return {
            name: record_of(name, {**HONEST[name], **wrong.get(name.replace("-", "_"), {})}, report={MOVED: 5})
            for name in HONEST
        }

    return make


MOVED = "items_moved"


def test_the_methods_it_runs_exist() -> None:
    assert set(METHODS) <= set(methods())
    assert set(METHODS) == set(HONEST)


def test_claims_about_methods_that_were_not_run_are_left_out(records: Callable[..., dict[str, RunRecord]]) -> None:
    few = {name: record for name, record in records().items() if name in FEW}
    assert violations(few) == []
    few["tracer"] = records(tracer={("hr@10", F): 0.31})["tracer"]
    assert violations(few) == ["TRACER lowers forget HR@10"]


def test_honest_numbers_pass(records: Callable[..., dict[str, RunRecord]]) -> None:
    assert violations(records()) == []


@pytest.mark.parametrize(
    ("method", "metric", "group", "value", "words"),
    [
        ("original", "hr@10", F, 0.01, "the original has learned the concept"),
        ("popularity", "ndcg@10", R, 0.09, "the original beats popularity"),
        ("sasrec", "ndcg@10", R, 0.05, "SASRec beats popularity"),
        ("retrain", "hr@10", F, 0.2, "retraining forgets"),
        ("retrain", "ndcg@10", R, 0.01, "retraining keeps the rest"),
        ("filter", "hr@10", F, 0.01, "filter has no concept item"),
        ("filter_history", "concept-rate@10", F, 0.01, "filter-history lists no concept item"),
        ("tracer", "hr@10", F, 0.30, "TRACER lowers forget HR@10"),
        ("tracer", "hr@10", F, None, "TRACER lowers forget HR@10"),
        ("tracer", "concept-rate@10", F, 0.31, "TRACER lowers the concept rate"),
    ],
)
def test_each_claim_fails_when_it_should(
    records: Callable[..., dict[str, RunRecord]],
    method: str,
    metric: str,
    group: Group,
    value: float | None,
    words: str,
) -> None:
    broken = violations(records(**{method: {(metric, group): value}}))
    assert [line for line in broken if words in line]


def test_a_method_that_moves_nothing_or_diverges_is_caught(
    records: Callable[..., dict[str, RunRecord]], record_of: Callable[..., RunRecord]
) -> None:
    still = {**records(), "tracer": record_of("tracer", HONEST["tracer"], report={MOVED: 0})}
    assert violations(still) == ["TRACER moves items"]
    lost = {**records(), "tracer": record_of("tracer", HONEST["tracer"], report={MOVED: 3}, diverged=True)}
    assert violations(lost) == ["tracer did not diverge"]
