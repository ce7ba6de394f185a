"""Kinds of figures drawn from the records of a block: the Pareto figure, token overlap and ablations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.model import (
    PALETTE,
    Estimate,
    Figure,
    FigureRequest,
    Look,
    Panel,
    SelectedRows,
    Series,
    axis_title,
    file_name,
    mean_of,
    panel_figure,
    unmeasured,
)
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.verdicts import pareto_front
from genrec_unlearn_bench.reporting.wording import listed, spanned

OTHERS = ("popularity", "sasrec")
"""Reference rows that are recommenders of another kind, which unlearn nothing: shown where they are named."""
_TRADE_COLUMNS = (
    *("row", "kind", "front", "seeds", "gap", "gap_low", "gap_high", "distance"),
    *("retain", "retain_low", "retain_high", "retain_sd"),
)
"""Of the CSV: ``gap`` is forget HR@10 minus the oracle's of the same seed, ``distance`` its absolute mean; low and high
are t intervals."""
_MORE = Look("#555555", "^", width=0.0, hollow=True, size=4.6)
_LESS = replace(_MORE, marker="v")
_BEST = Look(PALETTE[0][0], "^", width=0.8, dash=(3.0, 1.5), size=4.6, order=3.0)
_REFERENCE = Look("#909090", "s", width=0.0, size=3.8, order=3.0, edge="white")
_OF_ORIGINAL = Look("#000000", "X", width=0.0, size=5.2, order=3.0, edge="white")
_OF_ORACLE = Look("#000000", "*", width=0.0, size=7.0, order=3.0, edge="white")
_TRADE_LEGEND = (
    ("remembers more than retrain", _MORE),
    ("names less than retrain", _LESS),
    ("front", _BEST),
    ("reference row", _REFERENCE),
)
_SPREAD = 15.0
"""Largest over least distance from which the axis of distances is logarithmic beyond the least."""
_FINEST = 300.0
_NEAR = 3.0
"""Rows that keep less than the upper half by more than this many times its spread are drawn at the edge, with their
number: a recommender that broke down would press all others into one line."""


@dataclass(frozen=True)
class Trade:
    """One row of the Pareto figure.

    Attributes:
        gap: Forget measure minus the oracle's of the same seed; below 0, less is recommended than a model that never
            saw it would recommend.
        kept: The retain measure.
        spread: Standard deviation of ``kept`` over seeds; NaN below two.
    """

    label: str
    reference: bool
    gap: Estimate
    kept: Estimate
    spread: float

    @property
    def distance(self) -> float:
        return abs(self.gap.mean)

    @property
    def reach(self) -> tuple[float, float]:
        """The interval of the gap, folded at 0."""
        if not self.gap.banded:
            return math.nan, math.nan
        low, high = sorted((abs(self.gap.low), abs(self.gap.high)))
        return (0.0 if self.gap.low <= 0.0 <= self.gap.high else low), high


def draw_pareto(block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """The distance of each row's forgetting from a retrained model's, against what it keeps: one figure.

    Raises NotDrawn without an oracle, UsageError for measures that are no pair of a forget and a retain measure.
    """
    forget, retain = _trade_measures(request.measures)
    oracle = request.protocol.oracle
    if block.oracle is None:
        raise unmeasured(block, f"the row {oracle}", method=oracle)
    found = trades(block, request, forget, retain)
    if all(trade.reference for trade in found):
        raise unmeasured(block, f"{forget.title} and {retain.title} of a method")
    best = front(found)
    selected = SelectedRows.of(block, request)
    counts = [trade.gap.seeds for trade in found]
    caption = (
        f"{retain.title[:1].upper()}{retain.title[1:]} against the distance of {forget.title} from {oracle}, "
        f"{block.key.title}, beam {forget.beam}: means over {spanned((min(counts), max(counts)))} seeds, gaps taken "
        "seed by seed; whiskers: 95 % t intervals.",
        "Filled: no other method is better on both (by the means; this is no test). Triangles that point down: "
        f"less is recommended than {oracle} does, which is over-forgetting.",
        *selected.notes,
    )
    rows = tuple(
        (
            *(trade.label, "reference" if trade.reference else "method", int(trade.label in best), trade.gap.seeds),
            *(trade.gap.mean, trade.gap.low, trade.gap.high, trade.distance),
            *(trade.kept.mean, trade.kept.low, trade.kept.high, trade.spread),
        )
        for trade in found
    )
    name, panel = file_name("pareto", block.key), _scatter(found, best, selected, forget, retain)
    return (Figure(name, "pareto", block.key, (panel,), caption, rows, _TRADE_COLUMNS, legend=_TRADE_LEGEND),)


def trades(block: Block, request: FigureRequest, forget: Measure, retain: Measure) -> tuple[Trade, ...]:
    """Every row that is shown and has both measures; references first."""
    selected = SelectedRows.of(block, request)
    shown = {selected.original, selected.oracle, *(row.label for row in selected.rows)}
    gaps = block.values(forget._replace(metric=f"gap.{forget.metric}"))
    out = []
    for row, gap_values, kept_values in zip(block.rows, gaps, block.values(retain), strict=True):
        gap, kept = mean_of(gap_values, request.protocol), mean_of(kept_values, request.protocol)
        if row.label in shown and gap.seeds and kept.seeds and (request.methods or row.method not in OTHERS):
            finite = kept_values[np.isfinite(kept_values)]
            spread = float(np.std(finite, ddof=1)) if finite.size > 1 else math.nan
            out.append(Trade(row.label, row.kind == "reference", gap, kept, spread))
    return tuple(out)


def front(found: Sequence[Trade]) -> frozenset[str]:
    """Labels of the methods that no other method beats: none is as near and keeps as much, and one of both more."""
    rivals = [trade for trade in found if not trade.reference]
    marks = pareto_front([(trade.gap.mean, trade.kept.mean) for trade in rivals])
    return frozenset(trade.label for trade, mark in zip(rivals, marks, strict=True) if mark)


def _trade_measures(measures: Sequence[Measure]) -> tuple[Measure, Measure]:
    forget = [measure for measure in measures if measure.side == "forget"]
    retain = [measure for measure in measures if measure.side == "retain" and measure.better is Better.HIGHER]
    if not forget or not retain:
        raise UsageError(
            f"{listed([measure.text for measure in measures])}: the Pareto figure needs a forget measure and a retain "
            "measure of which more is better",
            hint="--metric forget:hr@10,retain:ndcg@10",
        )
    return forget[0], retain[0]


def _scatter(
    found: Sequence[Trade], best: frozenset[str], selected: SelectedRows, forget: Measure, retain: Measure
) -> Panel:
    kept_means = sorted((trade.kept.mean for trade in found), reverse=True)
    upper = kept_means[: max(2, math.ceil(len(kept_means) * 0.6))]
    floor = upper[-1] - _NEAR * max(upper[0] - upper[-1], 0.02 * abs(upper[0]))
    floor = floor if kept_means[-1] < floor else -math.inf
    references = {selected.original: _OF_ORIGINAL, selected.oracle: _OF_ORACLE}
    series = []
    # References and the front are named first, as they are what a reader looks for.
    for trade in sorted(found, key=lambda trade: (not trade.reference, trade.label not in best, trade.distance)):
        look = references.get(trade.label, _REFERENCE)
        if not trade.reference:
            look = replace(_BEST if trade.label in best else _MORE, marker="v" if trade.gap.mean < 0.0 else "^")
        name, kept, reach = trade.label, trade.kept, trade.reach
        if kept.mean < floor:
            name, kept, reach = f"{name} ↓ {kept.mean:.3f}", Estimate(floor, seeds=kept.seeds), (math.nan, math.nan)
        series.append(Series(name, look, ((trade.distance, kept),), reach=reach, best=trade.label in best))
    distances = [trade.distance for trade in found]
    most = max(distances) or 1e-3
    least = max(min(filter(None, distances), default=most), most / _FINEST)
    ticks: tuple[tuple[float, str], ...] = ()
    if most / least > _SPREAD:
        # Zero and the powers of ten by name, with unnamed ticks between them.
        powers = [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]
        named = [(k * power, f"{power:g}" if k == 1 else "") for power in powers for k in range(1, 10)]
        ticks = (0.0, "0"), *(tick for tick in named if tick[0] < most)
    return Panel(
        title="",
        xlabel=f"|{forget.title} − {selected.oracle}'s| (0 = as retrained)",
        ylabel=axis_title(retain.title, retain.metric, retain.group),
        series=tuple(series),
        style="scatter",
        ticks=ticks,
        line=0.0,
        symlog=least if ticks else 0.0,
    )


_LEVEL = "overlap.level"
_SINGLE = (
    ("overlap.lift", "Lift over chance", "Ω / chance"),
    ("overlap.shared-prefix", "Shared prefixes", "share of concept items"),
    ("overlap.covered-codes", "Covered codes", "share of concept codes"),
)


def draw_overlap(block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """How much the concept's semantic IDs share with the retain items', before and after unlearning: one figure, or
    more where many methods change the table. Raises NotDrawn."""
    selected = SelectedRows.of(block, request)
    measures = {measure for row in block.rows for result in row.results.values() for measure in result.values}
    means = {
        measure.metric: _means(block, measure, request)
        for measure in measures
        if measure.group is Group.ALL and measure.metric.startswith("overlap")
    }
    changed = {name for name in means if name.startswith("overlap-change.")} - {"overlap-change.lift"}
    changes = [means[name] for name in changed]
    known = {label for each in means.values() for label in each}
    moved = [row for row in selected.rows if any(row.label in each and each[row.label].mean for each in changes)]
    kept = [row.label for row in selected.rows if row.label in known and row not in moved]
    # A method that kept its semantic IDs has the original's.
    before = selected.original if selected.original in known else next(iter(kept), None)
    if before is None:
        raise unmeasured(block, f"token overlap of the row {selected.original}", method=selected.original)
    if not moved:
        raise unmeasured(block, "a method that changes semantic IDs", method="tracer")
    selected = selected.only(moved)
    caption = (
        f"Token overlap of concept and retain items on {block.key.title}: the original table and those that methods "
        "leave.",
        "Grey band: 95 % of random item sets of the concept's size.",
        *([f"Left as it was by {listed(kept)}."] if kept else []),
    )
    return tuple(
        panel_figure(
            "overlap", block, _overlap_panels(before, labels, means, selected), caption, selected, ending=ending
        )
        for ending, (_, _, *labels) in selected.parts()
    )


def _means(block: Block, measure: Measure, request: FigureRequest) -> dict[str, Estimate]:
    """By label, of the rows on which it was measured."""
    values = zip(block.rows, block.values(measure), strict=True)
    means = {row.label: mean_of(numbers, request.protocol) for row, numbers in values}
    return {label: each for label, each in means.items() if each.seeds}


def _overlap_panels(
    before: str, labels: Sequence[str], means: Mapping[str, Mapping[str, Estimate]], selected: SelectedRows
) -> list[Panel]:
    """Panels of ``means`` by metric and row; the original's numbers are those of the row ``before``."""
    shown = {selected.original: before, **{label: label for label in labels}}
    levels = sorted((float(name.removeprefix(_LEVEL)), name) for name in means if name.startswith(_LEVEL))
    by_level = {
        label: tuple((level, means[name][source]) for level, name in levels if source in means[name])
        for label, source in shown.items()
    }
    out = []
    series = tuple(Series(label, selected.looks[label], points) for label, points in by_level.items() if points)
    if series:
        axis = axis_title("Ω", "overlap.level1", Group.ALL)
        ticks = tuple((level, f"{level:g}") for level, _ in levels)
        out.append(Panel("By level", "level", axis, series, ticks=ticks, ylim=(0.0, None), apart=True))
    low, high = (means.get(f"overlap.lift.null-{end}", {}).get(shown[selected.original]) for end in ("low", "high"))
    for metric, title, axis in _SINGLE:
        values = means.get(metric, {})
        lone = tuple(
            Series(label, selected.looks[label], ((float(place), values[source]),))
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
                    # The legend says which row is which; their names would not fit below the axis.
                    ticks=tuple((float(place), "") for place in range(len(shown))),
                    line=1.0 if lift else None,
                    band=(low.mean, high.mean) if lift and low and high else None,
                    ylim=(0.0, None),
                )
            )
    return out


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs of one method that differ in one field, by its ascending value.

    ``others``: what the configurations share and other sweeps of that field do not, as text; empty where there is one.
    """

    method: str
    field: str
    values: tuple[float, ...]
    rows: tuple[Row, ...]
    others: str = ""


def draw_ablation(block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """A figure for every method and field that was swept. Raises NotDrawn, and UnknownName for a field nobody has."""
    selected = SelectedRows.of(block, request)
    found = sweeps(selected.rows)
    if request.field:
        known = {name for row in selected.rows for name in json.loads(row.first.method_config)}
        if request.field not in known and known:
            raise UnknownName("field", request.field, known)
        found = tuple(sweep for sweep in found if sweep.field == request.field)
    if not found:
        what = f"{request.field} at two values" if request.field else "a method at two values of one numeric setting"
        raise unmeasured(block, what, f"--set {request.field or 'FIELD'}=VALUE (once for each value)")
    out = []
    for (method, field), group in groupby(found, lambda sweep: (sweep.method, sweep.field)):
        mine = list(group)
        panels = [
            _sweep_panel(measure, _means(block, measure, request), mine, selected) for measure in request.measures
        ]
        drawn = [panel for panel in panels if panel is not None]
        if drawn:
            caption = (f"{method} with different values of {field} on {block.key.title}; all other settings are kept.",)
            ending = f"-{method}-{field}".replace("/", "-")
            out.append(panel_figure("ablation", block, drawn, caption, selected, ending=ending))
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
    measure: Measure, means: Mapping[str, Estimate], found: Sequence[Sweep], selected: SelectedRows
) -> Panel | None:
    places = sorted({value for sweep in found for value in sweep.values})
    swept = []
    for number, sweep in enumerate(found):
        pairs = zip(sweep.values, sweep.rows, strict=True)
        points = tuple((value, means[row.label]) for value, row in pairs if row.label in means)
        if points:
            label = f"{sweep.method} ({sweep.others})" if sweep.others else sweep.method
            swept.append(Series(label, Look(*PALETTE[number % len(PALETTE)]), points))
    if not swept:
        return None
    # The references have no such setting: a level line. A mark at its ends would look like a run.
    levels = [
        Series(
            label, replace(selected.looks[label], marker=""), ((places[0], means[label]), (places[-1], means[label]))
        )
        for label in (selected.original, selected.oracle)
        if label in means
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
