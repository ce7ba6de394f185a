"""Bounds between metrics: all real lists keep them, planted faults break them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.evaluation.invariants import check_bounds, check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS

GOOD = {"hr@1": 0.1, "hr@5": 0.2, "hr@10": 0.3, "ndcg@5": 0.15, "ndcg@10": 0.18, "mrr@10": 0.15}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=40))
def test_every_list_of_ranks_keeps_every_bound(ranks: list[int]) -> None:
    array = np.array(ranks, dtype=np.int64)
    assert check_bounds({name: float(score(array).mean()) for name, score in RANK_METRICS.items()}) == []


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"hr@5": 0.35}, "HR@5 <= HR@10"),
        ({"hr@1": 0.25}, "HR@1 <= HR@5"),
        ({"ndcg@5": 0.21, "ndcg@10": 0.24}, "NDCG@5 <= HR@5"),
        ({"ndcg@10": 0.31}, "NDCG@10 <= HR@10"),
        ({"mrr@10": 0.19}, "MRR@10 <= NDCG@10"),
        ({"hr@5": 0.1, "hr@10": 0.11, "ndcg@5": 0.1, "ndcg@10": 0.105, "mrr@10": 0.104}, "MRR@10 <= HR@5"),
        ({"ndcg@10": 0.17}, "(HR@10 - HR@5) / log2(11) <= NDCG@10 - NDCG@5"),
        ({"ndcg@10": 0.19}, "NDCG@10 - NDCG@5 <= (HR@10 - HR@5) / log2(7)"),
        ({"hr@1": 0.16}, "HR@1 <= NDCG@5"),
        ({"mrr@10": 0.09}, "HR@1 <= MRR@10"),
    ],
)
def test_each_bound_catches_its_fault(change: dict[str, float], broken: str) -> None:
    assert check_bounds(GOOD) == []
    assert any(broken in sentence for sentence in check_bounds({**GOOD, **change}))


def test_the_gain_bounds_are_tight() -> None:
    for rank, side in ((6, "log2(7)"), (10, "log2(11)")):
        ranks = np.array([rank, 0, 3], dtype=np.int64)
        numbers = {name: float(score(ranks).mean()) for name, score in RANK_METRICS.items()}
        assert check_bounds(numbers) == []
        nudge = 1e-6 if rank == 6 else -1e-6
        broken = check_bounds({**numbers, "ndcg@10": numbers["ndcg@10"] + nudge})
        assert len(broken) == 1
        assert side in broken[0]


def test_published_tables_are_checked_with_their_rounding() -> None:
    # A published row: HR .170 -> .230 allows NDCG to gain .0214 at most, .040 is reported.
    reported = {"hr@5": 0.170, "hr@10": 0.230, "ndcg@5": 0.110, "ndcg@10": 0.150, "mrr@10": 0.110}
    assert len(check_bounds(reported, tolerance=0.0011)) == 1
    possible = {name: round(float(score(np.array([1, 6, 10, 0])).mean()), 3) for name, score in RANK_METRICS.items()}
    assert check_bounds(possible, tolerance=0.0011) == []
    rounded_up = {**GOOD, "hr@5": 0.3004}
    assert check_bounds({k: v for k, v in rounded_up.items() if k in ("hr@5", "hr@10")}, tolerance=0.0011) == []


def value(metric: str, number: float | None, **other: object) -> MetricValue:
    content = {"metric": metric, "group": Group.RETAIN, "value": number, "beam": 10, "n": 10, **other}
    return MetricValue.model_validate(content)


def test_a_clean_run_has_no_fault() -> None:
    assert check_invariants([value(name, number) for name, number in GOOD.items()]) == []


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (value("hr@10", math.nan), "nan"),
        (value("hr@10", math.inf), "inf"),
        (value("hr@10", 1.5), "outside"),
        (value("hr@10", None), "no note"),
        (value("hr@10", 0.5, n=0), "from nothing"),
        (value("hr@10", 0.5, n=-1), "n is -1"),
        (value("hr@10", 0.5, sd=math.nan), "standard deviation"),
        (value("hr@10", 0.5, sd=-0.1), "standard deviation"),
        (value("hr@10", 0.5, interval=(0.6, 0.7)), "interval"),
        (value("hr@10", 0.5, interval=(0.1, math.inf)), "interval"),
        (value("hr@10", 0.5, group=Group.ALL), "not declared for this group"),
        (value("hr@11", 0.5), "no such metric"),
        (value("similarity.first", -1.2), "outside"),
    ],
)
def test_each_fault_is_named(bad: MetricValue, word: str) -> None:
    faults = check_invariants([bad])
    assert len(faults) == 1
    assert word in faults[0]
    assert bad.metric in faults[0]


def test_bounds_hold_within_a_group_a_beam_and_a_family() -> None:
    hr5, hr10 = value("hr@5", 0.5), value("hr@10", 0.4)
    assert len(check_invariants([hr5, hr10])) == 1
    assert check_invariants([hr5, value("hr@10", 0.4, beam=50)]) == []
    assert check_invariants([hr5, value("hr@10", 0.4, group=Group.FORGET)]) == []
    near = {"group": Group.NEIGHBOURS}
    faults = check_invariants(
        [value("collateral.prefix.hr@10", 0.4, **near), value("collateral.prefix.ndcg@10", 0.5, **near)]
    )
    assert len(faults) == 1
    assert "collateral.prefix" in faults[0]
    assert any("twice" in fault for fault in check_invariants([hr5, hr5]))
