"""The tuning rule on planted numbers."""

from __future__ import annotations

import math
from math import comb

import pytest

from genrec_unlearn_bench.tuning.rule import (
    Measured,
    Trial,
    choose,
    higher_than,
    is_feasible,
    mean_trial,
    sign_flip_p,
    worst_case,
)

USERS = 1000


def trial(forget: float | None, retain: float | None) -> Trial:
    """A trial without kept rows: every difference in forgetting counts."""
    diverged = forget is None
    return mean_trial({}, [Measured(seed=9000, forget_hr=forget, retain_ndcg=retain, diverged=diverged)])


def found(
    hits: range | list[int], retain: float, *, exposed: range | None = None, near: float | None = None, seed: int = 1
) -> Trial:
    """A trial that still recommends these users' targets among 1,000 forget rows, one of each user."""
    return mean_trial({}, [measured(hits, retain, exposed=exposed, near=near, seed=seed)])


def measured(
    hits: range | list[int], retain: float, *, exposed: range | None = None, near: float | None = None, seed: int = 1
) -> Measured:
    return Measured(
        seed=seed,
        forget_hr=len(hits) / USERS,
        retain_ndcg=retain,
        forget_hits=tuple(hits),
        exposed_hr=None if exposed is None else len(exposed) / USERS,
        exposed_hits=None if exposed is None else tuple(exposed),
        near_ndcg=near,
    )


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
    assert choose([trial(0.1 + 1e-8, 0.21), trial(0.1, 0.2)], BEFORE) == (1, True), "without rows, that is a difference"


def test_of_those_that_cannot_be_told_apart_from_the_lowest_the_best_retain_is_taken() -> None:
    lowest, near_tie, clearly_higher = found(range(10), 0.195), found(range(14), 0.21), found(range(40), 0.3)
    assert not higher_than(near_tie, lowest), "p = 1/16"
    assert higher_than(clearly_higher, lowest), "p = 1/2**30"
    assert choose([lowest, clearly_higher, near_tie], BEFORE) == (2, True)
    told = found(range(15), 0.21)
    assert higher_than(told, lowest), "p = 1/32"
    assert choose([lowest, told], BEFORE) == (0, True)


def test_the_test_is_paired_by_user() -> None:
    """Ten more hits are much if the other rows agree, and nothing if they are other people's."""
    lowest, same, others = found(range(100), 0.2), found(range(110), 0.25), found(range(500, 610), 0.25)
    assert worst_case(same) == worst_case(others)
    assert higher_than(same, lowest)
    assert not higher_than(others, lowest)
    assert choose([lowest, same], BEFORE) == (0, True)
    assert choose([lowest, others], BEFORE) == (1, True)


def test_the_p_value_is_exact() -> None:
    assert sign_flip_p([1] * 5) == pytest.approx(1 / 32)
    assert sign_flip_p([]) == 1.0
    assert sign_flip_p([0, 0]) == 1.0
    # McNemar's: at least 9 of 12 coins.
    assert sign_flip_p([1] * 9 + [-1] * 3) == pytest.approx(sum(comb(12, k) for k in (9, 10, 11, 12)) / 2**12)
    # Sums of ±2 ±1 ±1 of at least 2: 4, 2, 2 of eight.
    assert sign_flip_p([2, 1, -1]) == pytest.approx(3 / 8)
    assert 0.5 < sign_flip_p([1] * 2500 + [-1] * 2500) < 0.51, "as many users as the largest validation part"


def test_users_of_several_rows_and_seeds_are_one_unit() -> None:
    lowest = mean_trial({}, [measured([], 0.2), measured([], 0.2, seed=2)])
    one_user = mean_trial({}, [measured([7] * 5, 0.2), measured([7] * 5, 0.2, seed=2)])
    assert not higher_than(one_user, lowest), "ten hits of one user are one coin"
    five_users = mean_trial({}, [measured(range(5), 0.2), measured(range(5), 0.2, seed=2)])
    assert higher_than(five_users, lowest)


def test_forgetting_is_the_worse_of_served_and_exposed() -> None:
    relabelled = found(range(0), 0.3, exposed=range(400))
    honest = found(range(20), 0.2, exposed=range(10))
    assert (worst_case(relabelled), worst_case(honest)) == (0.4, 0.02)
    assert choose([relabelled, honest], BEFORE) == (1, True)
    assert higher_than(relabelled, honest), "tested on the rows of its worse side"
    assert worst_case(trial(None, None)) is None


def test_nine_tenths_must_be_left_near_the_concept_where_it_was_measured() -> None:
    before = found(range(500), 0.2, near=0.1)
    destroyed, kept = found(range(0), 0.2, near=0.0899), found(range(100), 0.2, near=0.09)
    assert not is_feasible(destroyed, before)
    assert is_feasible(kept, before)
    assert choose([destroyed, kept], before) == (1, True)
    assert not is_feasible(found(range(0), 0.2), before), "what was not measured was not kept"
    assert is_feasible(destroyed, BEFORE), "no rows near the concept"


def test_where_none_keeps_enough_the_nearest_is_taken_and_flagged() -> None:
    trials = [trial(0.0, 0.1), trial(0.4, 0.19), trial(0.1, 0.19)]
    assert choose(trials, BEFORE) == (1, False)
    before = found(range(500), 0.2, near=0.1)
    # .95 / .97 of retain, against .5 / .9 of retain-near.
    assert choose([found([], 0.2, near=0.05), found([], 0.19, near=0.1)], before) == (1, False)


def test_what_diverged_or_is_not_a_number_is_never_taken() -> None:
    assert choose([trial(None, None), trial(0.4, 0.1)], BEFORE) == (1, False)
    assert choose([trial(None, None), trial(None, None)], BEFORE) is None
    half = trial(0.0, 0.3).model_copy(update={"diverged": True})
    assert choose([half, trial(0.4, 0.2)], BEFORE) == (1, True), "whatever numbers it has"
    for forget, retain in ((math.nan, 0.3), (0.0, math.nan), (math.nan, math.nan)):
        assert choose([trial(forget, retain), trial(0.4, 0.2)], BEFORE) == (1, True)
        assert choose([trial(forget, retain)], BEFORE) is None
    assert not is_feasible(found([], 0.2, near=math.nan), found([], 0.2, near=0.1))


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
