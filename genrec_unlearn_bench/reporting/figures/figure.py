"""What a figure is before it is drawn: panels of series of estimates, a caption, and the numbers as a sheet.

Every kind of figure makes these; drawing them (``lines``, ``forest``, ``scatter``) and writing them (``writing``) is
the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.board import BlockKey

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from genrec_unlearn_bench.reporting.figures.style import Look, Width

__all__ = ["COLUMNS", "Estimate", "Figure", "NotDrawn", "Panel", "Series", "sheet"]

COLUMNS = ("panel", "series", "variant", "x", "mean", "low", "high", "seeds", "interval")
"""Of the CSV beside a figure. ``x`` is a number or a name; ``interval`` says what ``low`` and ``high`` are."""

Interval = Literal["t over seeds", "of the measurement", ""]


class NotDrawn(DataMissing):
    """There is nothing to draw; ``what`` says what is missing, ``mend`` which run would give it."""


@dataclass(frozen=True)
class Estimate:
    """One number of a figure.

    Attributes:
        mean: Over seeds; NaN where nothing was measured.
        low, high: NaN where there is no interval.
        seeds: How many training seeds it is the mean of.
        interval: A t interval from two seeds up; of one seed, the interval that the measurement itself gives.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    seeds: int = 1
    interval: Interval = ""

    @property
    def banded(self) -> bool:
        """Whether it has an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True, eq=False)
class Series:
    """One line, or the marks of one row.

    Attributes:
        label: As the legend says it; series of one label share their look.
        x: Positions: steps, layers, bits.
        variant: What tells it from another series of the same label; drawn as ``second`` or not.
        second: Whether it is of the second variant: dashed, hollow.
    """

    label: str
    look: Look
    x: tuple[float, ...]
    y: tuple[Estimate, ...]
    variant: str = ""
    second: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes:
        ticks: Positions with their names on the x axis; matplotlib's own where there are none.
        line: A horizontal (``lines``) or vertical (``forest``) line: chance, no change.
        band: A range that chance stays within.
        apart: Whether the marks of one position stand a little beside each other, with whiskers in place of bands: for
            few positions that are one apart.
        symlog: Linear below this number and logarithmic above; 0 = linear throughout.
    """

    title: str
    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    line: float | None = None
    band: tuple[float, float] | None = None
    symlog: float = 0.0
    ylim: tuple[float | None, float | None] = (None, None)
    apart: bool = False


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure.

    Attributes:
        name: Of its files, without an ending; unique in a call.
        paint: Draws it at a width.
        caption: Sentences, not escaped.
        heads, rows: Its numbers.
    """

    name: str
    kind: str
    block: BlockKey
    paint: Callable[[Width], Canvas]
    caption: tuple[str, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def sheet(panels: tuple[Panel, ...]) -> tuple[tuple[object, ...], ...]:
    """The numbers of panels as rows of ``COLUMNS``."""
    return tuple(_rows(panels))


def _rows(panels: tuple[Panel, ...]) -> Iterator[tuple[object, ...]]:
    for panel in panels:
        names = dict(panel.ticks)
        for series in panel.series:
            for x, y in zip(series.x, series.y, strict=True):
                place = names.get(x, f"{x:g}")
                yield panel.title, series.label, series.variant, place, y.mean, y.low, y.high, y.seeds, y.interval
