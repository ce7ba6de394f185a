"""How much the concept's semantic IDs share with the retain items', before and after: Ω by level, lift, prefixes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, mean_of
from genrec_unlearn_bench.reporting.figures.figure import Estimate, Figure, Panel, Series
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.wording import listed

__all__ = ["KIND", "draw"]

KIND = "overlap"
_LEVEL = re.compile(r"overlap\.level(\d+)")
_SINGLE = (
    ("overlap.lift", "Lift over chance", "Ω / chance"),
    ("overlap.shared-prefix", "Shared prefixes", "share of concept items"),
    ("overlap.covered-codes", "Covered codes", "share of concept codes"),
)
_BAND = ("overlap.lift.null-low", "overlap.lift.null-high")


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where many methods change the table. Raises NotDrawn."""
    protocol = asked.protocol
    cast = asked.cast(block)
    known = {row.label: _values(row, protocol) for row in block.rows}
    before = known.get(cast.original) or next(
        (known[row.label] for row in cast.rows if known[row.label] and not _moved(row)), {}
    )
    if not before:
        raise unmeasured(block, f"token overlap of the row {cast.original}", method=cast.original)
    moved = [row for row in cast.rows if known[row.label] and _moved(row)]
    kept = [row.label for row in cast.rows if known[row.label] and not _moved(row)]
    if not moved:
        raise unmeasured(block, "a method that changes semantic IDs", method="tracer")
    out = []
    cast = cast.of(moved)
    for mark, rows in parts(cast):
        columns = [(cast.original, before), *((row.label, known[row.label]) for row in rows)]
        panels = _panels(columns, cast, _band(before))
        caption = (
            f"Token overlap of concept and retain items on {block.key.title}: the original table and those that "
            "methods leave.",
            "Grey band: 95 % of random item sets of the concept's size.",
            *([f"Left as it was by {listed(kept)}."] if kept else []),
        )
        out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark))
    return tuple(out)


def _values(row: Row, protocol: StatisticsProtocol) -> Mapping[str, Estimate]:
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


def _band(before: Mapping[str, Estimate]) -> tuple[float, float] | None:
    found = [before[name].mean for name in _BAND if name in before]
    return (found[0], found[1]) if len(found) == 2 else None


def _panels(
    columns: Sequence[tuple[str, Mapping[str, Estimate]]], cast: Cast, band: tuple[float, float] | None
) -> list[Panel]:
    levels = sorted({int(found[1]) for _, values in columns for name in values if (found := _LEVEL.fullmatch(name))})
    series = []
    for label, values in columns:
        here = [
            (float(level), values[f"overlap.level{level}"]) for level in levels if f"overlap.level{level}" in values
        ]
        if here:
            series.append(Series(label, cast.looks[label], tuple(x for x, _ in here), tuple(y for _, y in here)))
    out = []
    if series:
        way = arrow("overlap.level1", Group.ALL)
        ticks = tuple((float(level), str(level)) for level in levels)
        axis = f"Ω {way}".strip()
        out.append(Panel("By level", "level", axis, tuple(series), ticks, ylim=(0.0, None), apart=True))
    for metric, title, axis in _SINGLE:
        lone = [
            Series(label, cast.looks[label], (float(place),), (values[metric],))
            for place, (label, values) in enumerate(columns)
            if metric in values
        ]
        if lone:
            lift = metric == "overlap.lift"
            label = f"{axis} {arrow(metric, Group.ALL)}".strip()
            # The rows are told apart by the legend; their names would not fit below the axis.
            ticks = tuple((float(place), "") for place in range(len(columns)))
            line, null = (1.0, band) if lift else (None, None)
            out.append(Panel(title, "", label, tuple(lone), ticks, line=line, band=null, ylim=(0.0, None)))
    return out
