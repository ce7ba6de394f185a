"""A scatter of rows with their intervals, the front among them, and every name beside its mark.

No name covers a mark, another name or the edge, as far as there is room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.figures.layout import add_legend, make_canvas
from genrec_unlearn_bench.reporting.figures.model import PALETTE, Width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["Mark", "draw_scatter"]

FRONT, OTHERS = PALETTE[0][0], "#555555"
SPREAD = 15.0
"""Largest over least distance from which the axis of distances is logarithmic beyond the least."""
FINEST = 300.0
NEAR = 3.0
"""Marks that lie further below than this many times the spread of the upper half stand at the edge, with their number:
a recommender that broke down would press all others into one line."""
POINTS = 7.0
BESIDE = 4.0
"""Points between a mark and its name."""
_RINGS = (0.0, 6.0, 13.0, 21.0, 30.0, 40.0, 52.0, 66.0)
"""Further distances that are tried, in points; from the second on a thin line leads to the name."""
_WAYS = ((1.0, 0.0), (-1.0, 0.0), (1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, 1.0), (0.0, -1.0))

Box = tuple[float, float, float, float]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Mark:
    """One row.

    Attributes:
        reach, span: Intervals along x and y; NaN where there are none.
        role: original, oracle, reference or method.
        below: Whether its forget measure is below the oracle's.
    """

    label: str
    x: float
    y: float
    reach: tuple[float, float]
    span: tuple[float, float]
    role: str
    front: bool
    below: bool


def draw_scatter(marks: Sequence[Mark], titles: tuple[str, str], width: Width) -> Canvas:
    """The scatter; ``titles`` of its x and y axis."""
    figure, (frame,) = make_canvas(1, width, height=2.75 if width is Width.COLUMN else 3.6)
    frame.set_xlabel(titles[0], labelpad=2.0)
    frame.set_ylabel(titles[1], labelpad=2.0)
    floor = _floor(marks)
    _limits(frame, marks, floor)
    frame.axvline(0.0, color="#707070", linewidth=0.8, zorder=0.5)
    shown = [(mark, max(mark.y, floor)) for mark in marks]
    for mark, y in shown:
        _draw(frame, mark, y, lost=mark.y < floor)
    best = sorted((mark.x, mark.y) for mark, _ in shown if mark.front)
    if len(best) > 1:
        frame.step(
            [x for x, _ in best],
            [y for _, y in best],
            where="post",
            color=FRONT,
            linewidth=0.8,
            linestyle=(0.0, (3.0, 1.5)),
            zorder=1.0,
        )
    _legend(frame, figure, width)
    # References and the front are named first, as they are what a reader looks for.
    order = sorted(shown, key=lambda pair: (pair[0].role == "method", not pair[0].front, pair[0].x))
    place_labels(
        figure,
        frame,
        [(mark.x, y, mark.label + (f" ↓ {mark.y:.3f}" if mark.y < floor else ""), mark.front) for mark, y in order],
    )
    return figure


def _floor(marks: Sequence[Mark]) -> float:
    """Below this retain value marks stand at the edge."""
    values = sorted((mark.y for mark in marks), reverse=True)
    upper = values[: max(2, math.ceil(len(values) * 0.6))]
    room = NEAR * max(upper[0] - upper[-1], 0.02 * abs(upper[0]))
    floor = upper[-1] - room
    return floor if values[-1] < floor else -math.inf


def _limits(frame: Axes, marks: Sequence[Mark], floor: float) -> None:
    xs = [number for mark in marks for number in (mark.x, mark.reach[1]) if math.isfinite(number)]
    ys = [max(n, floor) for mark in marks for n in (mark.y, *mark.span) if math.isfinite(n)]
    wide, tall = max(xs) or 1e-3, (max(ys) - min(ys)) or 1e-3
    least = min((mark.x for mark in marks if mark.x > 0.0), default=wide)
    if wide / least > SPREAD:
        _symlog(frame, max(least, wide / FINEST), wide)
    else:
        frame.set_xlim(-0.05 * wide, 1.22 * wide)
    frame.set_ylim(min(ys) - 0.12 * tall, max(ys) + 0.12 * tall)


def _symlog(frame: Axes, least: float, wide: float) -> None:
    """Linear up to the least distance and logarithmic from there: most methods are near 0, and some are far."""
    frame.set_xscale("symlog", linthresh=least, linscale=0.6)
    powers = range(math.ceil(math.log10(least)), math.floor(math.log10(wide)) + 1)
    ticks = [0.0, *(10.0**power for power in powers)]
    frame.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    frame.set_xticks([k * 10.0**p for p in powers for k in range(2, 10) if k * 10.0**p < wide], minor=True)
    frame.tick_params(axis="x", which="minor", length=1.5, width=0.5, labelbottom=False)
    frame.set_xlim(-0.55 * least, wide * (wide / least) ** 0.22)


def _draw(frame: Axes, mark: Mark, y: float, *, lost: bool) -> None:
    shape, colour, size = {
        "original": ("X", "#000000", 5.2),
        "oracle": ("*", "#000000", 7.0),
        "reference": ("s", "#909090", 3.8),
    }.get(mark.role, ("v" if mark.below else "^", FRONT if mark.front else OTHERS, 4.6))
    thin = {"color": colour, "linewidth": 0.5, "alpha": 0.4, "zorder": 1.5}
    if math.isfinite(mark.reach[0]) and not lost:
        frame.plot(mark.reach, (y, y), **thin)  # type: ignore[arg-type]
    if math.isfinite(mark.span[0]) and not lost:
        frame.plot((mark.x, mark.x), (max(mark.span[0], frame.get_ylim()[0]), mark.span[1]), **thin)  # type: ignore[arg-type]
    filled = mark.role != "method" or mark.front
    frame.plot(
        [mark.x],
        [y],
        marker=shape,
        markersize=size,
        color=colour,
        markerfacecolor=colour if filled else "white",
        markeredgecolor=colour if mark.role == "method" else "white",
        markeredgewidth=0.9 if mark.role == "method" else 0.4,
        linestyle="",
        zorder=3.0 if mark.front or mark.role != "method" else 2.0,
    )


def _legend(frame: Axes, figure: Canvas, width: Width) -> None:
    from matplotlib.lines import Line2D

    def key(shape: str, colour: str, face: str) -> Line2D:
        return Line2D([], [], marker=shape, color=colour, markerfacecolor=face, linestyle="", markersize=4.6)

    entries = {
        "remembers more than retrain": key("^", OTHERS, "white"),
        "names less than retrain": key("v", OTHERS, "white"),
        "front": Line2D([], [], marker="^", color=FRONT, linestyle=(0.0, (3.0, 1.5)), linewidth=0.8, markersize=4.6),
        "reference row": key("s", "#909090", "#909090"),
    }
    add_legend(figure, list(entries.values()), list(entries), 2 if width is Width.COLUMN else 4, handlelength=1.8)


def place_labels(figure: Canvas, axes: Axes, marks: Sequence[tuple[float, float, str, bool]]) -> None:
    """Write a name beside every mark, the first ones nearest.

    The best free place is searched in rings around the mark; where none is free, that which covers least is taken.

    Args:
        marks: x, y, name, and whether the name is set in bold.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    # Text is measured as it will be drawn; the layout is fixed first, as it moves the axes.
    FigureCanvasAgg(figure)
    figure.canvas.draw()
    figure.set_layout_engine("none")
    scale = figure.dpi / 72.0
    inside = axes.get_window_extent()
    frame = (inside.x0, inside.y0, inside.x1, inside.y1)
    points: FloatArray = axes.transData.transform(np.array([(x, y) for x, y, _, _ in marks]))
    taken: list[Box] = [(x - 3 * scale, y - 3 * scale, x + 3 * scale, y + 3 * scale) for x, y in points]
    for (px, py), (x, y, name, bold) in zip(points, marks, strict=True):
        weight = "bold" if bold else "normal"
        size = _size(figure, axes, name, weight)
        (left, bottom, _, _), ring = _place((float(px), float(py)), size, frame, taken, scale)
        taken.append((left, bottom, left + size[0], bottom + size[1]))
        at = ((left - px) / scale, (bottom + size[1] / 2.0 - py) / scale)
        leader = {"arrowstyle": "-", "linewidth": 0.4, "color": "#888888", "shrinkA": 0.0, "shrinkB": 2.0}
        axes.annotate(
            name,
            (x, y),
            xytext=at,
            textcoords="offset points",
            fontsize=POINTS,
            fontweight=weight,
            va="center",
            ha="left",
            annotation_clip=False,
            arrowprops=leader if ring > 1 else None,
            zorder=4.0,
            path_effects=[withStroke(linewidth=1.4, foreground="white")],
        )


def _size(figure: Canvas, axes: Axes, name: str, weight: str) -> tuple[float, float]:
    text = axes.text(0.0, 0.0, name, fontsize=POINTS, fontweight=weight)
    extent = text.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    text.remove()
    return float(extent.width), float(extent.height) * 0.86


def _place(
    point: tuple[float, float], size: tuple[float, float], frame: Box, taken: Sequence[Box], scale: float
) -> tuple[Box, int]:
    best: tuple[float, Box, int] | None = None
    for ring, far in enumerate(_RINGS):
        for dx, dy in _WAYS:
            if far and not dy and ring > 1:
                continue
            shift = (BESIDE + (far if not dy else far * 0.35)) * scale
            left = point[0] + dx * shift - (0.0 if dx > 0 else size[0] if dx < 0 else size[0] / 2.0)
            middle = point[1] + dy * ((BESIDE if dx else BESIDE + 4.0) + far) * scale
            box = (left, middle - size[1] / 2.0, left + size[0], middle + size[1] / 2.0)
            cost = sum(_shared(box, other) for other in taken) + 4.0 * _outside(box, frame)
            if cost <= 0.0:
                return box, ring
            if best is None or cost < best[0]:
                best = (cost, box, ring)
    if best is None:
        return (point[0], point[1], point[0] + size[0], point[1] + size[1]), 0
    return best[1], best[2]


def _shared(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    tall = min(one[3], other[3]) - max(one[1], other[1])
    return wide * tall if wide > 0.0 and tall > 0.0 else 0.0


def _outside(box: Box, frame: Box) -> float:
    width, height = box[2] - box[0], box[3] - box[1]
    return width * height - _shared(box, frame)
