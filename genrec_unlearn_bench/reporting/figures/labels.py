"""Names beside the marks of a scatter, so that none covers a mark, another name or the edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["place_labels"]

POINTS = 7.0
NEAR = 4.0
"""Points between a mark and its name."""
_RINGS = (0.0, 6.0, 13.0, 21.0, 30.0, 40.0, 52.0, 66.0)
"""Further distances that are tried, in points; from the second on a thin line leads to the name."""
_WAYS = ((1.0, 0.0), (-1.0, 0.0), (1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, 1.0), (0.0, -1.0))

Box = tuple[float, float, float, float]
FloatArray = NDArray[np.float64]


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
            shift = (NEAR + (far if not dy else far * 0.35)) * scale
            left = point[0] + dx * shift - (0.0 if dx > 0 else size[0] if dx < 0 else size[0] / 2.0)
            middle = point[1] + dy * ((NEAR if dx else NEAR + 4.0) + far) * scale
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
