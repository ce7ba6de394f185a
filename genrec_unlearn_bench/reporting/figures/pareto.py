"""The Pareto figure: how far each row's forgetting is from a retrained model's, against what it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Better
from genrec_unlearn_bench.reporting.board import Block
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
    file_name,
    mean_of,
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
_FRONT, _BEHIND = PALETTE[0][0], "#555555"
_MORE = Look(_BEHIND, "^", width=0.0, hollow=True, size=4.6)
_LESS = replace(_MORE, marker="v")
_BEST = Look(_FRONT, "^", width=0.8, dash=(3.0, 1.5), size=4.6, order=3.0)
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
    forget, retain = _trade_measures(request)
    oracle = request.protocol.oracle
    if block.oracle is None:
        raise unmeasured(block, f"the row {oracle}", method=oracle)
    found = trades(block, request, forget, retain)
    if all(trade.reference for trade in found):
        raise unmeasured(block, f"{forget.title} and {retain.title} of a method")
    best = front(found)
    cast = Cast.of(block, request)
    counts = [trade.gap.seeds for trade in found]
    seeds = spanned((min(counts), max(counts)))
    caption = (
        f"{retain.title[:1].upper()}{retain.title[1:]} against the distance of {forget.title} from {oracle}, "
        f"{block.key.title}, beam {forget.beam}: means over {seeds} seeds, gaps taken seed by seed; whiskers: 95 % t "
        "intervals.",
        "Filled: no other method is better on both (by the means; this is no test). Triangles that point down: "
        f"less is recommended than {oracle} does, which is over-forgetting.",
        *cast.notes,
    )
    rows = tuple(
        (
            *(trade.label, "reference" if trade.reference else "method", int(trade.label in best), trade.gap.seeds),
            *(trade.gap.mean, trade.gap.low, trade.gap.high, trade.distance),
            *(trade.kept.mean, trade.kept.low, trade.kept.high, trade.spread),
        )
        for trade in found
    )
    figure = Figure(
        name=file_name("pareto", block.key),
        kind="pareto",
        block=block.key,
        panels=(_scatter(found, best, cast, forget, retain),),
        caption=caption,
        legend=_TRADE_LEGEND,
        table=(_TRADE_COLUMNS, *rows),
    )
    return (figure,)


def trades(block: Block, request: FigureRequest, forget: Measure, retain: Measure) -> tuple[Trade, ...]:
    """Every row that is shown and has both measures; references first."""
    cast = Cast.of(block, request)
    shown = {cast.original, cast.oracle, *(row.label for row in cast.rows)}
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


def _trade_measures(request: FigureRequest) -> tuple[Measure, Measure]:
    measures = request.measures
    forget = [measure for measure in measures if measure.side == "forget"]
    retain = [measure for measure in measures if measure.side == "retain" and measure.better is Better.HIGHER]
    if not forget or not retain:
        raise UsageError(
            f"{listed([measure.text for measure in measures])}: the Pareto figure needs a forget measure and a retain "
            "measure of which more is better",
            hint="--metric forget:hr@10,retain:ndcg@10",
        )
    return forget[0], retain[0]


def _scatter(found: Sequence[Trade], best: frozenset[str], cast: Cast, forget: Measure, retain: Measure) -> Panel:
    floor = _floor([trade.kept.mean for trade in found])
    references = {cast.original: _OF_ORIGINAL, cast.oracle: _OF_ORACLE}
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
    xs = [n for trade in found for n in (trade.distance, trade.reach[1]) if math.isfinite(n)]
    ys = [max(n, floor) for t in found for n in (t.kept.mean, t.kept.low, t.kept.high) if math.isfinite(n)]
    wide, margin = max(xs) or 1e-3, 0.12 * ((max(ys) - min(ys)) or 1e-3)
    least = min((trade.distance for trade in found if trade.distance > 0.0), default=wide)
    symlog = max(least, wide / _FINEST) if wide / least > _SPREAD else 0.0
    end = wide * (wide / symlog) ** 0.22 if symlog else 1.22 * wide
    return Panel(
        title="",
        xlabel=f"|{forget.title} − {cast.oracle}'s| (0 = as retrained)",
        ylabel=axis_title(retain.title, retain.metric, retain.group),
        series=tuple(series),
        style="scatter",
        ticks=_decades(symlog, wide) if symlog else (),
        line=0.0,
        symlog=symlog,
        xlim=(-0.55 * symlog if symlog else -0.05 * wide, end),
        ylim=(min(ys) - margin, max(ys) + margin),
    )


def _floor(kept: Sequence[float]) -> float:
    """Retain value below which marks are drawn at the edge."""
    values = sorted(kept, reverse=True)
    upper = values[: max(2, math.ceil(len(values) * 0.6))]
    floor = upper[-1] - _NEAR * max(upper[0] - upper[-1], 0.02 * abs(upper[0]))
    return floor if values[-1] < floor else -math.inf


def _decades(least: float, most: float) -> tuple[tuple[float, str], ...]:
    """Zero and the powers of ten by name, with unnamed ticks between them."""
    powers = range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)
    ticks = [(k * 10.0**power, f"{10.0**power:g}" if k == 1 else "") for power in powers for k in range(1, 10)]
    return (0.0, "0"), *(tick for tick in ticks if tick[0] < most)
