"""The critical-difference diagram (Demšar 2006): mean ranks on a line, bars under what the post-hocs do not separate.

scikit-posthocs draws it; here is what makes the same numbers the same bytes, and odd names harmless.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.friedman import Friedman

__all__ = ["Diagram", "critical_difference"]

SALT = "genrec-unlearn-bench"
"""Element ids of the SVG are hashed with it instead of a random number."""
ROW_INCHES = 0.26
WIDTH_INCHES = 7.0


@dataclass(frozen=True)
class Diagram:
    """One drawing, as text for pages and as PDF for papers."""

    svg: str
    pdf: bytes


def critical_difference(found: Friedman, names: Sequence[str], *, alpha: float = 0.05) -> Diagram:
    """Draw it, rank 1 on the left.

    Args:
        found: From :func:`friedman`.
        names: [M] one per method, as they shall be read; any characters, none twice.
        alpha: Level of the Holm-corrected post-hocs; pairs above it are joined by a bar.

    Raises:
        UsageError: not one name per method, or one twice.
    """
    if len(names) != len(found.mean_ranks) or len(set(names)) != len(names):
        raise UsageError("the diagram needs one name for every method, none twice", where=", ".join(names))
    import pandas as pd
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from scikit_posthocs import critical_difference_diagram

    # The bars are drawn in the order of a set: of numbers it is the same in every process, of names it is not.
    numbers = range(len(names))
    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9.0}):
        figure = Figure(figsize=(WIDTH_INCHES, 1.0 + ROW_INCHES * len(names)))
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
        svg, pdf = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        metadata = {"CreationDate": None, "Creator": None, "Producer": None}
        figure.savefig(pdf, format="pdf", bbox_inches="tight", metadata=metadata)
    return Diagram(svg=svg.getvalue().decode("utf-8"), pdf=pdf.getvalue())
