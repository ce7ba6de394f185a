"""Seeds and users without a model: worlds in which the truth about every method is known.

A run's metric is the mean over 5,000 test users of

    method + user's own level (sd .30, the same in every run) + noise of this user in this run (sd .12) + seed effect.

The user's level is shared by all methods and seeds, since all are measured on the same test rows: it correlates the
methods and cancels in every paired difference. The noise and the seed effects are independent between runs, so a mean
carries .12 / sqrt(5,000) = .0017 of user noise beside the seed's own spread. Independent seed effects are the hard
case: what a seed does to all methods alike (they start from one original model) cancels as well and makes pairing pay.
What a method does to one user alike in every seed is part of the method's true value on these users, which is what a
table on a fixed test set claims; a null of equal methods therefore has none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

SEED_SDS = (0.0, 0.002, 0.005)
SEEDS = (3, 5, 10)
USERS = 5_000
USER_NOISE = 0.12
USER_LEVEL = 0.30


@dataclass(frozen=True)
class World:
    """Where equal or unequal methods are trained and measured again and again."""

    seed_sd: float
    seeds: int
    shared: float = 0.0
    """Share of the seed effects' variance that all methods have in common."""

    def runs(
        self, generator: np.random.Generator, repeats: int, truth: FloatArray, *, user_level: float = USER_LEVEL
    ) -> FloatArray:
        """[repeats, methods, seeds] of metric values; ``truth`` [methods]."""
        shape = (repeats, len(truth), self.seeds)
        level = generator.normal(0.0, user_level / sqrt(USERS), size=(repeats, 1, 1))
        noise = generator.normal(0.0, USER_NOISE / sqrt(USERS), size=shape)
        seed = generator.normal(0.0, 1.0, size=shape) * sqrt(1.0 - self.shared)
        if self.shared:
            seed += generator.normal(0.0, sqrt(self.shared), size=(repeats, 1, self.seeds))
        return truth[None, :, None] + level + noise + self.seed_sd * seed

    @property
    def name(self) -> str:
        """Of its stream of random numbers."""
        return f"{self.seed_sd}, {self.seeds}" + (f", {self.shared}" if self.shared else "")

    @property
    def difference_sd(self) -> float:
        """True standard deviation, over seeds, of the difference between two methods."""
        return sqrt(2.0 * (USER_NOISE**2 / USERS + (1.0 - self.shared) * self.seed_sd**2))


WORLDS = tuple(World(seed_sd, seeds) for seed_sd in SEED_SDS for seeds in SEEDS)


def band(rate: float, repeats: int, *, outside: float = 1e-4) -> tuple[float, float]:
    """The shares between which ``repeats`` draws of a coin with that rate fall but for ``outside`` of all cases.

    Wide enough that a table of a dozen honest rates stays inside, and it is drawn with fixed seeds, so it stays.
    """
    from scipy.stats import binom

    low, high = binom.ppf([outside / 2, 1 - outside / 2], repeats, rate)
    return float(low) / repeats, float(high) / repeats


def user_table(
    generator: np.random.Generator, *, users: int, rows: int, shared: float, noise: float = 0.12
) -> tuple[FloatArray, NDArray[np.int64]]:
    """(differences [M], users [M]) of two equal checkpoints, where one user's rows agree in part.

    Args:
        users: How many.
        rows: Each has 1 to ``rows`` of them.
        shared: Share of a difference's variance that a user's rows have in common.
    """
    counts = generator.integers(1, rows + 1, size=users)
    clusters = np.repeat(np.arange(users), counts)
    own = generator.normal(0.0, noise * sqrt(1.0 - shared), size=len(clusters))
    return own + generator.normal(0.0, noise * sqrt(shared), size=users)[clusters], clusters
