"""Kinds of figures drawn from the records of a block: token overlap and ablations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.model import (
    PALETTE,
    Cast,
    Estimate,
    Figure,
    FigureRequest,
    Look,
    Panel,
    Series,
    axis_title,
    mean_of,
    panel_figure,
    unmeasured,
)
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.wording import listed

_LEVEL = "overlap.level"
_SINGLE = (
    ("overlap.lift", "Lift over chance", "Ω / chance"),
    ("overlap.shared-prefix", "Shared prefixes", "share of concept items"),
    ("overlap.covered-codes", "Covered codes", "share of concept codes"),
)
_NULL_BAND = ("overlap.lift.null-low", "overlap.lift.null-high")

Means = Mapping[str, Mapping[str, Estimate]]
"""By metric and label."""


def draw_overlap(block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """How much the concept's semantic IDs share with the retain items', before and after unlearning: one figure, or
    more where many methods change the table. Raises NotDrawn."""
    cast = Cast.of(block, request)
    means = _overlap_means(block, request)
    changes = [
        each for name, each in means.items() if name.startswith("overlap-change.") and name != "overlap-change.lift"
    ]
    known = {label for each in means.values() for label in each}
    moved = [row for row in cast.rows if any(row.label in each and each[row.label].mean for each in changes)]
    kept = [row.label for row in cast.rows if row.label in known and row not in moved]
    # A method that kept its semantic IDs has the original's.
    before = cast.original if cast.original in known else next(iter(kept), None)
    if before is None:
        raise unmeasured(block, f"token overlap of the row {cast.original}", method=cast.original)
    if not moved:
        raise unmeasured(block, "a method that changes semantic IDs", method="tracer")
    cast = cast.only(moved)
    caption = (
        f"Token overlap of concept and retain items on {block.key.title}: the original table and those that methods "
        "leave.",
        "Grey band: 95 % of random item sets of the concept's size.",
        *([f"Left as it was by {listed(kept)}."] if kept else []),
    )
    out = []
    for ending, (_, _, *labels) in cast.parts():
        panels = _overlap_panels({cast.original: before, **{label: label for label in labels}}, means, cast)
        out.append(panel_figure("overlap", block, panels, caption, cast, ending=ending))
    return tuple(out)


def _overlap_means(block: Block, request: FigureRequest) -> Means:
    measures = {measure for row in block.rows for result in row.results.values() for measure in result.values}
    out = {}
    for measure in sorted(m for m in measures if m.group is Group.ALL and m.metric.startswith("overlap")):
        values = zip(block.rows, block.values(measure), strict=True)
        found = {row.label: mean_of(numbers, request.protocol) for row, numbers in values}
        out[measure.metric] = {label: each for label, each in found.items() if each.seeds}
    return out


def _overlap_panels(shown: Mapping[str, str], means: Means, cast: Cast) -> list[Panel]:
    """``shown``: by label, the row whose numbers it has."""
    levels = sorted((float(name.removeprefix(_LEVEL)), name) for name in means if name.startswith(_LEVEL))
    by_level = {
        label: tuple((level, means[name][source]) for level, name in levels if source in means[name])
        for label, source in shown.items()
    }
    out = []
    series = tuple(Series(label, cast.looks[label], points) for label, points in by_level.items() if points)
    if series:
        axis = axis_title("Ω", "overlap.level1", Group.ALL)
        ticks = tuple((level, f"{level:g}") for level, _ in levels)
        out.append(Panel("By level", "level", axis, series, ticks=ticks, ylim=(0.0, None), apart=True))
    low, high = (means.get(name, {}).get(shown[cast.original]) for name in _NULL_BAND)
    for metric, title, axis in _SINGLE:
        values = means.get(metric, {})
        lone = tuple(
            Series(label, cast.looks[label], ((float(place), values[source]),))
            for place, (label, source) in enumerate(shown.items())
            if source in values
        )
        if lone:
            lift = metric == "overlap.lift"
            out.append(
                Panel(
                    title=title,
                    xlabel="",
                    ylabel=axis_title(axis, metric, Group.ALL),
                    series=lone,
                    # The rows are told apart by the legend; their names would not fit below the axis.
                    ticks=tuple((float(place), "") for place in range(len(shown))),
                    line=1.0 if lift else None,
                    band=(low.mean, high.mean) if lift and low and high else None,
                    ylim=(0.0, None),
                )
            )
    return out


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs of one method that differ in one field.

    Attributes:
        rows: By ascending value of the field.
        others: What the configurations share and other sweeps of that field do not, as text; empty where there is one.
    """

    method: str
    field: str
    values: tuple[float, ...]
    rows: tuple[Row, ...]
    others: str = ""


def draw_ablation(block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """A figure for every method and field that was swept. Raises NotDrawn, and UnknownName for a field nobody has."""
    cast = Cast.of(block, request)
    found = sweeps(cast.rows)
    if request.field:
        known = {name for row in cast.rows for name in json.loads(row.first.method_config)}
        if request.field not in known and known:
            raise UnknownName("field", request.field, known)
        found = tuple(sweep for sweep in found if sweep.field == request.field)
    if not found:
        what = f"{request.field} at two values" if request.field else "a method at two values of one numeric setting"
        raise unmeasured(block, what, f"--set {request.field or 'FIELD'}=VALUE (once for each value)")
    out = []
    for method, field in dict.fromkeys((sweep.method, sweep.field) for sweep in found):
        mine = [sweep for sweep in found if (sweep.method, sweep.field) == (method, field)]
        panels = [_sweep_panel(block, measure, mine, cast, request) for measure in request.measures]
        drawn = [panel for panel in panels if panel is not None]
        if drawn:
            caption = (f"{method} with different values of {field} on {block.key.title}; all other settings are kept.",)
            ending = f"-{method}-{field}".replace("/", "-")
            out.append(panel_figure("ablation", block, drawn, caption, cast, ending=ending))
    return tuple(out)


def sweeps(rows: Sequence[Row]) -> tuple[Sweep, ...]:
    """Every set of two and more rows of one method and source whose configurations differ in one numeric field."""
    groups: dict[tuple[str, str, str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        config = json.loads(row.first.method_config)
        for field, value in config.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = json.dumps({name: other for name, other in config.items() if name != field}, sort_keys=True)
                key = (row.method, field, row.first.source.name, rest)
                groups.setdefault(key, []).append((float(value), row))
    swept = {key: sorted(members, key=lambda pair: pair[0]) for key, members in groups.items() if len(members) > 1}
    out = []
    for (method, field, source, rest), members in swept.items():
        twins = [json.loads(other) for m, f, _, other in swept if (m, f) == (method, field)]
        own = json.loads(rest)
        apart = [f"{name}={own[name]}" for name in own if len({json.dumps(twin.get(name)) for twin in twins}) > 1]
        label = ", ".join([*([source] if source else []), *apart])
        out.append(Sweep(method, field, tuple(v for v, _ in members), tuple(row for _, row in members), label))
    return tuple(sorted(out, key=lambda sweep: (sweep.method, sweep.field, sweep.others)))


def _sweep_panel(
    block: Block, measure: Measure, found: Sequence[Sweep], cast: Cast, request: FigureRequest
) -> Panel | None:
    values = zip(block.rows, block.values(measure), strict=True)
    means = {row.label: mean_of(numbers, request.protocol) for row, numbers in values}
    places = sorted({value for sweep in found for value in sweep.values})
    swept = []
    for number, sweep in enumerate(found):
        pairs = zip(sweep.values, sweep.rows, strict=True)
        points = tuple((value, means[row.label]) for value, row in pairs if means[row.label].seeds)
        if points:
            label = f"{sweep.method} ({sweep.others})" if sweep.others else sweep.method
            swept.append(Series(label, Look(*PALETTE[number % len(PALETTE)]), points))
    if not swept:
        return None
    # The references have no such setting: a level line. A mark at its ends would look like a run.
    levels = [
        Series(label, replace(cast.looks[label], marker=""), ((places[0], means[label]), (places[-1], means[label])))
        for label in (cast.original, cast.oracle)
        if label in means and means[label].seeds
    ]
    positive = [place for place in places if place > 0.0]
    # Values that go over more than a decade were chosen on a logarithmic scale.
    logarithmic = places[0] >= 0.0 and len(positive) > 1 and positive[-1] / positive[0] > 10.0
    return Panel(
        title=measure.side.capitalize() or "Model",
        xlabel=found[0].field,
        ylabel=axis_title(measure.title, measure.metric, measure.group),
        series=(*levels, *swept),
        ticks=tuple((place, f"{place:g}") for place in places),
        symlog=positive[0] if logarithmic else 0.0,
    )
