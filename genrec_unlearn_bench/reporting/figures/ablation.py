"""A measure against one setting of a method: runs whose configurations differ in a single numeric field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.curves import mean_of
from genrec_unlearn_bench.reporting.figures.layout import draw_lines
from genrec_unlearn_bench.reporting.figures.model import PALETTE, Figure, Look, Panel, Series
from genrec_unlearn_bench.reporting.figures.request import Asked, Cast, axis_title, panel_figure, unmeasured
from genrec_unlearn_bench.reporting.measure import Measure

__all__ = ["Sweep", "draw_ablation", "sweeps"]

LEAST = 2
"""Values of a field that are a sweep."""


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


def draw_ablation(kind: str, block: Block, asked: Asked) -> tuple[Figure, ...]:
    """A figure for every method and field that was swept. Raises NotDrawn, and UnknownName for a field nobody has."""
    cast = asked.cast(block)
    found = sweeps(cast.rows)
    if asked.field:
        known = {name for row in cast.rows for name in _config(row)}
        if asked.field not in known and known:
            raise UnknownName("field", asked.field, known)
        found = tuple(sweep for sweep in found if sweep.field == asked.field)
    if not found:
        what = f"{asked.field} at two values" if asked.field else "a method at two values of one numeric setting"
        raise unmeasured(block, what, f"--set {asked.field or 'FIELD'}=VALUE (once for each value)")
    texts = asked.metrics or asked.protocol.primary
    measures = [Measure.parse(text, beam=asked.width) for text in texts]
    out = []
    for method, field in dict.fromkeys((sweep.method, sweep.field) for sweep in found):
        mine = [sweep for sweep in found if (sweep.method, sweep.field) == (method, field)]
        panels = [_panel(block, measure, mine, cast, asked) for measure in measures]
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            caption = (f"{method} with different values of {field} on {block.key.title}; all other settings are kept.",)
            mark = f"-{method}-{field}".replace("/", "-")
            out.append(panel_figure(kind, block, drawn, partial(draw_lines, drawn), caption, cast=cast, mark=mark))
    return tuple(out)


def sweeps(rows: Sequence[Row]) -> tuple[Sweep, ...]:
    """Every set of two and more rows of one method and source whose configurations differ in one numeric field."""
    groups: dict[tuple[str, str, str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        config = _config(row)
        for field, value in config.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = json.dumps({name: other for name, other in config.items() if name != field}, sort_keys=True)
                key = (row.method, field, row.first.source.name, rest)
                groups.setdefault(key, []).append((float(value), row))
    swept = {key: sorted(members, key=lambda pair: pair[0]) for key, members in groups.items() if len(members) >= LEAST}
    out = []
    for (method, field, source, rest), members in swept.items():
        twins = [json.loads(other) for m, f, _, other in swept if (m, f) == (method, field)]
        own = json.loads(rest)
        apart = [f"{name}={own[name]}" for name in own if len({json.dumps(twin.get(name)) for twin in twins}) > 1]
        label = ", ".join([*([source] if source else []), *apart])
        out.append(Sweep(method, field, tuple(v for v, _ in members), tuple(row for _, row in members), label))
    return tuple(sorted(out, key=lambda sweep: (sweep.method, sweep.field, sweep.others)))


def _panel(block: Block, measure: Measure, found: Sequence[Sweep], cast: Cast, asked: Asked) -> Panel:
    values = {row.label: numbers for row, numbers in zip(block.rows, block.values(measure), strict=True)}
    everyone = sorted({value for sweep in found for value in sweep.values})
    span = (everyone[0], everyone[-1])
    series = []
    for label in (cast.original, cast.oracle):
        estimate = mean_of(values[label], asked.protocol) if label in values else None
        if estimate is not None and estimate.seeds:
            # The references have no such setting: a level line. A mark at its ends would look like a run.
            look = cast.looks[label]
            plain = Look(look.colour, "", look.width, look.dash, look.order)
            series.append(Series(label, plain, span, (estimate, estimate)))
    for place, sweep in enumerate(found):
        estimates = [
            (value, mean_of(values[row.label], asked.protocol))
            for value, row in zip(sweep.values, sweep.rows, strict=True)
        ]
        measured = [(value, estimate) for value, estimate in estimates if estimate.seeds]
        if measured:
            label = f"{sweep.method} ({sweep.others})" if sweep.others else sweep.method
            series.append(Series.of(label, Look(*PALETTE[place % len(PALETTE)]), measured))
    lone = all(each.label in (cast.original, cast.oracle) for each in series)
    return Panel(
        title=measure.side.capitalize() or "Model",
        xlabel=found[0].field,
        ylabel=axis_title(measure.title, measure.metric, measure.group),
        series=() if lone else tuple(series),
        ticks=tuple((value, f"{value:g}") for value in everyone),
        symlog=_symlog(everyone),
    )


def _symlog(values: Sequence[float]) -> float:
    """Where values go over more than a decade they were chosen on a logarithmic scale."""
    above = [value for value in values if value > 0.0]
    return above[0] if len(above) > 1 and above[-1] / above[0] > 10.0 and values[0] >= 0.0 else 0.0


def _config(row: Row) -> Mapping[str, object]:
    config: Mapping[str, object] = json.loads(row.first.method_config)
    return config
