"""From a figure to its files: panels with one legend below all, in the shipped style; PDF, SVG, PNG, CSV and text.

The same results give the same bytes: no date, no version of a program and no random name goes in.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from itertools import product
from typing import Any

from matplotlib import rc_context, rc_params_from_file, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from genrec_unlearn_bench.reporting.figures.model import PALETTE, SECOND_DASH, WIDTHS, Figure, Look, Panel, Series
from genrec_unlearn_bench.reporting.wording import csv_text

_METADATA = {"pdf": ("CreationDate", "Creator", "Producer"), "svg": ("Date", "Creator"), "png": ("Software",)}
"""Entries by format that matplotlib is to leave out."""
FORMATS = tuple(_METADATA)

_HEIGHTS = {"lines": 1.55, "rows": 0.62, "scatter": 2.4}
"""Inches of a panel with its title and labels; of marks by row, without the rows; of a scatter in a column."""
_ROW_HEIGHT = 0.165
_LONGEST = 22
"""Letters of a row's name next to its axes."""
_DOTTED: dict[str, Any] = {"color": "#000000", "linewidth": 0.6, "linestyle": (0.0, (1.0, 2.0)), "zorder": 0.5}


@contextmanager
def styled() -> Iterator[None]:
    """The shipped style, for drawing and for writing, whatever the caller's own settings are."""
    sheet = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "figures" / "paper.mplstyle"
    # Figures are drawn without a backend.
    chosen: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")}
    with resources.as_file(sheet) as path:
        chosen |= rc_params_from_file(path, use_default_template=False)
    with rc_context(chosen):
        yield


class Canvas(MatplotlibFigure):
    """A figure that is written in the shipped style; a notebook shows it as a picture, without a backend."""

    def savefig(self, fname: Any, **options: Any) -> None:
        with styled():
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def draw(figure: Figure, width: str) -> Canvas:
    """The panels of a figure, at most two in a row of a ``column`` and four in one of a ``page``, one legend below."""
    panels = figure.panels
    down = math.ceil(len(panels) / (2 if width == "column" else 4))
    # Five panels are better as three and two than as four and one.
    across = math.ceil(len(panels) / down)
    heights = (_HEIGHTS[one.style] + (_ROW_HEIGHT * len(one.names) if one.style == "rows" else 0.0) for one in panels)
    height = 3.4 if panels[0].style == "scatter" and width == "page" else max(heights)
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.03, hspace=0.05)
    canvas = Canvas(figsize=(WIDTHS[width], height * down), layout=layout)
    grid = [axes for line in canvas.subplots(down, across, squeeze=False) for axes in line]
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    first: dict[tuple[str, str], Axes] = {}
    for axes, panel in zip(grid, panels, strict=False):
        # One range for panels of one quantity, so that they can be compared across.
        rows = panel.style == "rows"
        same = first.setdefault((panel.style, panel.xlabel if rows else panel.ylabel), axes)
        if same is not axes:
            (axes.sharex if rows else axes.sharey)(same)
        if panel.symlog:
            axes.set_xscale("symlog", linthresh=panel.symlog, linscale=0.5)
        for series in panel.series:
            _draw_series(axes, panel, series)
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        # Beside lines, the legend says which row is which.
        leftmost = number % across == 0 or panel.ylabel != panels[number - 1].ylabel
        _frame(axes, panel, leftmost=leftmost and (panel.style != "rows" or panels[0].style == "rows"))
    _add_legend(canvas, figure, width)
    if panels[0].style == "scatter":
        _write_names(canvas, grid[0], panels[0].series)
    return canvas


def _draw_series(axes: Axes, panel: Panel, series: Series) -> None:
    """Marks and intervals of a series; of rows with x and y exchanged."""
    look, rows = series.look, panel.style == "rows"
    shift = 0.17 if rows and look.hollow else 0.0
    if panel.ylim[0] is not None and panel.style == "lines":
        # The margin above the highest mark is then a share of the whole range.
        axes.update_datalim([(series.points[0][0], panel.ylim[0])])
    places = [x + shift for x, _ in series.points]
    means = [y.mean for _, y in series.points]
    style = look.style
    if len(places) == 1:
        # A line without marks would be nothing.
        style |= {"marker": look.marker or "_", "linestyle": ""}
    axes.plot(*((means, places) if rows else (places, means)), **style)
    banded = [(x, y.low, y.high) for x, (_, y) in zip(places, series.points, strict=True) if y.banded]
    thin: dict[str, Any] = {"color": look.colour, "linewidth": 0.8, "zorder": look.order}
    if panel.style == "scatter":
        thin = {"color": look.colour, "linewidth": 0.5, "alpha": 0.4, "zorder": 1.5}
        axes.plot(series.reach, means * 2, **thin)
    if panel.style == "lines" and len(banded) > 1:
        xs, lows, highs = zip(*banded, strict=True)
        axes.fill_between(xs, lows, highs, color=look.colour, alpha=0.1, linewidth=0.0, zorder=look.order - 1.0)
        return
    for x, low, high in banded:
        axes.plot(*(((low, high), (x, x)) if rows else ((x, x), (low, high))), **thin)


def _frame(axes: Axes, panel: Panel, *, leftmost: bool) -> None:
    """Titles, ticks, ranges and lines; the leftmost panel of a quantity has its names."""
    axes.set_title(panel.title)
    axes.set_xlabel(panel.xlabel, labelpad=1.5)
    if leftmost:
        axes.set_ylabel(panel.ylabel, labelpad=2.0)
    if panel.line is not None:
        (axes.axhline if panel.style == "lines" else axes.axvline)(panel.line, **_DOTTED)
    if panel.style == "rows":
        names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in panel.names]
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_yticks(range(len(names)), names if leftmost else [""] * len(names))
        axes.tick_params(axis="y", length=0.0)
        axes.yaxis.grid(visible=True, color="#E4E4E4", linewidth=0.5)
        axes.set_axisbelow(True)
        return
    if panel.names:
        axes.set_xticks(range(len(panel.names)), panel.names)
    places = {x for series in panel.series for x, _ in series.points}
    if panel.symlog:
        # Powers as plain numbers: the figures' texts are not read as mathematics.
        first, last = math.ceil(math.log10(panel.symlog)), math.floor(math.log10(max(places)))
        ticks = [*{0.0} & places, *(10.0**power for power in range(first, last + 1))]
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    elif not panel.names and all(x.is_integer() for x in places):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    if panel.style == "scatter":
        axes.margins(0.15, 0.12)
    axes.set_ylim(*panel.ylim)


def _add_legend(canvas: Canvas, figure: Figure, width: str) -> None:
    """A legend below all axes: an entry for each label and each variant. The figure grows by the room it takes."""
    series = [each for panel in figure.panels for each in panel.series]
    rows = all(panel.style == "rows" for panel in figure.panels)
    looks = dict(figure.legend)
    if not looks:
        looks = {} if rows else {each.label: each.look for each in reversed(series) if not each.look.hollow}
        looks = dict(reversed(looks.items()))
        if any(each.look.hollow for each in series):
            line = 0.0 if rows else 1.0
            first = Look("#404040", "o", width=line)
            looks |= {figure.variants[0]: first, figure.variants[1]: replace(first, dash=SECOND_DASH, hollow=True)}
    if not looks:
        return
    # A letter of 7 pt is 3.9 pt wide on average, handle and gaps 29 pt.
    columns = max(1, int(WIDTHS[width] * 72.0 / (3.9 * max(map(len, looks)) + 29.0)))
    across, tall = canvas.get_size_inches()
    canvas.set_size_inches(across, tall + 0.08 + 0.135 * math.ceil(len(looks) / columns))
    handles = [Line2D([], [], **look.style) for look in looks.values()]
    canvas.legend(handles, list(looks), loc="outside lower center", ncols=columns)


_RINGS = (0.0, 6.0, 13.0, 21.0, 30.0, 40.0, 52.0, 66.0)
"""Distances of a name that are tried, in points; from the third on a thin line leads to it."""
_LEADER = {"arrowstyle": "-", "linewidth": 0.4, "color": "#888888", "shrinkA": 0.0, "shrinkB": 2.0}
_WAYS = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1))


def _write_names(canvas: Canvas, axes: Axes, series: Sequence[Series]) -> None:
    """Join the front, and write a name at every mark, the first ones nearest.

    A name stands at the nearest place that covers no other name or mark; where there is none, that which covers fewest.
    """
    marks = [(each.points[0][0], each.points[0][1].mean) for each in series]
    best = sorted(mark for each, mark in zip(series, marks, strict=True) if each.best)
    if len(best) > 1:
        axes.step(
            *zip(*best, strict=True), where="post", color=PALETTE[0][0], linewidth=0.8, linestyle=(0.0, (3.0, 1.5))
        )
    # Text is measured as it will be drawn; the layout is fixed first, as it moves the axes.
    FigureCanvasAgg(canvas)
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    point = canvas.dpi / 72.0
    places = axes.transData.transform(marks)
    taken = [Bbox.from_bounds(x, y, 0.0, 0.0).padded(3.0 * point) for x, y in places]
    offset: dict[str, Any] = {"textcoords": "offset points", "annotation_clip": False}
    text: dict[str, Any] = {"fontsize": 7.0, "va": "center", "ha": "left", "zorder": 4.0}
    text["path_effects"] = [withStroke(linewidth=1.4, foreground="white")]
    for each, mark, (x, y) in zip(series, marks, places, strict=True):
        weight = "bold" if each.best else "normal"
        note = axes.annotate(each.label, mark, xytext=(0.0, 0.0), fontweight=weight, **offset, **text)
        size = note.get_window_extent()
        width, height = size.width, 0.86 * size.height
        tried = []
        for far, (dx, dy) in product(_RINGS, _WAYS):
            left = x + dx * point * (4.0 + (0.35 if dy else 1.0) * far) - (1 - dx) / 2 * width
            bottom = y + dy * point * ((4.0 if dx else 8.0) + far) - height / 2
            box = Bbox.from_bounds(left, bottom, width, height)
            inside = axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max)
            tried.append((box.count_overlaps(taken) + 4 * (not inside), far, box))
        _, far, box = min(tried, key=lambda found: found[0])
        taken.append(box)
        note.set_position(((box.x0 - x) / point, ((box.y0 + box.y1) / 2 - y) / point))
        if far > _RINGS[1]:
            axes.annotate("", mark, xytext=note.get_position(), arrowprops=_LEADER, **offset)


def figure_files(figure: Figure, formats: Sequence[str], width: str) -> dict[str, bytes]:
    """By name: the pictures in the formats asked for, ``<name>.csv``, and ``<name>.txt`` with the caption."""
    import pandas as pd

    rows = [[csv_text(value) if isinstance(value, str) else value for value in row] for row in figure.rows]
    # Six digits, as in every other file; empty where nothing was measured.
    table = pd.DataFrame(rows, columns=figure.heads).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    texts = {"csv": table, "txt": "\n".join([*figure.caption, ""])}
    return {
        **{f"{figure.name}.{name}": _picture(figure, name, width) for name in formats},
        **{f"{figure.name}.{name}": text.encode() for name, text in texts.items()},
    }


def _picture(figure: Figure, format_: str, width: str) -> bytes:
    buffer = io.BytesIO()
    with styled(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; its letters are in the CSV.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Drawn anew for every format, as a layout that was made for one is not that of another.
        draw(figure, width).savefig(buffer, format=format_, metadata=dict.fromkeys(_METADATA[format_]))
    return buffer.getvalue()
