"""What all figures share: a canvas without a window, panels in a grid, one legend below them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.figures.figure import Panel, Series
from genrec_unlearn_bench.reporting.figures.style import Width, columns_of_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["canvas", "columns", "legend", "place_panels"]

PANEL_INCHES = 1.55
"""Height of a panel with its title and labels."""
ROOM = 0.05
"""Above the highest mark, as a share of the range."""


def canvas(panels: int, width: Width, *, height: float = PANEL_INCHES) -> tuple[Canvas, list[Axes]]:
    """A figure with so many axes; ``legend`` adds to its height what stands below them."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = columns(panels, width)
    down = math.ceil(panels / across)
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.03, hspace=0.05)
    figure = Canvas(figsize=(width.inches, height * down), layout=layout)
    grid = figure.subplots(down, across, squeeze=False)
    axes = [grid[place // across][place % across] for place in range(panels)]
    for place in range(panels, down * across):
        grid[place // across][place % across].set_axis_off()
    return figure, axes


def columns(panels: int, width: Width) -> int:
    """Panels beside each other: at most two in a column and four on a page."""
    across = min(panels, 2 if width is Width.COLUMN else 4)
    # Five panels are better as three and two than as four and one.
    return across if panels <= across else math.ceil(panels / math.ceil(panels / across))


def place_panels(grid: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """One range for panels of one quantity, so that they can be read across."""
    by_label: dict[str, list[Axes]] = {}
    for axes, panel in zip(grid, panels, strict=True):
        by_label.setdefault(panel.ylabel, []).append(axes)
    for members in by_label.values():
        limits = [axes.get_ylim() for axes in members]
        low, high = min(limit[0] for limit in limits), max(limit[1] for limit in limits)
        # Where the lower end was set, matplotlib's own margin is a share of the data's range, which may be tiny.
        room = ROOM * (high - low) if any(p.ylim[0] is not None and p.ylim[1] is None for p in panels) else 0.0
        for axes in members:
            axes.set_ylim(low, high + room)


def legend(figure: Canvas, series: Sequence[Series], width: Width, *, variants: tuple[str, str] = ("", "")) -> None:
    """One entry a label, and one for each variant, below all panels; the figure grows by the room that it takes."""
    from matplotlib.lines import Line2D

    handles: dict[str, Line2D] = {}
    for each in series:
        look = each.look
        handles.setdefault(
            each.label,
            Line2D(
                [],
                [],
                color=look.colour,
                marker=look.marker or "",
                linewidth=look.width,
                linestyle=(0.0, look.dash) if look.dash else "-",
            ),
        )
    if any(each.second for each in series):
        first, second = variants
        handles[first] = Line2D([], [], color="#404040", linewidth=1.0, marker="o")
        handles[second] = Line2D([], [], color="#404040", linewidth=1.0, linestyle=(0.0, (3.2, 1.6)), marker="o")
        handles[second].set_markerfacecolor("white")
    columns = columns_of_legend(list(handles), width)
    across, tall = figure.get_size_inches()
    figure.set_size_inches(across, tall + 0.08 + 0.135 * math.ceil(len(handles) / columns))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=2.4,
        columnspacing=1.0,
        handletextpad=0.4,
        labelspacing=0.25,
        borderpad=0.0,
        borderaxespad=0.2,
    )
