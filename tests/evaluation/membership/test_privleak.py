"""PrivLeak against its formula, and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.membership.privleak import privleak
from genrec_unlearn_bench.evaluation.membership.roc import area


def pair(shift: float, seed: int, m: int = 300, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(shift, 1, m), generator.normal(0, 1, n)


def test_it_is_the_formula_of_muse() -> None:
    own, retrained = pair(1.0, 0), pair(0.1, 1)
    un, re = area(*own).value, area(*retrained).value
    assert privleak(own, retrained).value == pytest.approx(100 * ((1 - un) - (1 - re)) / (1 - re))


def test_the_sign_says_whether_too_little_or_too_much_was_unlearned() -> None:
    retrained = pair(0.0, 1)
    little, much = privleak(pair(1.5, 0), retrained), privleak(pair(-1.5, 0), retrained)
    assert little.high < 0 < much.low
    assert privleak((np.ones(30), np.zeros(30)), pair(0.0, 1, 30, 30)).value == pytest.approx(-100)


def test_a_model_beside_itself_is_at_zero_whatever_is_drawn() -> None:
    same = pair(0.7, 0)
    found = privleak(same, same)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_examples_are_drawn_together() -> None:
    """What both models share cancels, so that the interval is much narrower than with examples of their own."""
    generator = np.random.default_rng(0)
    own = pair(0.5, 0)
    near = tuple(side + generator.normal(0, 0.05, len(side)) for side in own)
    apart = privleak(own, pair(0.5, 9))
    together = privleak(own, (near[0], near[1]))
    assert together.high - together.low < (apart.high - apart.low) / 4


def test_the_interval_holds_the_truth() -> None:
    """Both models as good as each other: 0."""
    held = []
    for seed in range(60):
        own = pair(0.5, seed, 150, 100)
        generator = np.random.default_rng(1000 + seed)
        other = tuple(side + generator.normal(0, 0.5, len(side)) for side in own)
        noisy = tuple(side + generator.normal(0, 0.5, len(side)) for side in own)
        found = privleak((noisy[0], noisy[1]), (other[0], other[1]))
        held.append(found.low <= 0 <= found.high)
    assert np.mean(held) >= 0.85


def test_nothing_is_left_where_the_retrained_model_tells_all() -> None:
    with pytest.raises(ValueError, match="is 1"):
        privleak(pair(0.5, 0, 20, 20), (np.ones(20), np.zeros(20)))
