"""Metrics of a stream of requests, by ranks written down by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_1samp

from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricValue
from genrec_unlearn_bench.evaluation.stream import NOT_MEASURED, StreamRanks, stream_quality, stream_times

NO = NOT_MEASURED


def ranks(
    forget: list[list[int]],
    owners: list[int],
    retain: list[list[int]],
    original: list[int],
    exposed: list[list[int]] | None = None,
) -> StreamRanks:
    parts = (owners, forget, exposed or forget, retain, original)
    return StreamRanks(*(np.asarray(part, dtype=np.int64) for part in parts))


PLANTED = ranks(
    # Three requests with two, two and three test interactions.
    forget=[[0, 3, NO, NO, NO, NO, NO], [1, 3, 0, 11, NO, NO, NO], [1, 2, 5, 0, 0, 10, 1]],
    owners=[0, 0, 1, 1, 2, 2, 2],
    retain=[[1, 1, 0, 3], [1, 2, 0, 3], [0, 2, 0, 0]],
    original=[1, 1, 1, 1],
)


def by_name(values: tuple[MetricValue, ...]) -> dict[str, MetricValue]:
    return {value.metric.removeprefix("stream."): value for value in values}


def gain(rank: int) -> float:
    return 1 / math.log2(rank + 1) if 0 < rank <= 10 else 0.0


def test_every_metric_is_declared_once_and_comes_with_every_stream() -> None:
    found = [*stream_quality(PLANTED), *stream_times([1.0, 2.0, 4.0], retrain_seconds=10.0)]
    assert [value.metric for value in found] == [spec.name for spec in family("stream.")]
    for value, spec in zip(found, family("stream."), strict=True):
        assert spec.level is Level.MODEL
        assert value.group in spec.better
        assert value.value is not None
        assert spec.range[0] <= value.value <= spec.range[1]
        assert value.beam is None
    better = {spec.name.removeprefix("stream."): next(iter(spec.better.values())) for spec in family("stream.")}
    assert better["resurfaced"] is better["forget-hr@10.last"] is better["seconds"] is Better.LOWER
    assert better["retain-drift"] is better["retain-change"] is better["retain-slope"] is Better.HIGHER


def test_what_comes_back_is_held_against_the_time_right_after_its_own_request() -> None:
    found = by_name(stream_quality(PLANTED))["resurfaced"]
    # 0 -> 1 comes back, 3 -> 2 was never gone, 0 -> 5 comes back, 11 -> 0 was gone and stays it.
    assert found.value == pytest.approx(2 / 4)
    assert found.n == 4
    assert found.group is Group.FORGET


def test_what_is_only_hidden_from_a_user_is_found_in_the_exposed_lists() -> None:
    """A filter serves nothing of what was requested, and whoever holds its weights keeps all of it."""
    hidden = [[0, 0, NO, NO], [0, 0, 0, 0]]
    held = [[1, 1, NO, NO], [1, 1, 2, 11]]
    found = by_name(stream_quality(ranks(hidden, [0, 0, 1, 1], [[1], [1]], [1], exposed=held)))
    last = [found[f"{lists}forget-hr@10.last"].value for lists in ("", "exposed.", "worst-case.")]
    assert last == [0.0, 0.5, 0.5]
    assert [found[f"{lists}resurfaced"].value for lists in ("", "exposed.", "worst-case.")] == [0.0, 0.0, 0.0]


def test_the_worse_case_is_chosen_at_each_time() -> None:
    """Hidden from users right after its request, and served again at the end: no worse for who holds the weights."""
    served, held = [[0, 0, NO], [1, 1, 0]], [[1, 1, NO], [0, 1, 0]]
    found = by_name(stream_quality(ranks(served, [0, 0, 1], [[1], [1]], [1], exposed=held)))
    values = [found[f"{lists}resurfaced"].value for lists in ("", "exposed.", "worst-case.")]
    assert values == [1.0, -0.5, 0.0]


def test_lists_that_nobody_could_decode_are_unknown_and_not_forgotten() -> None:
    nothing = [[NO, NO], [NO, NO]]
    found = by_name(stream_quality(ranks([[0, NO], [0, 0]], [0, 1], [[1], [1]], [1], exposed=nothing)))
    for name in ("resurfaced", "forget-hr@10.last"):
        assert found[name].value == 0.0
        for lists in ("exposed.", "worst-case."):
            assert found[lists + name].value is None
            assert found[lists + name].note == "not decoded in the original IDs"


def test_retain_quality_is_followed_from_the_first_request_to_the_last() -> None:
    found = by_name(stream_quality(PLANTED))
    means = [sum(map(gain, row)) / 4 for row in PLANTED.retain.tolist()]
    assert found["retain-drift"].value == pytest.approx(means[2] - means[0])
    assert found["retain-change"].value == pytest.approx(means[2] - 1.0)
    assert found["retain-slope"].value == pytest.approx(np.polyfit([1, 2, 3], means, 1)[0])
    assert {found[name].n for name in ("retain-drift", "retain-change", "retain-slope")} == {4}


def test_intervals_are_those_of_scipy() -> None:
    found = by_name(stream_quality(PLANTED))
    change = [gain(after) - gain(before) for before, after in zip(PLANTED.retain[0], PLANTED.retain[2], strict=True)]
    wanted = ttest_1samp(change, 0.0).confidence_interval(0.95)
    assert found["retain-drift"].interval == pytest.approx((wanted.low, wanted.high))
    last = found["forget-hr@10.last"]
    assert last.value == pytest.approx(2 / 3)
    exact = binomtest(2, 3).proportion_ci(0.95, method="exact")
    assert last.interval == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize(("rank", "value"), [(0, 0.0), (4, 1.0)])
def test_a_rate_without_spread_keeps_an_interval_and_a_difference_loses_it(rank: int, value: float) -> None:
    flat = ranks([[0, NO, NO], [0, rank, rank]], [0, 1, 1], [[1, 1], [1, 1]], [1, 1])
    found = by_name(stream_quality(flat))
    assert found["forget-hr@10.last"].value == value
    exact = binomtest(int(value * 2), 2).proportion_ci(0.95, method="exact")
    assert found["forget-hr@10.last"].interval == pytest.approx((exact.low, exact.high))
    for name in ("retain-drift", "resurfaced"):
        assert found[name].value == 0
        assert found[name].interval is None


def test_a_request_without_test_interactions_is_said_and_not_counted_as_forgotten() -> None:
    alone = ranks([[0], [3]], [0], [[1], [1]], [1])
    found = by_name(stream_quality(alone))
    assert found["resurfaced"].value == 1
    assert found["forget-hr@10.last"].value is None
    assert found["forget-hr@10.last"].note == "the last request has no test interactions"
    other = by_name(stream_quality(ranks([[NO], [3]], [1], [[1], [1]], [1])))
    assert other["resurfaced"].value is None
    assert other["resurfaced"].note == "none of the requests before the last has test interactions"
    assert other["forget-hr@10.last"].value == 1


def test_one_model_for_the_whole_stream_neither_drifts_nor_brings_back() -> None:
    found = by_name((*stream_quality(PLANTED, fixed=True), *stream_times([0, 0, 9], retrain_seconds=9.0, fixed=True)))
    for name in ("retain-drift", "retain-slope", "resurfaced"):
        assert found[name].value is None
        assert "one model stands for the whole stream" in str(found[name].note)
    assert found["retain-change"].value is not None
    assert found["forget-hr@10.last"].value is not None
    assert found["seconds"].value == 9
    assert found["share-of-retraining"].value == 1
    assert found["seconds-growth"].value is None


def test_a_stream_that_broke_off_has_reasons_and_no_numbers() -> None:
    reason = "the weights after request 2 of 4 are not finite"
    found = [*stream_quality(None, reason=reason), *stream_times([1.0, 2.0], retrain_seconds=3.0, reason=reason)]
    assert [value.metric for value in found] == [spec.name for spec in family("stream.")]
    assert all(value.value is None and value.n is None and value.note == reason for value in found)


def test_cost_is_the_sum_its_share_and_its_growth() -> None:
    found = by_name(stream_times([2.0, 1.0, 5.0], retrain_seconds=16.0))
    assert found["seconds"].value == 8
    assert found["share-of-retraining"].value == 0.5
    assert found["seconds-growth"].value == 2.5
    unknown = by_name(stream_times([0.0, 1.0], retrain_seconds=None))
    assert unknown["share-of-retraining"].value is None
    assert unknown["share-of-retraining"].note
    assert unknown["seconds-growth"].value is None
    assert unknown["seconds-growth"].note
