"""A figure before it is drawn: panels of series of estimates, a caption, its numbers; and how rows look.

Colours are those of Okabe and Ito (2008), which the common kinds of colour blindness keep apart; yellow is left out, as
it is too light for lines on white. Markers differ with the colours, so that a print in grey can be read as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.board import BlockKey

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "COLUMNS",
    "FLOOR",
    "ORACLE",
    "ORIGINAL",
    "PALETTE",
    "ROWS",
    "Estimate",
    "Figure",
    "Look",
    "NotDrawn",
    "Panel",
    "Series",
    "Width",
    "looks",
    "sheet",
    "styled",
]


class NotDrawn(DataMissing):
    """There is nothing to draw: ``what`` says what is missing, ``hint`` which run would give it."""


class Width(StrEnum):
    """Width of a figure on paper."""

    COLUMN = "column"
    PAGE = "page"

    @property
    def inches(self) -> float:
        """3.33 is a column of ACM's and near that of IEEE's and ACL's classes, 7 the text of both columns."""
        return 3.33 if self is Width.COLUMN else 7.0


@dataclass(frozen=True)
class Look:
    """How one row is drawn.

    Attributes:
        dash: In points on and off; empty = solid.
        order: Drawing order; higher covers lower.
    """

    colour: str
    marker: str
    width: float = 1.1
    dash: tuple[float, ...] = ()
    order: float = 2.0


PALETTE: tuple[tuple[str, str], ...] = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
"""Colours of Okabe and Ito with the marker that goes with each."""
ROWS = len(PALETTE)
"""Rows that one figure tells apart, beside the references; more go into further parts."""
ORIGINAL = Look("#000000", "x", width=1.3, order=3.0)
ORACLE = Look("#707070", "+", width=1.8, order=2.5)
FLOOR = Look("#A0A0A0", "", width=1.0, dash=(1.0, 1.5), order=1.0)

_SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 7.5,
        "axes.titlesize": 8.0,
        "axes.labelsize": 7.5,
        "xtick.labelsize": 7.0,
        "ytick.labelsize": 7.0,
        "legend.fontsize": 7.0,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "lines.markersize": 3.6,
        "figure.dpi": 100,
        "savefig.dpi": 300,
        "savefig.facecolor": "white",
        # Names are text and no formulas, whoever chose them.
        "text.parse_math": False,
        "text.usetex": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        # Element ids are hashed with it instead of a random number.
        "svg.hashsalt": "genrec-unlearn-bench",
    }
)


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A look for every row, in their order; ``ROWS`` neighbours never share one."""
    return {label: Look(*PALETTE[place % ROWS]) for place, label in enumerate(labels)}


@contextmanager
def styled() -> Iterator[None]:
    """The settings above, for drawing and for writing, whatever the caller's own settings are."""
    from matplotlib import rc_context, rcParamsDefault

    # Figures are drawn without a backend.
    chosen: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")}
    chosen.update(_SETTINGS)
    with rc_context(chosen):
        yield


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
    interval: Literal["t over seeds", "of the measurement", ""] = ""

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

    @classmethod
    def of(
        cls,
        label: str,
        look: Look,
        points: Iterable[tuple[float, Estimate]],
        *,
        variants: tuple[str, str] = ("", ""),
        second: bool = False,
    ) -> Series:
        """The series of some points, by ascending x."""
        ordered = sorted(points, key=lambda point: point[0])
        return cls(label, look, tuple(x for x, _ in ordered), tuple(y for _, y in ordered), variants[second], second)


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes:
        ticks: Positions with their names on the x axis; matplotlib's own where there are none.
        line: A horizontal (``draw_lines``) or vertical (``draw_forest``) line: chance, no change.
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


COLUMNS = ("panel", "series", "variant", "x", "mean", "low", "high", "seeds", "interval")
"""Of the CSV beside a figure. ``x`` is a number or a name; ``interval`` says what ``low`` and ``high`` are."""


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


def sheet(panels: Sequence[Panel]) -> tuple[tuple[object, ...], ...]:
    """The numbers of panels as rows of ``COLUMNS``."""
    return tuple(
        (
            panel.title,
            s.label,
            s.variant,
            dict(panel.ticks).get(x, f"{x:g}"),
            y.mean,
            y.low,
            y.high,
            y.seeds,
            y.interval,
        )
        for panel in panels
        for s in panel.series
        for x, y in zip(s.x, s.y, strict=True)
    )
