"""What an attack did to held-out interactions, step by step, and how that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import Measured
from genrec_unlearn_bench.evaluation.relearning.attacks import Attack, Space

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PARTS", "Trace", "exact_interval"]

PARTS = ("train", "test")
"""The held-out interactions that were forgotten, and future ones."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Hits on held-out interactions while an attack goes on.

    Attributes:
        planned: [P] steps at which the model was to be scored.
        passes: [P] passes over the attack's data until then (``AttackSet.passes``).
        train: [S, n] whether each held-out train interaction was hit, at the first S planned steps; later ones were
            not allowed.
        test: [S, m] the same of held-out test interactions.
        targets: [n] items of the held-out train interactions, by which two traces are known to be of the same ones.
    """

    planned: IntArray
    passes: NDArray[np.float64]
    train: BoolArray
    test: BoolArray
    targets: IntArray

    @property
    def steps(self) -> IntArray:
        """[S] the steps that were taken and scored."""
        return self.planned[: len(self.train)]

    def measured(self, attack: Attack, space: Space) -> Measured:
        """For storage: the published curve, and the hits."""
        samples: dict[str, NDArray[np.generic]] = {
            "planned": self.planned,
            "passes": self.passes,
            "train": self.train,
            "test": self.test,
            "targets": self.targets,
        }
        return Measured(curve=self._curve(attack, space), samples=samples)

    @classmethod
    def of(cls, measured: Measured) -> Trace:
        """The inverse of ``measured``."""
        found = measured.samples
        return cls(
            planned=np.asarray(found["planned"], dtype=np.int64),
            passes=np.asarray(found["passes"], dtype=np.float64),
            train=np.asarray(found["train"], dtype=np.bool_),
            test=np.asarray(found["test"], dtype=np.bool_),
            targets=np.asarray(found["targets"], dtype=np.int64),
        )

    def _curve(self, attack: Attack, space: Space) -> pd.DataFrame:
        """One row for each part and planned step; no rate where it was not allowed, or nothing is held out."""
        import pandas as pd

        rows = []
        for part, hits in zip(PARTS, (self.train, self.test), strict=True):
            n = hits.shape[1]
            for index, (step, passes) in enumerate(zip(self.planned.tolist(), self.passes.tolist(), strict=True)):
                known = index < len(hits) and n > 0
                found = int(hits[index].sum()) if known else 0
                low, high = exact_interval(found, n) if known else (np.nan, np.nan)
                rate = found / n if known else np.nan
                rows.append((str(attack), str(space), step, passes, part, rate, low, high, n))
        columns = ["attack", "space", "step", "passes", "part", "hr@10", "low", "high", "n"]
        return pd.DataFrame(rows, columns=columns)


def exact_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate (Clopper & Pearson 1934)."""
    from scipy.stats import binomtest

    interval = binomtest(hits, n).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)
