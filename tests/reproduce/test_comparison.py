"""What counts as identical, as within tolerance and as different, and when which is asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import Cell, Cost, Environment, RunRecord, StageRef
from genrec_unlearn_bench.reproduce.repeat import LIMIT, compare

HERE = Environment(
    device="cpu",
    device_name="a processor",
    precision="fp32",
    threads=1,
    python="3.11.7",
    platform="Linux",
    packages={"torch": "2.13.0", "numpy": "2.4.6"},
)
ELSEWHERE = HERE.model_copy(update={"device_name": "another processor"})


def hits(value: float | None, *, n: int = 400, metric: str = "hr@10", sd: float | None = None) -> MetricValue:
    spread = math.sqrt(value * (1 - value)) if value is not None and sd is None else sd
    return MetricValue(metric=metric, group=Group.FORGET, value=value, beam=10, n=n, sd=spread)


def record(*metrics: MetricValue, at: Environment = HERE, key: str = "k", **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "protocol_version": 1,
        "suite_version": "0",
        "key": "k" * 64,
        "cell": Cell(task="demo-brand", backbone="tiger", method="npo", seed=0, scale="smoke", suite="core"),
        "created": "2026-01-01T00:00:00+00:00",
        "dataset_digest": "d",
        "task_digest": "t",
        "method_digest": "m",
        "method_config": {},
        "backbone_config": {},
        "sid_config": {},
        "encoder": "tfidf:128",
        "effective_batch_size": 1,
        "stages": (StageRef(name="original", key=key, digest="d", seconds=1.0, cached=False),),
        "environment": at,
        "cost": Cost(unlearn_seconds=1.0, peak_memory_mib=1.0, steps=1),
        "metrics": metrics,
        "per_user_digest": "p",
        "command": "bench run",
    }
    return RunRecord(**{**fields, **changes})


def test_the_same_surroundings_owe_the_same_bits() -> None:
    assert compare(record(hits(0.2)), record(hits(0.2))).matches
    off = compare(record(hits(0.2)), record(hits(math.nextafter(0.2, 1))))
    assert off.bitwise
    assert off.counts == {"within": 1}
    assert not off.matches


@pytest.mark.parametrize("name", ["device_name", "threads", "packages"])
def test_other_surroundings_owe_the_interval(name: str) -> None:
    value = {"device_name": "x", "threads": 2, "packages": {"torch": "2.14.0", "numpy": "2.4.6"}}[name]
    there = HERE.model_copy(update={name: value})
    limit = LIMIT * math.sqrt(0.2 * 0.8) / 20
    near = compare(record(hits(0.2)), record(hits(0.2 + 0.99 * limit), at=there))
    assert not near.bitwise
    assert near.matches
    far = compare(record(hits(0.2)), record(hits(0.2 + 1.01 * limit), at=there))
    assert far.counts == {"differs": 1}
    assert not far.matches


def test_a_commit_or_an_operating_system_excuses_nothing() -> None:
    there = HERE.model_copy(update={"git_commit": "f" * 40, "platform": "Linux 7"})
    again = compare(record(hits(0.2)), record(hits(0.2), at=there))
    assert again.bitwise
    assert [change.what for change in again.changes] == ["platform", "git_commit"]
    assert not compare(record(hits(0.2)), record(hits(0.21), at=there)).matches


def test_other_code_shows_in_a_stage_key_and_owes_the_interval() -> None:
    again = compare(record(hits(0.2)), record(hits(0.21), key="other"))
    assert not again.bitwise
    assert again.matches


def test_the_first_stage_that_came_out_differently_is_named() -> None:
    stage = StageRef(name="original", key="k", digest="other", seconds=1.0, cached=False)
    again = compare(record(hits(0.2)), record(hits(0.2), stages=(stage,)))
    assert again.first_difference == "the stage 'original' came out differently, from the same inputs and code"
    moved = compare(record(hits(0.2)), record(hits(0.2), stages=(stage.model_copy(update={"key": "other"}),)))
    assert "from other inputs, settings or code" in moved.first_difference


def test_none_of_n_users_leaves_room_for_three_over_n() -> None:
    none = record(hits(0.0))
    assert compare(none, record(hits(3 / 400), at=ELSEWHERE)).matches
    assert not compare(none, record(hits(4 / 400), at=ELSEWHERE)).matches


def test_a_number_without_a_standard_error_is_not_judged_elsewhere_and_is_here() -> None:
    share = MetricValue(metric="overlap.mean", group=Group.ALL, value=0.1, n=50)
    other = share.model_copy(update={"value": 0.2})
    assert compare(record(share), record(other, at=ELSEWHERE)).counts == {"not judged": 1}
    assert compare(record(share), record(other, at=ELSEWHERE)).matches
    assert not compare(record(share), record(other)).matches


def test_a_record_that_leaves_out_its_spread_is_held_to_the_repetitions() -> None:
    better = hits(0.9).model_copy(update={"sd": None})
    assert not compare(record(better), record(hits(0.2), at=ELSEWHERE)).matches
    near = better.model_copy(update={"value": 0.21})
    assert compare(record(near), record(hits(0.2), at=ELSEWHERE)).counts == {"within": 1}


def test_elsewhere_eight_numbers_decide_and_the_others_are_shown() -> None:
    other = compare(
        record(hits(0.2, metric="concept-rate@10")), record(hits(0.9, metric="concept-rate@10"), at=ELSEWHERE)
    )
    assert other.counts == {"differs": 1}
    assert other.matches
    assert not compare(record(hits(0.2, metric="ndcg@10")), record(hits(0.9, metric="ndcg@10"), at=ELSEWHERE)).matches


@pytest.mark.parametrize(
    ("then", "now"),
    [((hits(0.2),), ()), ((), (hits(0.2),)), ((hits(0.2),), (hits(None, n=0),)), ((hits(None, n=0),), (hits(0.2),))],
)
def test_a_deciding_number_that_is_missing_on_one_side_differs(
    then: tuple[MetricValue, ...], now: tuple[MetricValue, ...]
) -> None:
    assert not compare(record(*then), record(*now, at=ELSEWHERE)).matches


def test_what_the_record_is_too_old_for_is_new_and_no_difference() -> None:
    later = hits(0.3, metric="long-tail.hr@10")
    again = compare(record(hits(0.2)), record(hits(0.2).model_copy(update={"interval": (0.1, 0.3)}), later))
    assert again.counts == {"identical": 1, "new": 1}
    assert again.matches
    assert again.bitwise
    # What the record has and the suite no longer measures is a difference.
    assert compare(record(hits(0.2), later), record(hits(0.2))).counts == {"identical": 1, "differs": 1}


def test_a_time_of_another_order_is_flagged() -> None:
    def taking(seconds: float) -> RunRecord:
        return record(hits(0.2), cost=Cost(unlearn_seconds=seconds, peak_memory_mib=1.0, steps=1))

    assert compare(taking(2.0), taking(25.0)).time_fault == "unlearning took 25 s, and the record says 2 s"
    assert compare(taking(25.0), taking(2.0)).time_fault
    assert compare(taking(25.0), taking(2.0)).matches
    assert not compare(taking(2.0), taking(19.0)).time_fault
    assert not compare(taking(0.001), taking(0.4)).time_fault


def test_the_clock_is_not_judged_and_a_table_or_a_divergence_is() -> None:
    clock = MetricValue(metric="cost.unlearn-seconds", group=Group.ALL, value=1.0)
    slow = clock.model_copy(update={"value": 9.0})
    assert compare(record(hits(0.2), clock), record(hits(0.2), slow)).matches
    assert not compare(record(hits(0.2)), record(hits(0.2), per_user_digest="q")).matches
    assert compare(record(hits(0.2)), record(hits(0.2), per_user_digest="q", at=ELSEWHERE)).matches
    assert not compare(record(hits(0.2)), record(hits(0.2), diverged=True, at=ELSEWHERE)).matches


def test_a_published_table_has_other_bytes_and_the_same_evaluation() -> None:
    def measured(digest: str, table: str) -> RunRecord:
        stage = StageRef(name="evaluation", key="e", digest=digest, seconds=1.0, cached=False)
        return record(hits(0.2), stages=(stage,), per_user_digest=table)

    assert compare(measured("one", "published"), measured("one", "as run")).matches
    assert not compare(measured("one", "same"), measured("another", "same")).matches


def test_a_gpu_owes_the_interval_alone() -> None:
    gpu = HERE.model_copy(update={"device": "cuda"})
    assert not compare(record(hits(0.2), at=gpu), record(hits(0.2), at=gpu)).bitwise


def test_other_instructions_for_sums_owe_the_interval_and_older_records_do_not_say() -> None:
    wide, narrow = {"cpu_capability": "AVX512"}, {"cpu_capability": "AVX2"}
    assert not compare(record(hits(0.2), arithmetic=wide), record(hits(0.2), arithmetic=narrow)).bitwise
    assert compare(record(hits(0.2)), record(hits(0.2), arithmetic=narrow)).bitwise
