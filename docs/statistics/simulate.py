"""Measures how often our statistics, and some that are in use, are wrong where the truth is known.

``python -m docs.statistics.simulate`` from the repository's root: writes error-rates.csv beside this file, in about a
minute on one thread, the same each time. docs/statistics.md reads it; tests/reporting/statistics/null_worlds.py says
what a world is.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import product
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict, margin, tosts
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, holm, paired_tests, sign_flip
from genrec_unlearn_bench.reporting.statistics.users import compare_users
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import SEEDS, USER_NOISE, USERS, WORLDS, World, user_table

FloatArray = NDArray[np.float64]
Row = tuple[str, str, str, int, int, float]
"""(table, what, world, seeds, repeats, value)."""

ALPHA = 0.05
METHODS = 8
PAIRS = 20_000
FAMILIES = 5_000
RESAMPLES = 2_000


def paired_t(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    return paired_tests(first - second).p <= ALPHA


def flipped(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    return sign_flip(first - second) <= ALPHA


def welch(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    from scipy.stats import ttest_ind

    return np.asarray(ttest_ind(first, second, axis=1, equal_var=False).pvalue <= ALPHA)


def user_level(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    """A test over the users of values averaged over seeds, as retrieval tools offer it.

    With 5,000 users its z needs no users drawn: the mean difference over its standard error, whose estimate is spread
    like the root of a chi-square.
    """
    generator = numpy_generator(0, "users' standard errors", first.shape[1])
    spread = np.sqrt(generator.chisquare(USERS - 1, size=len(first)) / (USERS - 1))
    error = USER_NOISE * sqrt(2.0 / (USERS * first.shape[1])) * spread
    return np.asarray(np.abs((first - second).mean(axis=1)) > 1.959964 * error)


def bootstrap(first: FloatArray, second: FloatArray) -> NDArray[np.bool_]:
    """A 95 % percentile bootstrap interval over seeds: all resamples up to five seeds, 2,000 drawn ones beyond."""
    differences = first - second
    seeds = differences.shape[1]
    if seeds <= 5:
        drawn = np.array(list(product(range(seeds), repeat=seeds)))
    else:
        drawn = numpy_generator(0, "resamples").integers(0, seeds, size=(RESAMPLES, seeds))
    weights = np.stack([(drawn == seed).mean(axis=1) for seed in range(seeds)])
    low, high = np.concatenate(
        [
            np.quantile(part @ weights, [0.025, 0.975], axis=1, method="inverted_cdf")
            for part in np.array_split(differences, 20)
        ],
        axis=1,
    )
    return (low > 0) | (high < 0)


PRACTICES: dict[str, Callable[[FloatArray, FloatArray], NDArray[np.bool_]]] = {
    "paired t (ours)": paired_t,
    "sign flip (beside it)": flipped,
    "Welch's t": welch,
    "user-level test": user_level,
    "percentile bootstrap": bootstrap,
}


def single_pairs() -> Iterator[Row]:
    """Two methods: how often each practice calls them different, equal or not."""
    correlated = tuple(World(0.005, seeds, shared=0.7) for seeds in SEEDS)
    for world in (*WORLDS, *correlated):
        label = f"seed sd {world.seed_sd}" + (f", {world.shared} of its variance shared" if world.shared else "")
        for shift in (0.0, 0.005, 0.01):
            values = world.runs(numpy_generator(1, "pairs", world.name, str(shift)), PAIRS, np.array([shift, 0.0]))
            table = "equal pair" if shift == 0.0 else f"power at {shift}"
            for name, practice in PRACTICES.items():
                if shift == 0.0 or name in ("paired t (ours)", "sign flip (beside it)", "Welch's t"):
                    rate = float(practice(values[:, 0], values[:, 1]).mean())
                    yield table, name, label, world.seeds, PAIRS, rate


def corrected(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(plain, Holm-corrected) p of [repeats, family, seeds]."""
    p = paired_tests(differences.reshape(-1, differences.shape[2])).p.reshape(differences.shape[:2])
    return p, np.stack([holm(row) for row in p])


def families() -> Iterator[Row]:
    """Eight equal methods: at least one wrong claim; and the power for one good method among them."""
    first, second = np.triu_indices(METHODS, 1)
    for world in WORLDS:
        place = (f"seed sd {world.seed_sd}", world.seeds, FAMILIES)
        values = world.runs(numpy_generator(1, "families", world.name), FAMILIES, np.zeros(METHODS))
        pairs = values[:, first] - values[:, second]
        plain, adjusted = corrected(pairs)
        yield "eight equal, all pairs", "paired t, Holm (ours)", *place, float((adjusted <= ALPHA).any(axis=1).mean())
        yield "eight equal, all pairs", "paired t, uncorrected", *place, float((plain <= ALPHA).any(axis=1).mean())
        wrong = np.stack([user_level(values[:, i], values[:, j]) for i, j in zip(first, second, strict=True)])
        yield "eight equal, all pairs", "user-level, uncorrected", *place, float(wrong.any(axis=0).mean())
        plain, adjusted = corrected(values[:, 1:] - values[:, :1])
        yield (
            "eight equal, one baseline",
            "paired t, Holm (ours)",
            *place,
            float((adjusted <= ALPHA).any(axis=1).mean()),
        )
        yield "eight equal, one baseline", "paired t, uncorrected", *place, float((plain <= ALPHA).any(axis=1).mean())
        for shift in (0.005, 0.01, 0.02):
            lifted = values[:, 1:] - values[:, :1]
            lifted[:, 0] += shift
            _, adjusted = corrected(lifted)
            name = "one of seven against a baseline, Holm"
            yield f"power at {shift}", name, *place, float((adjusted[:, 0] <= ALPHA).mean())
        yield (
            "detectable difference",
            "one pair",
            *place[:2],
            0,
            detectable_difference(world.difference_sd, world.seeds),
        )
        least = detectable_difference(world.difference_sd, world.seeds, ALPHA / (METHODS - 1))
        yield "detectable difference", "family of seven, first step", *place[:2], 0, least


def beyond_the_assumptions() -> Iterator[Row]:
    """Equal means, but no normal distribution: where the t-test leans on more than it has."""
    for seeds in SEEDS:
        generator = numpy_generator(1, "odd worlds", seeds)
        shape = (PAIRS, seeds)
        steady = generator.normal(0.0, 0.001, size=(2, *shape))
        worlds = {
            "heavy tails (t with 3 df) in both": 0.003 * generator.standard_t(3, size=(2, *shape)),
            "skewed seeds (exponential) in both": 0.005 * generator.exponential(size=(2, *shape)),
            "skewed seeds (exponential) in one of the two": steady
            + 0.005 * (generator.exponential(size=(2, *shape)) - 1.0) * np.array([1.0, 0.0])[:, None, None],
            "rare hits: 400 rows, HR .005": generator.binomial(400, 0.005, size=(2, *shape)) / 400,
            "hardly any hits: 400 rows, HR .0005": generator.binomial(400, 0.0005, size=(2, *shape)) / 400,
        }
        for name, (first, second) in worlds.items():
            for practice in ("paired t (ours)", "sign flip (beside it)"):
                rate = float(PRACTICES[practice](first, second).mean())
                yield "equal pair, odd seeds", practice, name, seeds, PAIRS, rate


def equivalences() -> Iterator[Row]:
    """Retraining against itself and against a method that is off by the true margin (standard normal seeds)."""
    true = 1.959964 * sqrt(2.0)
    repeats = 5_000
    for seeds in (3, 4, 5, 10, 20):
        generator = numpy_generator(1, "equivalence", seeds)
        oracle, method = generator.normal(size=(2, repeats, seeds))
        margins = [margin(row) for row in oracle]
        yield "margin / true margin", "mean", "normal seeds", seeds, repeats, float(np.mean(margins)) / true
        for name, shift in (
            ("another retraining", 0.0),
            ("off by half the true margin", true / 2),
            ("off by it", true),
        ):
            found = [
                tosts((shift + ours - theirs)[np.newaxis], room)[0].verdict
                for ours, theirs, room in zip(method, oracle, margins, strict=True)
            ]
            for verdict in (Verdict.EQUIVALENT, Verdict.DIFFERENT):
                rate = sum(one is verdict for one in found) / repeats
                yield f"called {verdict.value}", name, "normal seeds", seeds, repeats, rate


def clustered_users() -> Iterator[Row]:
    """Two equal checkpoints where a user has one to eight rows that agree in part."""
    repeats = 3_000
    for shared in (0.0, 0.25, 0.5):
        generator = numpy_generator(1, "clustered users", str(shared))
        by_user, by_row, covered = 0, 0, 0
        for repeat in range(repeats):
            differences, users = user_table(generator, users=300, rows=8, shared=shared)
            zeros = np.zeros(len(users))
            found = compare_users(differences, zeros, users, seed=repeat, permutations=199)
            rows = compare_users(differences, zeros, np.arange(len(users)), seed=repeat, permutations=199)
            by_user, by_row = by_user + (found.p <= ALPHA), by_row + (rows.p <= ALPHA)
            covered += found.low <= 0.0 <= found.high
        world = f"share of variance common to a user's rows {shared}"
        yield "equal checkpoints", "signs flipped by user (ours)", world, 1, repeats, by_user / repeats
        yield "equal checkpoints", "signs flipped by row", world, 1, repeats, by_row / repeats
        yield "equal checkpoints", "interval misses 0 (ours)", world, 1, repeats, 1.0 - covered / repeats


def main() -> None:
    rows = [
        row
        for part in (single_pairs, families, beyond_the_assumptions, equivalences, clustered_users)
        for row in part()
    ]
    with (Path(__file__).parent / "error-rates.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("table", "what", "world", "seeds", "repeats", "value"))
        writer.writerows((*row[:-1], f"{row[-1]:.4f}") for row in rows)


if __name__ == "__main__":
    main()
