"""A figure as data: panels of series of estimates with a caption; the request for it, the rows it shows, their style.

Colours are those of Okabe and Ito (2008), which the common kinds of colour blindness keep apart; yellow is left out, as
it is too light for lines on white. Markers differ with the colours, so that a print in grey can be read as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.reporting.board import Block, BlockKey, Row
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import t_interval
from genrec_unlearn_bench.reporting.wording import spanned

FLOOR_LABEL = "random weights"
COLUMNS = ("panel", "series", "variant", "x", "mean", "low", "high", "seeds", "interval")
"""Of the CSV of a figure. ``x`` is a number or a name; ``interval`` says what ``low`` and ``high`` are."""
_ARROWS = {Better.LOWER: "↓", Better.HIGHER: "↑", Better.ORACLE: "→ retrain", Better.NONE: ""}


class NotDrawn(DataMissing):
    """There is nothing to draw: ``what`` says what is missing, ``hint`` which run would give it."""


WIDTHS = {"column": 3.33, "page": 7.0}
"""Inches on paper: a column of ACM's and near that of IEEE's and ACL's classes, and the text of both columns."""


@dataclass(frozen=True)
class Look:
    """How a series is drawn.

    Width 0: marks alone. Dash: points on and off. A higher order covers a lower one. Edge: of marks, if not the colour.
    """

    colour: str
    marker: str
    width: float = 1.1
    dash: tuple[float, ...] = ()
    order: float = 2.0
    hollow: bool = False
    size: float = 3.6
    edge: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """Properties of matplotlib's line, or of its entry in the legend."""
        return {
            "color": self.colour,
            "linewidth": self.width,
            "linestyle": ((0.0, self.dash) if self.dash else "-") if self.width else "",
            "marker": self.marker,
            "markersize": self.size,
            "markerfacecolor": "white" if self.hollow else self.colour,
            "markeredgecolor": self.edge or self.colour,
            "markeredgewidth": 0.4 if self.edge else 0.8,
            "zorder": self.order,
        }


PALETTE: tuple[tuple[str, str], ...] = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
"""Colours with the marker of each. One figure shows as many rows besides the references."""
ORIGINAL = Look("#000000", "x", width=1.3, order=3.0)
ORACLE = Look("#707070", "+", width=1.8, order=2.5)
SECOND_DASH = (3.2, 1.6)
"""Of a second variant, whose marks are hollow."""
_FLOOR = Look("#A0A0A0", "", width=1.0, dash=(1.0, 1.5), order=1.0)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its interval; NaN where there is none.

    The interval is a t interval from two seeds up; of one seed, that which the measurement itself gives.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    seeds: int = 1
    interval: Literal["t over seeds", "of the measurement", ""] = ""

    @property
    def banded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def mean_of(numbers: Iterable[float], protocol: StatisticsProtocol) -> Estimate:
    """Mean and t interval over seeds; NaN are left out."""
    values = [number for number in numbers if math.isfinite(number)]
    if not values:
        return Estimate(math.nan, seeds=0)
    summary = t_interval(np.array([values]), confidence=protocol.confidence)
    low, high = float(summary.low[0]), float(summary.high[0])
    return Estimate(float(summary.mean[0]), low, high, len(values), "t over seeds" if len(values) > 1 else "")


@dataclass(frozen=True, eq=False)
class Series:
    """One line, or the marks of one row: x (step, layer, number of a row) and estimate, by ascending x.

    Attributes:
        variant: What distinguishes it from another series of the same label.
        reach: Interval along x, in scatters.
        best: Whether a scatter joins it to the front and writes its name in bold.
    """

    label: str
    look: Look
    points: tuple[tuple[float, Estimate], ...]
    variant: str = ""
    reach: tuple[float, float] = (math.nan, math.nan)
    best: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes:
        style: Lines; or a mark for each row, whose x is its line from the top; or a scatter with a name at every mark.
        names: Of the positions 0, 1 … on the axis of x, where it has names.
        line: A dotted line at this value: chance, no change.
        symlog: x is linear below this number and logarithmic above; 0 = linear throughout.
    """

    title: str
    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    style: Literal["lines", "rows", "scatter"] = "lines"
    names: tuple[str, ...] = ()
    line: float | None = None
    symlog: float = 0.0
    ylim: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure; ``heads`` and ``rows`` are its CSV.

    Attributes:
        name: Of its files, without an ending; unique in a call.
        variants: Meaning of filled and hollow marks, where there are both.
        legend: Entries, where they are not the labels of the series.
    """

    name: str
    kind: str
    block: BlockKey
    panels: tuple[Panel, ...]
    caption: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    heads: tuple[str, ...] = COLUMNS
    variants: tuple[str, str] = ("", "")
    legend: tuple[tuple[str, Look], ...] = ()


@dataclass(frozen=True)
class FigureRequest:
    """One request for figures: of methods by names or globs, with the measures and the beam of Pareto figures, which
    are the protocol's where none are given."""

    protocol: StatisticsProtocol
    methods: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    beam: int | None = None


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Rows of a block's figures besides the original and the oracle, the look of every label, and what is left out."""

    rows: tuple[Row, ...]
    looks: Mapping[str, Look]
    original: str
    oracle: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, block: Block, request: FigureRequest, among: Container[str] | None = None) -> SelectedRows:
        """The rows that were asked for, of some labels alone where given; without those that diverged."""
        original, oracle = request.protocol.baseline, request.protocol.oracle
        chosen = [
            row
            for row in block.rows
            if row.label not in (original, oracle)
            and (among is None or row.label in among)
            and (not request.methods or any(fnmatchcase(row.method, pattern) for pattern in request.methods))
        ]
        kept = tuple(row for row in chosen if not row.diverged)
        notes = tuple(
            f"Left out: {row.label}, which diverged in {len(row.diverged)} of {len(row.results)} runs."
            for row in chosen
            if row.diverged
        )
        looks = {row.label: Look(*PALETTE[place % len(PALETTE)]) for place, row in enumerate(kept)}
        looks |= {original: ORIGINAL, oracle: ORACLE, FLOOR_LABEL: _FLOOR}
        return cls(kept, looks, original, oracle, notes)

    def parts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Ending of the name of each figure of the block and the labels in it: the references and as many rows as can
        be told apart, in parts of about one size."""
        labels = [row.label for row in self.rows]
        number = max(1, math.ceil(len(labels) / len(PALETTE)))
        size = math.ceil(len(labels) / number)
        for part in range(number):
            shown = labels[part * size : (part + 1) * size]
            yield f"-{part + 1}" if number > 1 else "", (self.original, self.oracle, *shown)


def panel_figure(
    kind: str,
    block: Block,
    panels: Sequence[Panel],
    caption: Iterable[str],
    selected: SelectedRows,
    *,
    ending: str = "",
    variants: tuple[str, str] = ("", ""),
) -> Figure:
    """A figure of panels; its caption also says what bands are, over how many seeds, and who is left out."""
    estimates = [each for panel in panels for series in panel.series for _, each in series.points]
    intervals = {each.interval for each in estimates if each.banded}
    counts = [each.seeds for each in estimates]
    sentences = list(caption)
    if "t over seeds" in intervals:
        sentences.append("Bands and whiskers: 95 % t intervals over training seeds.")
    if "of the measurement" in intervals:
        sentences.append("Bands and whiskers of a single seed: 95 % intervals of the measurement, over its examples.")
    sentences += [f"Seeds: {spanned((min(counts), max(counts)))}.", *selected.notes]
    rows = tuple(
        (
            *(panel.title, one.label, one.variant, panel.names[int(x)] if panel.names else f"{x:g}"),
            *(y.mean, y.low, y.high, y.seeds, y.interval),
        )
        for panel in panels
        for one in panel.series
        for x, y in one.points
    )
    name = file_name(kind, block.key, ending)
    return Figure(name, kind, block.key, tuple(panels), tuple(sentences), rows, variants=variants)


def unmeasured(block: Block, what: str, options: str = "", *, method: str = "") -> NotDrawn:
    """The fault that no run of a block has what a figure needs, with the run that would.

    Args:
        options: Of ``bench run``, besides those that say which block it is.
        method: To be run; the block's first where none is named.
    """
    key = block.key
    row = next((row for row in block.rows if row.kind == "method"), block.rows[0])
    # A method that does not ship is run by its file.
    file = re.search(r"--method ('[^']*\.py[^']*'|\S+\.py\S*)", next(iter(row.results.values())).command)
    name = method or (file[1] if file else row.method)
    backbone = key.backbone.partition(" (")[0]
    call = f"bench run --task {key.task} --backbone {backbone} --scale {key.scale} --method {name} {options}"
    return NotDrawn(f"{key.title}: no run has {what}", hint=call.strip())


def file_name(kind: str, key: BlockKey, ending: str = "") -> str:
    """A name for the files of a figure: letters, digits, dots and hyphens."""
    parts = (kind, key.task, key.backbone, key.scale, key.ruleset, key.variant)
    plain = [re.sub(r"[^A-Za-z0-9+._]+", "-", part).strip("-.") for part in parts]
    return "-".join(part for part in plain if part) + ending


def axis_title(title: str, metric: str, group: Group) -> str:
    """A title with which way the metric is better; nothing for a metric that this version does not declare."""
    spec = metric_specs().get(metric)
    return f"{title} {_ARROWS[spec.better.get(group, Better.NONE)] if spec is not None else ''}".strip()
