"""Friedman's test over blocks (task × backbone), its post-hocs and the critical-difference diagram (Demšar 2006).

From ten blocks up only, as the chi-square is off below, and always this test: one that is picked by a look at the data
(a normality check, say) changes with every block that is added.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.paired import FloatArray, holm, never_zero


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


def friedman(scores: ArrayLike) -> Friedman:
    """Friedman's test and Siegel and Castellan's comparisons of all pairs, Holm-corrected.

    Args:
        scores: [blocks, methods] one number per block and method (a mean over seeds), turned so that larger is better,
            without gaps: a method that lacks a block cannot be ranked in it. At least three methods.

    The pairs' z takes the variance of untied ranks; ties make the true one smaller, so it errs to the safe side.
    """
    from scikit_posthocs import posthoc_siegel_friedman
    from scipy.stats import friedmanchisquare, rankdata

    values = np.asarray(scores, dtype=np.float64)
    methods = values.shape[1]
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
    return Friedman(statistic=statistic, p=p, mean_ranks=ranks.mean(axis=0), posthoc=posthoc)


SALT = "genrec-unlearn-bench"
"""Element ids of the SVG are hashed with it instead of a random number."""


def critical_difference(
    found: Friedman, names: Sequence[str], form: Literal["svg", "pdf"], *, alpha: float = 0.05
) -> bytes:
    """Draw the diagram, rank 1 on the left.

    Args:
        found: From :func:`friedman`.
        names: [M] one per method, none twice.
        alpha: Level of the Holm-corrected post-hocs; pairs above it are joined by a bar.
    """
    import pandas as pd
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from scikit_posthocs import critical_difference_diagram

    # The bars are drawn in the order of a set: of numbers it is the same in every process, of names it is not.
    numbers = range(len(names))
    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9.0}):
        figure = Figure(figsize=(7.0, 1.0 + 0.26 * len(names)))
        axes = figure.subplots()
        drawn = critical_difference_diagram(
            pd.Series(found.mean_ranks, index=numbers),
            pd.DataFrame(found.posthoc, index=numbers, columns=numbers),
            alpha=alpha,
            ax=axes,
            label_fmt_left="{label}",
            label_fmt_right="{label}",
            label_props={"parse_math": False},
            elbow_props={"color": "0.45", "linewidth": 0.9},
            marker_props={"color": "black", "s": 12},
        )
        for label in drawn["labels"]:
            number = int(label.get_text())
            name, rank = names[number], f"({found.mean_ranks[number]:.2f})"
            label.set_text(f"{name} {rank}" if label.get_horizontalalignment() == "right" else f"{rank} {name}")
            label.set_color("black")
        file = io.BytesIO()
        dated = ("Date", "Creator") if form == "svg" else ("CreationDate", "Creator", "Producer")
        figure.savefig(file, format=form, bbox_inches="tight", metadata=dict.fromkeys(dated))
    return file.getvalue()
