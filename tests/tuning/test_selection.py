"""The tuning rule on planted numbers."""

from __future__ import annotations

from genrec_unlearn_bench.tuning.rule import Measured, Trial, choose, is_feasible, mean_trial


def trial(forget: float | None, retain: float | None) -> Trial:
    diverged = forget is None
    seeds = (Measured(seed=9000, forget_hr=forget, retain_ndcg=retain, diverged=diverged),)
    return Trial(config={}, forget_hr=forget, retain_ndcg=retain, seconds=1.0, diverged=diverged, seeds=seeds)


BEFORE = trial(0.5, 0.2)
"""What is left must be 0.194 or more."""


def test_the_lowest_forget_score_of_those_that_keep_enough() -> None:
    trials = [trial(0.3, 0.2), trial(0.0, 0.1), trial(0.1, 0.195), trial(0.2, 0.25)]
    assert choose(trials, BEFORE) == (2, True)


def test_exactly_97_percent_is_enough_and_less_is_not() -> None:
    assert is_feasible(trial(0.0, 0.97 * 0.2), BEFORE)
    assert not is_feasible(trial(0.0, 0.97 * 0.2 - 1e-6), BEFORE)
    assert choose([trial(0.4, 0.2), trial(0.0, 0.194)], BEFORE) == (1, True)
    assert choose([trial(0.4, 0.2), trial(0.0, 0.1939)], BEFORE) == (0, True)


def test_ties_go_to_the_higher_retain_score_then_to_the_earlier() -> None:
    assert choose([trial(0.1, 0.2), trial(0.1 + 1e-10, 0.21), trial(0.2, 0.3)], BEFORE) == (1, True)
    assert choose([trial(0.1, 0.2), trial(0.1, 0.2), trial(0.1, 0.2)], BEFORE) == (0, True)
    assert choose([trial(0.1 + 1e-8, 0.21), trial(0.1, 0.2)], BEFORE) == (1, True), "that is a difference"


def test_where_none_keeps_enough_the_one_that_keeps_most_is_taken_and_flagged() -> None:
    trials = [trial(0.0, 0.1), trial(0.4, 0.19), trial(0.1, 0.19)]
    assert choose(trials, BEFORE) == (1, False)


def test_what_diverged_is_never_taken() -> None:
    assert choose([trial(None, None), trial(0.4, 0.1)], BEFORE) == (1, False)
    assert choose([trial(None, None), trial(None, None)], BEFORE) is None
    half = Trial(config={}, forget_hr=0.0, retain_ndcg=0.3, seconds=1.0, diverged=True, seeds=())
    assert choose([half, trial(0.4, 0.2)], BEFORE) == (1, True), "whatever numbers it has"


def test_a_trial_is_the_mean_over_its_seeds() -> None:
    one = Measured(seed=1, forget_hr=0.1, retain_ndcg=0.3, unlearn_seconds=2.0, validate_seconds=1.0)
    other = Measured(seed=2, forget_hr=0.3, retain_ndcg=0.1, unlearn_seconds=4.0, validate_seconds=1.0)
    both = mean_trial({"lr": 1}, [one, other])
    assert (both.forget_hr, both.retain_ndcg, both.seconds, both.diverged) == (0.2, 0.2, 8.0, False)
    broken = Measured(seed=3, forget_hr=None, retain_ndcg=None, unlearn_seconds=5.0, diverged=True)
    lost = mean_trial({"lr": 1}, [one, broken])
    assert (lost.forget_hr, lost.retain_ndcg, lost.seconds, lost.diverged) == (None, None, 8.0, True)


def test_a_seed_that_misses_the_constraint_may_be_carried_by_another() -> None:
    """The constraint is on means: a trial is one configuration, not one run."""
    seeds = [Measured(seed=s, forget_hr=0.1, retain_ndcg=v) for s, v in ((1, 0.17), (2, 0.22))]
    assert is_feasible(mean_trial({}, seeds), BEFORE)
