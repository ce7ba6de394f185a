"""The Pareto figure: how far each row's forgetting is from a retrained model's, against what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Better
from genrec_unlearn_bench.reporting.board import Block
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
    unmeasured,
)
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.verdicts import pareto_front
from genrec_unlearn_bench.reporting.wording import listed, spanned

OTHERS = ("popularity", "sasrec")
"""Reference rows that are recommenders of another kind, which unlearn nothing: shown where they are named."""
_COLUMNS = (
    *("row", "kind", "front", "seeds", "gap", "gap_low", "gap_high", "distance"),
    *("retain", "retain_low", "retain_high"),
)
"""Of the CSV: ``gap`` is forget HR@10 minus the oracle's of the same seed, ``distance`` its absolute mean; low and high
are t intervals."""
_MORE = Look("#555555", "^", width=0.0, hollow=True, size=4.6)
_LESS = replace(_MORE, marker="v")
_BEST = Look(PALETTE[0][0], "^", width=0.8, dash=(3.0, 1.5), size=4.6, order=3.0)
_REFERENCE = Look("#909090", "s", width=0.0, size=3.8, order=3.0, edge="white")
_OF_ORIGINAL = Look("#000000", "X", width=0.0, size=5.2, order=3.0, edge="white")
_OF_ORACLE = Look("#000000", "*", width=0.0, size=7.0, order=3.0, edge="white")
_LEGEND = (
    ("remembers more than retrain", _MORE),
    ("names less than retrain", _LESS),
    ("front", _BEST),
    ("reference row", _REFERENCE),
)
_SPREAD, _FINEST = 15.0, 300.0
"""Largest over least distance from which the axis of distances is logarithmic beyond the least; and at most."""


@dataclass(frozen=True)
class Trade:
    """One row of the figure.

    Attributes:
        gap: Forget measure minus the oracle's of the same seed; below 0, less is recommended than a model that never
            saw it would recommend.
        kept: The retain measure.
    """

    label: str
    reference: bool
    gap: Estimate
    kept: Estimate

    @property
    def distance(self) -> float:
        return abs(self.gap.mean)

    @property
    def reach(self) -> tuple[float, float]:
        """The interval of the gap, folded at 0."""
        low, high = sorted((abs(self.gap.low), abs(self.gap.high)))
        return (0.0 if self.gap.low <= 0.0 <= self.gap.high else low), high


def draw_pareto(block: Block, request: FigureRequest) -> Figure:
    """The figure of a block.

    Raises NotDrawn without an oracle, UsageError for measures that are no pair of a forget and a retain measure.
    """
    forget, retain = _trade_measures(
        request.protocol.measures(request.metrics or request.protocol.primary, request.beam)
    )
    oracle = request.protocol.oracle
    if block.oracle is None:
        raise unmeasured(block, f"the row {oracle}", method=oracle)
    selected = SelectedRows.of(block, request)
    found = trades(block, request, selected, forget, retain)
    if all(trade.reference for trade in found):
        raise unmeasured(block, f"{forget.title} and {retain.title} of a method")
    best = front(found)
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
            *(trade.kept.mean, trade.kept.low, trade.kept.high),
        )
        for trade in found
    )
    looks = {selected.original: _OF_ORIGINAL, oracle: _OF_ORACLE}
    series = []
    # References and the front are named first, as they are what a reader looks for.
    for trade in sorted(found, key=lambda trade: (not trade.reference, trade.label not in best, trade.distance)):
        look = looks.get(trade.label, _REFERENCE)
        if not trade.reference:
            look = replace(_BEST if trade.label in best else _MORE, marker="v" if trade.gap.mean < 0.0 else "^")
        points = ((trade.distance, trade.kept),)
        series.append(Series(trade.label, look, points, reach=trade.reach, best=trade.label in best))
    distances = [trade.distance for trade in found]
    most = max(distances) or 1e-3
    least = max(min(filter(None, distances), default=most), most / _FINEST)
    panel = Panel(
        title="",
        xlabel=f"|{forget.title} − {oracle}'s|\n(0 = as retrained)",
        ylabel=axis_title(retain.title, retain.metric, retain.group),
        series=tuple(series),
        style="scatter",
        line=0.0,
        symlog=least if most / least > _SPREAD else 0.0,
    )
    name = file_name("pareto", block.key)
    return Figure(name, "pareto", block.key, (panel,), caption, rows, _COLUMNS, legend=_LEGEND)


def trades(
    block: Block, request: FigureRequest, selected: SelectedRows, forget: Measure, retain: Measure
) -> tuple[Trade, ...]:
    """Every row that is shown and has both measures; references first."""
    shown = {selected.original, selected.oracle, *(row.label for row in selected.rows)}
    gaps = block.values(forget._replace(metric=f"gap.{forget.metric}"))
    out = []
    for row, gap_values, kept_values in zip(block.rows, gaps, block.values(retain), strict=True):
        gap, kept = mean_of(gap_values, request.protocol), mean_of(kept_values, request.protocol)
        if row.label in shown and gap.seeds and kept.seeds and (request.methods or row.method not in OTHERS):
            out.append(Trade(row.label, row.kind == "reference", gap, kept))
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
            hint="name such a pair with --metric: forget:hr@10,retain:ndcg@10",
        )
    return forget[0], retain[0]
