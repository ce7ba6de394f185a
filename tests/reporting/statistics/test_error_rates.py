"""How often the statistics of the tables are wrong where the truth is known: the reason to believe the tables.

Every rate has to lie in its binomial band; docs/statistics.md has the same rates at more repeats, and power.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict, tosts
from genrec_unlearn_bench.reporting.statistics.paired import holm, paired_tests, sign_flip, t_interval
from genrec_unlearn_bench.reporting.statistics.ranks import rank_intervals
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import WORLDS, World, band

ALPHA = 0.05
METHODS = 8
FIRST, SECOND = np.triu_indices(METHODS, 1)

pytestmark = pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"sd {world.seed_sd} x {world.seeds}")


def corrected(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """[repeats, family] Holm-corrected p of [repeats, family, seeds] differences."""
    repeats, family, seeds = differences.shape
    p = paired_tests(differences.reshape(-1, seeds)).p.reshape(repeats, family)
    return np.stack([holm(row) for row in p])


def test_two_equal_methods_are_called_different_one_time_in_twenty(world: World) -> None:
    repeats = 10_000
    values = world.runs(numpy_generator(0, "pair", world.name), repeats, np.zeros(2))
    found = paired_tests(values[:, 0] - values[:, 1])
    low, high = band(ALPHA, repeats)
    assert low <= (found.p <= ALPHA).mean() <= high
    # The interval and the p-value tell the same story.
    assert np.array_equal((found.low > 0) | (found.high < 0), found.p < ALPHA)


def test_the_sign_flip_errs_no_more_often(world: World) -> None:
    repeats = 4_000
    values = world.runs(numpy_generator(0, "sign flip", world.name), repeats, np.zeros(2))
    rate = (sign_flip(values[:, 0] - values[:, 1]) <= ALPHA).mean()
    assert rate <= band(ALPHA, repeats)[1]
    if world.seeds < 6:
        assert rate == 0.0  # it cannot reach 5 %, which is why the table says "underpowered"


def test_a_cells_interval_covers_the_methods_value_on_these_users(world: World) -> None:
    repeats = 10_000
    values = world.runs(numpy_generator(0, "cell", world.name), repeats, np.zeros(1), user_level=0.0)[:, 0]
    found = t_interval(values)
    low, high = band(0.95, repeats)
    assert low <= ((found.low <= 0) & (found.high >= 0)).mean() <= high


def test_eight_equal_methods_all_pairs(world: World) -> None:
    repeats = 3_000
    values = world.runs(numpy_generator(0, "all pairs", world.name), repeats, np.zeros(METHODS))
    wrong = (corrected(values[:, FIRST] - values[:, SECOND]) <= ALPHA).any(axis=1).mean()
    assert wrong <= band(ALPHA, repeats)[1]


def test_eight_equal_methods_all_against_one_on_two_metrics(world: World) -> None:
    repeats = 3_000
    values = world.runs(numpy_generator(0, "baseline", world.name), repeats, np.zeros(METHODS))
    other = world.runs(numpy_generator(0, "baseline, second metric", world.name), repeats, np.zeros(METHODS))
    # Metrics of one run are correlated; .8 is about what HR@10 and NDCG@10 have.
    other = 0.8 * values + 0.6 * other
    family = np.concatenate([values[:, 1:] - values[:, :1], other[:, 1:] - other[:, :1]], axis=1)
    assert family.shape == (repeats, 2 * (METHODS - 1), world.seeds)
    assert (corrected(family) <= ALPHA).any(axis=1).mean() <= band(ALPHA, repeats)[1]


def test_true_ranks_lie_in_their_intervals(world: World) -> None:
    repeats = 1_000
    truth = np.array([0.0, 0.0, 0.0, 0.004, 0.004, 0.01, 0.02, 0.02])
    values = world.runs(numpy_generator(0, "ranks", world.name), repeats, truth)
    p = corrected(values[:, FIRST] - values[:, SECOND])
    means = values.mean(axis=2)
    # Tied methods share their ranks: all of them from the first to the last are true.
    best = 1 + (truth[:, None] < truth[None, :]).sum(axis=1)
    worst = (truth[:, None] <= truth[None, :]).sum(axis=1)
    covered = 0
    for row, mean in zip(p, means, strict=True):
        better = np.zeros((METHODS, METHODS), dtype=bool)
        ahead = mean[FIRST] > mean[SECOND]
        better[FIRST, SECOND] = (row <= ALPHA) & ahead
        better[SECOND, FIRST] = (row <= ALPHA) & ~ahead
        intervals = rank_intervals(better)
        covered += bool(np.all((intervals[:, 0] <= best) & (intervals[:, 1] >= worst)))
    assert covered / repeats >= band(0.95, repeats)[0]


def test_a_method_at_the_margin_is_called_equivalent_one_time_in_twenty(world: World) -> None:
    repeats, room = 2_000, 0.01
    values = world.runs(numpy_generator(0, "equivalence", world.name), repeats, np.array([room, 0.0]))
    verdicts = [found.verdict for found in tosts(values[:, 0] - values[:, 1], room)]
    low, high = band(ALPHA, repeats)
    assert low <= np.mean([verdict is Verdict.EQUIVALENT for verdict in verdicts]) <= high
    assert np.mean([verdict is Verdict.DIFFERENT for verdict in verdicts]) <= band(ALPHA / 2, repeats)[1]


def test_without_a_margin_to_speak_of_an_equal_method_is_called_different_one_time_in_twenty(world: World) -> None:
    repeats = 2_000
    values = world.runs(numpy_generator(0, "no margin", world.name), repeats, np.zeros(2))
    verdicts = [found.verdict for found in tosts(values[:, 0] - values[:, 1], 0.0)]
    low, high = band(ALPHA, repeats)
    assert low <= np.mean([verdict is Verdict.DIFFERENT for verdict in verdicts]) <= high
    assert Verdict.EQUIVALENT not in verdicts
