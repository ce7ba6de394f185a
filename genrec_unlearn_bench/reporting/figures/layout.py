"""Layout of figures: a canvas without a window, panels of lines or of marks by name, one legend below all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.reporting.figures.model import Panel, Series, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

__all__ = ["add_legend", "draw_forest", "draw_lines", "make_canvas"]

PANEL_INCHES = 1.55
"""Height of a panel with its title and labels."""
FOREST_INCHES, ROW_INCHES = 0.62, 0.165
"""Height of a panel of marks without its rows, and of each row."""
HEADROOM = 0.05
"""Above the highest mark, as a share of the range."""
SECOND = (3.2, 1.6)
"""Dashes of a second variant."""
BAND = 0.1
"""Opacity of a band."""
STEP = 0.07
"""Between marks that stand apart."""
LONGEST = 22
"""Letters of a name beside the axes."""
GREY = "#404040"
DOTTED: dict[str, Any] = {"color": "#000000", "linewidth": 0.6, "linestyle": (0.0, (1.0, 2.0)), "zorder": 0.5}


def make_canvas(panels: int, width: Width, *, height: float = PANEL_INCHES) -> tuple[Canvas, list[Axes]]:
    """A figure with so many axes; a legend adds to its height what stands below them."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = _columns(panels, width)
    down = math.ceil(panels / across)
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.03, hspace=0.05)
    figure = Canvas(figsize=(width.inches, height * down), layout=layout)
    grid = [axes for row in figure.subplots(down, across, squeeze=False) for axes in row]
    for axes in grid[panels:]:
        axes.set_axis_off()
    return figure, grid[:panels]


def add_legend(figure: Canvas, handles: Sequence[Line2D], labels: Sequence[str], columns: int, **options: Any) -> None:
    """A legend without a frame below all axes."""
    settings = {"columnspacing": 1.0, "handletextpad": 0.4, "labelspacing": 0.25, "borderaxespad": 0.2, **options}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, borderpad=0.0, **settings)


def draw_lines(panels: Sequence[Panel], width: Width, *, variants: tuple[str, str] = ("", "")) -> Canvas:
    """Panels of lines with bands, with one legend below.

    Args:
        variants: What solid and dashed lines are, where there are both.
    """
    figure, grid = make_canvas(len(panels), width)
    across = _columns(len(panels), width)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        for place, series in enumerate(panel.series):
            shift = STEP * (place - (len(panel.series) - 1) / 2.0) if panel.apart else 0.0
            _line(axes, series, shift, whiskers=panel.apart or len(series.x) == 1)
        _frame(axes, panel, first=number % across == 0 or panel.ylabel != panels[number - 1].ylabel)
    _share_ranges(grid, panels)
    _line_legend(figure, [series for panel in panels for series in panel.series], width, variants)
    return figure


def draw_forest(
    panels: Sequence[Panel],
    labels: Sequence[str],
    width: Width,
    *,
    variants: tuple[str, str] = ("", ""),
    shared: bool = True,
) -> Canvas:
    """Panels of one mark a row with its interval; a name stands at the left of each line of panels.

    Args:
        variants: What filled and hollow marks are, where there are both.
        shared: Whether all panels have one range, as they show one quantity.
    """
    figure, grid = make_canvas(len(panels), width, height=FOREST_INCHES + ROW_INCHES * len(labels))
    across = _columns(len(panels), width)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
        for series in panel.series:
            _mark(axes, series)
        if panel.line is not None:
            axes.axvline(panel.line, **DOTTED)
        axes.set_title(panel.title, loc="left", pad=3.0)
        axes.set_xlabel(panel.xlabel, labelpad=1.5)
        axes.set_xlim(*_range(panels if shared else (panel,)))
        axes.set_ylim(len(labels) - 0.4, -0.6)
        names = [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label in labels]
        axes.set_yticks(range(len(labels)), names if number % across == 0 else [""] * len(labels))
        axes.tick_params(axis="y", length=0.0)
        axes.yaxis.grid(visible=True, color="#E4E4E4", linewidth=0.5)
        axes.set_axisbelow(True)
    if any(series.second for panel in panels for series in panel.series):
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], color=GREY, marker="o", markersize=4.0, markerfacecolor=face, linestyle="")
            for face in (GREY, "white")
        ]
        across_inches, tall = figure.get_size_inches()
        figure.set_size_inches(across_inches, tall + 0.2)
        figure.legend(handles, variants, loc="outside lower center", ncols=2, frameon=False, borderpad=0.0)
    return figure


def _columns(panels: int, width: Width) -> int:
    """Panels beside each other: at most two in a column and four on a page."""
    across = min(panels, 2 if width is Width.COLUMN else 4)
    # Five panels are better as three and two than as four and one.
    return across if panels <= across else math.ceil(panels / math.ceil(panels / across))


def _share_ranges(grid: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """One range for panels of one quantity, so that they can be read across."""
    by_label: dict[str, list[Axes]] = {}
    for axes, panel in zip(grid, panels, strict=True):
        by_label.setdefault(panel.ylabel, []).append(axes)
    for members in by_label.values():
        limits = [axes.get_ylim() for axes in members]
        low, high = min(limit[0] for limit in limits), max(limit[1] for limit in limits)
        # Where the lower end was set, matplotlib's own margin is a share of the data's range, which may be tiny.
        room = HEADROOM * (high - low) if any(p.ylim[0] is not None and p.ylim[1] is None for p in panels) else 0.0
        for axes in members:
            axes.set_ylim(low, high + room)


def _line_legend(figure: Canvas, series: Sequence[Series], width: Width, variants: tuple[str, str]) -> None:
    """One entry a label, and one for each variant; the figure grows by the room that they take."""
    from matplotlib.lines import Line2D

    handles: dict[str, Line2D] = {}
    for each in series:
        look = each.look
        style: Any = (0.0, look.dash) if look.dash else "-"
        line = Line2D([], [], color=look.colour, marker=look.marker or "", linewidth=look.width, linestyle=style)
        handles.setdefault(each.label, line)
    if any(each.second for each in series):
        first, second = variants
        handles[first] = Line2D([], [], color=GREY, linewidth=1.0, marker="o")
        handles[second] = Line2D([], [], color=GREY, linewidth=1.0, linestyle=(0.0, SECOND), marker="o")
        handles[second].set_markerfacecolor("white")
    letters = max((len(label) for label in handles), default=1)
    # A letter of 7 pt is 3.9 pt wide on average; handle and gaps take 29 pt.
    columns = max(1, min(len(handles), int(width.inches * 72.0 / (3.9 * letters + 29.0))))
    across, tall = figure.get_size_inches()
    figure.set_size_inches(across, tall + 0.08 + 0.135 * math.ceil(len(handles) / columns))
    add_legend(figure, list(handles.values()), list(handles), columns, handlelength=2.4)


def _line(axes: Axes, series: Series, shift: float, *, whiskers: bool) -> None:
    look = series.look
    places = [x + shift for x in series.x]
    dash = SECOND if series.second else look.dash
    axes.plot(
        places,
        [each.mean for each in series.y],
        color=look.colour,
        linewidth=look.width,
        linestyle=(0.0, dash) if dash else "-",
        # A line without marks would be nothing where there is one point.
        marker=look.marker or ("_" if len(places) == 1 else None),
        markerfacecolor="white" if series.second else look.colour,
        markeredgecolor=look.colour,
        markeredgewidth=0.8,
        zorder=look.order + (0.0 if series.second else 0.1),
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
        axes.axhline(panel.line, **DOTTED)
    if panel.symlog:
        axes.set_xscale("symlog", linthresh=panel.symlog, linscale=0.5)
        # Powers as plain numbers: the figures' texts are not read as mathematics.
        axes.xaxis.set_major_formatter(lambda x, place: f"{x:g}")
    if panel.ticks:
        shown = _spaced_ticks(panel)
        axes.set_xticks([x for x, _ in shown], [name for _, name in shown])
        axes.set_xticks([x for x, _ in panel.ticks], minor=True)
        axes.tick_params(axis="x", which="minor", length=1.5, width=0.5, labelbottom=False)
    axes.set_ylim(*panel.ylim)


def _spaced_ticks(panel: Panel) -> list[tuple[float, str]]:
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


def _mark(axes: Axes, series: Series) -> None:
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
