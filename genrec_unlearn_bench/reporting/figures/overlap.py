"""Token overlap: how much the concept's semantic IDs share with the retain items', before and after unlearning."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.curves import mean_of
from genrec_unlearn_bench.reporting.figures.layout import draw_lines
from genrec_unlearn_bench.reporting.figures.model import Estimate, Figure, Panel, Series
from genrec_unlearn_bench.reporting.figures.request import Asked, Cast, axis_title, panel_figure, unmeasured
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.wording import listed

__all__ = ["draw_overlap"]

_LEVEL = re.compile(r"overlap\.level(\d+)")
_SINGLE = (
    ("overlap.lift", "Lift over chance", "Ω / chance"),
    ("overlap.shared-prefix", "Shared prefixes", "share of concept items"),
    ("overlap.covered-codes", "Covered codes", "share of concept codes"),
)
_BAND = ("overlap.lift.null-low", "overlap.lift.null-high")

Values = Mapping[str, Estimate]


def draw_overlap(kind: str, block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where many methods change the table. Raises NotDrawn."""
    cast = asked.cast(block)
    known = {row.label: _values(row, asked.protocol) for row in block.rows}
    measured = [row for row in cast.rows if known[row.label]]
    kept = [row.label for row in measured if not _moved(row)]
    before = known.get(cast.original) or (known[kept[0]] if kept else {})
    if not before:
        raise unmeasured(block, f"token overlap of the row {cast.original}", method=cast.original)
    moved = [row for row in measured if _moved(row)]
    if not moved:
        raise unmeasured(block, "a method that changes semantic IDs", method="tracer")
    out = []
    cast = cast.of(moved)
    for mark, (_, _, *labels) in cast.figures():
        columns = [(cast.original, before), *((label, known[label]) for label in labels)]
        panels = tuple(_panels(columns, cast, _band(before)))
        caption = (
            f"Token overlap of concept and retain items on {block.key.title}: the original table and those that "
            "methods leave.",
            "Grey band: 95 % of random item sets of the concept's size.",
            *([f"Left as it was by {listed(kept)}."] if kept else []),
        )
        out.append(panel_figure(kind, block, panels, partial(draw_lines, panels), caption, cast=cast, mark=mark))
    return tuple(out)


def _values(row: Row, protocol: StatisticsProtocol) -> Values:
    out: dict[str, list[float]] = {}
    for result in row.results.values():
        for measure, value in result.values.items():
            if measure.group is Group.ALL and measure.metric.startswith("overlap") and value is not None:
                out.setdefault(measure.metric, []).append(value)
    return {name: mean_of(numbers, protocol) for name, numbers in out.items()}


def _moved(row: Row) -> bool:
    """Whether some run of a row has another table than the original's."""
    changes = (
        value
        for result in row.results.values()
        for measure, value in result.values.items()
        if measure.metric.startswith("overlap-change.") and measure != Measure("overlap-change.lift", Group.ALL)
    )
    return any(value for value in changes)


def _band(before: Values) -> tuple[float, float] | None:
    low, high = (before[name].mean if name in before else None for name in _BAND)
    return (low, high) if low is not None and high is not None else None


def _panels(columns: Sequence[tuple[str, Values]], cast: Cast, band: tuple[float, float] | None) -> list[Panel]:
    out = []
    levels = sorted({int(found[1]) for _, values in columns for name in values if (found := _LEVEL.fullmatch(name))})
    by_level = [
        (label, [(float(level), value) for level in levels if (value := values.get(f"overlap.level{level}"))])
        for label, values in columns
    ]
    series = tuple(Series.of(label, cast.looks[label], points) for label, points in by_level if points)
    if series:
        axis = axis_title("Ω", "overlap.level1", Group.ALL)
        ticks = tuple((float(level), str(level)) for level in levels)
        out.append(Panel("By level", "level", axis, series, ticks, ylim=(0.0, None), apart=True))
    for metric, title, axis in _SINGLE:
        lone = tuple(
            Series.of(label, cast.looks[label], [(float(place), values[metric])])
            for place, (label, values) in enumerate(columns)
            if metric in values
        )
        if lone:
            lift = metric == "overlap.lift"
            label = axis_title(axis, metric, Group.ALL)
            # The rows are told apart by the legend; their names would not fit below the axis.
            ticks = tuple((float(place), "") for place in range(len(columns)))
            line, null = (1.0, band) if lift else (None, None)
            out.append(Panel(title, "", label, lone, ticks, line=line, band=null, ylim=(0.0, None)))
    return out
