"""Panels of one mark a row with its interval, rows below each other by name: scores that have no order of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.figures.figure import Panel, Series
from genrec_unlearn_bench.reporting.figures.frame import canvas, columns
from genrec_unlearn_bench.reporting.figures.style import Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["draw_forest"]

ROW_INCHES = 0.165
LONGEST = 22
"""Letters of a name beside the axes."""


def draw_forest(
    panels: Sequence[Panel],
    labels: Sequence[str],
    width: Width,
    *,
    variants: tuple[str, str] = ("", ""),
    shared: bool = True,
) -> Canvas:
    """The panels; a name stands at the left of each line of panels.

    Args:
        variants: What filled and hollow marks are, where there are both.
        shared: Whether all panels have one range, as they show one quantity.
    """
    figure, grid = canvas(len(panels), width, height=0.62 + ROW_INCHES * len(labels))
    across = columns(len(panels), width)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        for series in panel.series:
            _draw(axes, series)
        if panel.line is not None:
            axes.axvline(panel.line, color="#000000", linewidth=0.6, linestyle=(0.0, (1.0, 2.0)), zorder=0.5)
        axes.set_title(panel.title, loc="left", pad=3.0)
        axes.set_xlabel(panel.xlabel, labelpad=1.5)
        axes.set_xlim(*_range(panels if shared else (panel,)))
        axes.set_ylim(len(labels) - 0.4, -0.6)
        names = [_cut(label) for label in labels] if number % across == 0 else [""] * len(labels)
        axes.set_yticks(range(len(labels)), names)
        axes.tick_params(axis="y", length=0.0)
        axes.yaxis.grid(visible=True, color="#E4E4E4", linewidth=0.5)
        axes.set_axisbelow(True)
    if any(series.second for panel in panels for series in panel.series):
        _legend(figure, variants)
    return figure


def _draw(axes: Axes, series: Series) -> None:
    look, (place,), (estimate,) = series.look, series.x, series.y
    at = place + (0.17 if series.second else 0.0)
    if estimate.banded:
        axes.plot((estimate.low, estimate.high), (at, at), color=look.colour, linewidth=0.9, zorder=1.5)
    axes.plot(
        [estimate.mean],
        [at],
        marker=look.marker or "o",
        markersize=4.0,
        color=look.colour,
        markerfacecolor="white" if series.second else look.colour,
        markeredgewidth=0.9,
        linestyle="",
        zorder=2.0,
    )


def _range(panels: Sequence[Panel]) -> tuple[float, float]:
    """A range for all panels, with chance in it."""
    numbers = [n for panel in panels for s in panel.series for y in s.y for n in (y.mean, y.low, y.high)]
    numbers = [*(n for n in numbers if math.isfinite(n)), *(panel.line for panel in panels if panel.line is not None)]
    low, high = min(numbers), max(numbers)
    room = max(0.05 * (high - low), 0.02)
    return low - room, high + room


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _legend(figure: Canvas, variants: tuple[str, str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color="#404040", marker="o", markersize=4.0, markerfacecolor=face, linestyle="")
        for face in ("#404040", "white")
    ]
    wide, tall = figure.get_size_inches()
    figure.set_size_inches(wide, tall + 0.2)
    figure.legend(handles, variants, loc="outside lower center", ncols=2, frameon=False, borderpad=0.0)
