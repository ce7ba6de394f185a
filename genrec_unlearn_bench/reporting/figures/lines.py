"""Panels of lines with bands: probing by layer, attacks by step, streams by request, sweeps by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.figures.figure import Panel, Series
from genrec_unlearn_bench.reporting.figures.frame import canvas, columns, legend, place_panels
from genrec_unlearn_bench.reporting.figures.style import Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["draw_lines"]

SECOND = (3.2, 1.6)
"""Dashes of a second variant."""
BAND = 0.1
"""Opacity of a band."""
STEP = 0.07
"""Between marks that stand apart."""


def draw_lines(panels: Sequence[Panel], width: Width, *, variants: tuple[str, str] = ("", "")) -> Canvas:
    """The panels side by side, with one legend below.

    Args:
        variants: What solid and dashed lines are, where there are both.
    """
    figure, grid = canvas(len(panels), width)
    across = columns(len(panels), width)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        for place, series in enumerate(panel.series):
            shift = STEP * (place - (len(panel.series) - 1) / 2.0) if panel.apart else 0.0
            _draw(axes, series, shift, whiskers=panel.apart or len(series.x) == 1)
        _frame(axes, panel, first=number % across == 0 or panel.ylabel != panels[number - 1].ylabel)
    place_panels(grid, panels)
    legend(figure, [series for panel in panels for series in panel.series], width, variants=variants)
    return figure


def _draw(axes: Axes, series: Series, shift: float, *, whiskers: bool) -> None:
    look = series.look
    places = [x + shift for x in series.x]
    means = [each.mean for each in series.y]
    if series.second:
        style: object = (0.0, SECOND)
    else:
        style = (0.0, look.dash) if look.dash else "-"
    # A line without marks would be nothing where there is one point.
    marker = look.marker or ("_" if len(places) == 1 else None)
    shape = {"marker": marker, "markerfacecolor": "white" if series.second else look.colour}
    axes.plot(
        places,
        means,
        color=look.colour,
        linewidth=look.width,
        linestyle=style,
        markeredgecolor=look.colour,
        markeredgewidth=0.8,
        zorder=look.order + (0.0 if series.second else 0.1),
        **shape,  # type: ignore[arg-type]
    )
    banded = [(x, each) for x, each in zip(places, series.y, strict=True) if each.banded]
    if whiskers or len(banded) < 2:
        for x, each in banded:
            axes.plot([x, x], [each.low, each.high], color=look.colour, linewidth=0.8, zorder=look.order)
        return
    axes.fill_between(
        [x for x, _ in banded],
        [each.low for _, each in banded],
        [each.high for _, each in banded],
        color=look.colour,
        alpha=BAND,
        linewidth=0.0,
        zorder=look.order - 1.0,
    )


def _frame(axes: Axes, panel: Panel, *, first: bool) -> None:
    axes.set_title(panel.title, loc="left", pad=3.0)
    axes.set_xlabel(panel.xlabel, labelpad=1.5)
    if first:
        axes.set_ylabel(panel.ylabel, labelpad=2.0)
    if panel.band is not None:
        axes.axhspan(*panel.band, color="#000000", alpha=0.08, linewidth=0.0, zorder=0.0)
    if panel.line is not None:
        axes.axhline(panel.line, color="#000000", linewidth=0.6, linestyle=(0.0, (1.0, 2.0)), zorder=0.5)
    if panel.symlog:
        axes.set_xscale("symlog", linthresh=panel.symlog, linscale=0.5)
        # Powers as plain numbers: the figures' texts are not read as mathematics.
        axes.xaxis.set_major_formatter(lambda x, place: f"{x:g}")
    if panel.ticks:
        shown = _apart(panel)
        axes.set_xticks([x for x, _ in shown], [name for _, name in shown])
        axes.set_xticks([x for x, _ in panel.ticks], minor=True)
        axes.tick_params(axis="x", which="minor", length=1.5, width=0.5, labelbottom=False)
    axes.set_ylim(*panel.ylim)


def _apart(panel: Panel) -> list[tuple[float, str]]:
    """Ticks whose names have room beside each other: on a log scale the last ones would touch."""
    if not panel.symlog:
        return list(panel.ticks)
    out: list[tuple[float, str]] = []
    for x, name in panel.ticks:
        here = math.log10(max(x, panel.symlog))
        # Zero has the linear part to itself.
        if not out or x == 0.0 or here - math.log10(max(out[-1][0], panel.symlog / 10.0)) >= 0.45:
            out.append((x, name))
    if out[-1] != panel.ticks[-1]:
        # The end of an attack is what a reader looks for.
        close = math.log10(panel.ticks[-1][0] / max(out[-1][0], panel.symlog)) < 0.45
        out = [*(out[:-1] if close and len(out) > 1 else out), panel.ticks[-1]]
    return out
