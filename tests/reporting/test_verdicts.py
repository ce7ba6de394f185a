"""Verdicts on planted rows whose answers are known by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from genrec_unlearn_bench.pipeline.record import Cost
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.verdicts import (
    Costs,
    Forgets,
    Keeps,
    Tone,
    Verdicts,
    pareto_front,
    sort_key,
    verdict_analysis,
    verdicts,
)
from tests.reporting.planting import board_of, plant

ORIGINAL = (0.50, 0.51, 0.49, 0.52, 0.48)
RETRAIN = (0.10, 0.11, 0.09, 0.105, 0.095)
KEPT = (0.200, 0.210, 0.190, 0.205, 0.195)
FORGET, DECODED = "forget:hr@10", "forget:original-sids.hr@10/50"


def shifted(values: Sequence[float], by: float) -> list[float]:
    # A difference without variance would have no t test.
    return [value + by * (1 + 0.01 * place) for place, value in enumerate(values, start=-2)]


def planted(
    name: str,
    forget: Sequence[float],
    kept: Sequence[float] = KEPT,
    decoded: Sequence[float] | None = None,
    hr: Sequence[float] | None = None,
    seconds: float | None = None,
) -> list[Result]:
    numbers: dict[str, Sequence[float | None]] = {
        FORGET: list(forget),
        "retain:ndcg@10": list(kept),
        "retain:hr@10": list(hr or kept),
    }
    if decoded is not None:
        numbers[DECODED] = list(decoded)
    if seconds is not None:
        numbers["cost.unlearn-seconds"] = [seconds] * len(forget)
        numbers["cost.share-of-retraining"] = [seconds / 100.0] * len(forget)
    return plant(name, numbers)


def judged(*groups: list[Result], row: str = "mine", seeds: int = 5) -> Verdicts:
    references = [planted("original", ORIGINAL[:seeds], decoded=ORIGINAL[:seeds])]
    references.append(planted("retrain", RETRAIN[:seeds], shifted(KEPT, 0.001)[:seeds], decoded=RETRAIN[:seeds]))
    block = board_of(*references, *groups).blocks[0]
    protocol = statistics_protocol(1)
    return verdicts(verdict_analysis(block, protocol), next(each for each in block.rows if each.label == row), protocol)


def test_as_retraining_is_yes() -> None:
    found = judged(planted("mine", RETRAIN, decoded=RETRAIN))
    assert found.forgets.outcome is Forgets.YES
    assert found.forgets.tone is Tone.GOOD
    assert found.forgets.detail == "0% left"
    assert found.keeps.outcome is Keeps.EQUIVALENT


def test_the_worst_case_counts() -> None:
    served = judged(planted("mine", RETRAIN, decoded=shifted(RETRAIN, 0.2)))
    assert served.forgets.outcome is Forgets.PARTLY
    assert served.forgets.detail == "50% left"
    assert served.gap == pytest.approx(0.2)
    assert "equivalent; forget HR@10 (original SIDs)" in served.forgets.sentence
    # The other way round it is the served lists.
    assert judged(planted("mine", shifted(RETRAIN, 0.2), decoded=RETRAIN)).forgets.detail == "50% left"


def test_what_was_not_decoded_is_judged_as_served() -> None:
    assert judged(planted("mine", RETRAIN)).forgets.outcome is Forgets.YES


def test_more_than_retraining_is_no_or_partly() -> None:
    # Above retraining by far, and in no seed below the original.
    assert judged(planted("mine", shifted(ORIGINAL, 0.001))).forgets.outcome is Forgets.NO
    noisy = judged(planted("mine", [0.49, 0.50, 0.51, 0.50, 0.50]))
    assert (noisy.forgets.outcome, noisy.forgets.tone) == (Forgets.NO, Tone.BAD)
    assert judged(planted("mine", shifted(ORIGINAL, -0.1))).forgets.outcome is Forgets.PARTLY


def test_a_control_is_judged_by_its_own_interval() -> None:
    found = judged(planted("random-reassign", [0.4, 0.41, 0.38, 0.42, 0.38]), row="random-reassign")
    assert found.forgets.outcome is Forgets.PARTLY


def test_less_than_retraining_is_said() -> None:
    assert judged(planted("mine", [0.0] * 5)).forgets.outcome is Forgets.BELOW


def test_between_both_is_unclear() -> None:
    found = judged(planted("mine", [0.1, 0.2, 0.09, 0.13, 0.11]))
    assert found.forgets.outcome is Forgets.UNCLEAR
    assert found.forgets.tone is Tone.FAIR


def test_no_effect_is_every_number_in_every_seed() -> None:
    same = planted("mine", ORIGINAL, decoded=ORIGINAL, seconds=20.0)
    assert judged(same).forgets.outcome is Forgets.NO_EFFECT
    assert judged(same).keeps.outcome is Keeps.EQUIVALENT
    almost = planted("mine", ORIGINAL, shifted(KEPT[:1], 1e-6) + list(KEPT[1:]), decoded=ORIGINAL)
    assert judged(almost).forgets.outcome is Forgets.NO


def test_one_seed_is_not_tested() -> None:
    found = judged(planted("mine", [0.3], [0.2]), seeds=1)
    assert (found.forgets.outcome, found.forgets.tone) == (Forgets.UNTESTED, Tone.OPEN)
    assert found.forgets.detail == "50% left"
    assert found.keeps.outcome is Keeps.UNTESTED


def test_what_is_kept() -> None:
    assert judged(planted("mine", RETRAIN, shifted(KEPT, -0.1))).keeps.outcome is Keeps.WORSE
    assert judged(planted("mine", RETRAIN, shifted(KEPT, 0.1))).keeps.outcome is Keeps.BETTER
    assert judged(planted("mine", RETRAIN, [0.1, 0.3, 0.2, 0.25, 0.15])).keeps.outcome is Keeps.UNCLEAR
    found = judged(planted("mine", RETRAIN, KEPT, hr=shifted(KEPT, -0.1)))
    assert (found.keeps.outcome, found.keeps.detail) == (Keeps.WORSE, "0.0%")


def test_a_significant_difference_inside_the_margin_is_equivalent() -> None:
    found = judged(planted("mine", RETRAIN, [v - 0.002 - 1e-5 * i for i, v in enumerate(KEPT)]))
    assert found.keeps.outcome is Keeps.EQUIVALENT
    assert "margin" in found.keeps.sentence


def test_diverged_rows_have_no_other_verdict() -> None:
    runs = plant("mine", {FORGET: [0.1]}, diverged=True) + plant("mine", {FORGET: [0.1] * 4}, first_seed=1)
    found = judged(runs)
    assert (found.forgets.outcome, found.forgets.detail) == (Forgets.DIVERGED, "1 of 5")
    assert found.keeps.outcome is Keeps.DIVERGED


def test_nothing_measured_is_said() -> None:
    found = judged(plant("mine", {"retain:mrr@10": [0.1] * 5}))
    assert found.forgets.outcome is Forgets.MISSING
    assert found.keeps.outcome is Keeps.MISSING
    assert found.costs.outcome is Costs.MISSING
    assert found.gap is None


def costing(seconds: float, **fields: float) -> Verdicts:
    numbers = {FORGET: RETRAIN, "cost.unlearn-seconds": [seconds] * 5, "cost.share-of-retraining": [seconds / 100] * 5}
    cost = Cost(unlearn_seconds=seconds, retrain_seconds=100.0, peak_memory_mib=1.0, steps=1, **fields)
    return judged(plant("mine", numbers, cost=cost))


def test_costs_count_tuning_where_it_is_recorded() -> None:
    found = costing(20.0, tuning_trials=6, tuning_seconds=150.0).costs
    assert (found.outcome, found.detail) == (Costs.DEARER, "170%")
    assert found.order == pytest.approx(1.7)
    assert found.sentence == "20.0 s of unlearning and 150 s of tuning; 20% of retraining by itself."
    unknown = costing(20.0, tuning_trials=6).costs
    assert (unknown.outcome, unknown.detail) == (Costs.CHEAPER, "20% + tuning")
    assert "not recorded" in unknown.sentence
    assert costing(70.0, tuning_trials=1, tuning_seconds=1.0).costs.outcome is Costs.OVER_HALF


def test_the_order_is_forgetting_then_keeping_then_cost() -> None:
    names = {
        "a": planted("a", RETRAIN, seconds=90.0),
        "b": planted("b", RETRAIN, seconds=10.0),
        "c": planted("c", RETRAIN, shifted(KEPT, -0.1), seconds=1.0),
        "d": planted("d", shifted(RETRAIN, 0.2), seconds=1.0),
        "e": planted("e", ORIGINAL, seconds=1.0),
    }
    places = {name: sort_key(judged(*names.values(), row=name).order) for name in names}
    assert sorted(places, key=lambda name: places[name]) == ["b", "a", "c", "d", "e"]


def test_the_front_holds_what_nothing_beats_on_both() -> None:
    assert pareto_front([(0.1, 0.5), (-0.2, 0.6), (0.2, 0.5), (0.1, 0.5)]) == (True, True, False, True)
