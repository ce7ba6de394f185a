"""Do methods differ across tasks and backbones? Friedman's test over blocks, and which pairs do.

From ten blocks up only, and always this test: one that is picked by a look at the data (a normality check, say) changes
with every block that is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.differences import FloatArray, never_zero, table
from genrec_unlearn_bench.reporting.statistics.holm import holm

__all__ = ["LEAST_BLOCKS", "Friedman", "friedman"]

LEAST_BLOCKS = 10
"""What the protocol says; Friedman's chi-square is off below it (Demšar 2006 names the same number)."""


@dataclass(frozen=True, eq=False)
class Friedman:
    """Methods compared over complete blocks."""

    statistic: float
    """Friedman's chi-square, corrected for ties; 0 where every block is one tie."""
    p: float
    mean_ranks: FloatArray
    """[M] 1 = best in every block; ties share their mean rank."""
    posthoc: FloatArray
    """[M, M] p of every pair, Holm-corrected over all pairs, 1 on the diagonal."""
    blocks: int


def friedman(scores: ArrayLike, *, least_blocks: int = LEAST_BLOCKS) -> Friedman:
    """Friedman's test and Siegel and Castellan's comparisons of all pairs, Holm-corrected.

    Args:
        scores: [blocks, methods] one number per block and method (a mean over seeds), turned so that larger is better,
            without gaps: a method that lacks a block cannot be ranked in it.
        least_blocks: How many blocks the protocol asks for.

    The pairs' z takes the variance of untied ranks; ties make the true one smaller, so it errs to the safe side.

    Raises:
        UsageError: fewer blocks than the protocol's number, fewer than three methods, or a gap. All faults at once.
    """
    values = table(scores, "scores")
    _refuse(values, least_blocks)
    from scikit_posthocs import posthoc_siegel_friedman
    from scipy.stats import friedmanchisquare, rankdata

    blocks, methods = values.shape
    ranks = rankdata(-values, axis=1)
    if (ranks == ranks[:, :1]).all():
        # 0 / 0 for scipy: nothing but ties is no evidence of anything.
        statistic, p = 0.0, 1.0
    else:
        found = friedmanchisquare(*values.T)
        statistic, p = float(found.statistic), float(never_zero(found.pvalue))
    upper = np.triu_indices(methods, 1)
    raw = np.asarray(posthoc_siegel_friedman(ranks), dtype=np.float64)[upper]
    posthoc = np.ones((methods, methods))
    posthoc[upper] = holm(never_zero(raw))
    posthoc.T[upper] = posthoc[upper]
    return Friedman(statistic=statistic, p=p, mean_ranks=ranks.mean(axis=0), posthoc=posthoc, blocks=blocks)


def _refuse(values: FloatArray, least_blocks: int) -> None:
    blocks, methods = values.shape
    faults = []
    if blocks < least_blocks:
        faults.append(f"{blocks} blocks (task × backbone), the protocol asks for {least_blocks}")
    if methods < 3:
        faults.append(f"{methods} methods, ranks over blocks need three")
    if not np.isfinite(values).all():
        faults.append(f"{int((~np.isfinite(values)).sum())} gaps: every method has to be measured in every block")
    if faults:
        raise UsageError(
            "the methods cannot be compared across blocks: " + "; ".join(faults),
            hint="run the missing cells, or read the tables block by block",
        )
