"""R, its interval and the area on curves whose values are known, and the reasons for not dividing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.relearning.measurement import AttackTrace, area, exact_interval, peak, recovery

N = 200


def trace(*rates: float, steps: tuple[int, ...] = (0, 10, 40), shift: int = 0) -> AttackTrace:
    """Of 200 held-out interactions so many are hit at each step."""
    hits = np.stack([np.roll(np.arange(N) < round(rate * N), shift) for rate in rates])
    passes = np.asarray(steps, dtype=np.float64)
    return AttackTrace(np.asarray(steps), passes, hits, np.zeros((len(rates), 0), dtype=bool), np.arange(N))


ORIGINAL, RETRAIN = trace(0.8, 0.8, 0.8), trace(0.3, 0.4, 0.5)


def test_recovery_is_what_came_back_beyond_retrain() -> None:
    own = trace(0.2, 0.7, 0.6)
    assert recovery(own, ORIGINAL, RETRAIN).value == pytest.approx((0.6 - 0.5) / (0.8 - 0.3))
    assert peak(own, ORIGINAL, RETRAIN).value == pytest.approx((0.7 - 0.4) / 0.5)
    assert recovery(own, ORIGINAL, RETRAIN).n == N


def test_nothing_is_clipped() -> None:
    assert recovery(trace(0.1, 0.1, 0.1), ORIGINAL, RETRAIN).value == pytest.approx(-0.8)
    assert recovery(trace(0.1, 0.1, 1.0), ORIGINAL, trace(0.6, 0.6, 0.2)).value == pytest.approx(4.0)


def test_retrain_recovers_nothing_beyond_itself_and_original_has_all_at_first() -> None:
    own = recovery(RETRAIN, ORIGINAL, RETRAIN)
    assert (own.value, own.interval) == (0.0, (0.0, 0.0))
    assert peak(ORIGINAL, ORIGINAL, RETRAIN).value == 1.0


def test_the_interval_is_scipys_paired_bootstrap() -> None:
    own = trace(0.2, 0.4, 0.65, shift=30)
    ours = recovery(own, ORIGINAL, RETRAIN)

    def ratio(*hits: np.ndarray, axis: int = -1) -> np.ndarray:
        last, after, before, first = (found.mean(axis=axis) for found in hits)
        return (last - after) / (before - first)

    columns = [row.astype(float) for row in (own.train[-1], RETRAIN.train[-1], ORIGINAL.train[0], RETRAIN.train[0])]
    draws = {"n_resamples": 4000, "method": "percentile", "rng": np.random.default_rng(0)}
    theirs = stats.bootstrap(columns, ratio, paired=True, vectorized=True, **draws).confidence_interval
    assert ours.interval == pytest.approx((theirs.low, theirs.high), abs=0.03)
    assert ours.interval == recovery(own, ORIGINAL, RETRAIN).interval


def test_the_area_is_the_mean_over_steps() -> None:
    found = area(trace(0.0, 0.4, 1.0))
    assert found.value == pytest.approx((0.2 * 10 + 0.7 * 30) / 40)
    assert found.interval[0] < found.value < found.interval[1]
    assert area(trace(1.0, 1.0, 1.0)).value == 1.0


@pytest.mark.parametrize(
    ("original", "retrain"),
    [(trace(0.3, 0, 0), RETRAIN), (trace(0.1, 0, 0), RETRAIN), (trace(0.31, 0, 0), RETRAIN)],
    ids=["none", "negative", "tiny"],
)
def test_a_gap_that_is_no_gap_is_not_divided_by(original: AttackTrace, retrain: AttackTrace) -> None:
    with pytest.raises(NotMeasurable, match="too little to be recovered"):
        recovery(RETRAIN, original, retrain)


def test_a_gap_within_its_noise_is_not_divided_by() -> None:
    with pytest.raises(NotMeasurable, match=r"\+0.030 beyond the retrained model's \(-0.0"):
        recovery(RETRAIN, trace(0.33, 0.3, 0.3, shift=90), RETRAIN)


def test_only_the_same_attack_on_the_same_interactions_is_compared() -> None:
    other = trace(0.3, 0.4, 0.5, steps=(0, 10, 50))
    with pytest.raises(NotMeasurable, match="different steps"):
        recovery(trace(0.2, 0.2, 0.2), ORIGINAL, other)
    moved = AttackTrace(ORIGINAL.planned, ORIGINAL.passes, ORIGINAL.train, ORIGINAL.test, ORIGINAL.targets + 1)
    with pytest.raises(NotMeasurable, match="different held-out interactions"):
        recovery(trace(0.2, 0.2, 0.2), moved, RETRAIN)


def test_rates_have_clopper_and_pearsons_interval() -> None:
    for hits, n in ((0, 20), (3, 40), (40, 40)):
        low, high = exact_interval(hits, n)
        assert low == pytest.approx(0.0 if hits == 0 else stats.beta.ppf(0.025, hits, n - hits + 1))
        assert high == pytest.approx(1.0 if hits == n else stats.beta.ppf(0.975, hits + 1, n - hits))


def test_the_curve_has_a_row_for_every_planned_step() -> None:
    found = trace(0.2, 0.4)
    assert found.steps.tolist() == [0, 10]
    curve = found.curve("mixed", "served")
    rows = curve[curve["part"] == "train"]
    assert rows["step"].tolist() == [0, 10, 40]
    assert rows["hr@10"].tolist()[:2] == [0.2, 0.4]
    assert rows["hr@10"].isna().tolist() == [False, False, True]
    assert curve[curve["part"] == "test"]["hr@10"].isna().all()
