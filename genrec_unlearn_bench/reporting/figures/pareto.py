"""The trade that every method makes: how far its forgetting is from a retrained model's, against what it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Better
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.curves import mean_of
from genrec_unlearn_bench.reporting.figures.model import Estimate, Figure
from genrec_unlearn_bench.reporting.figures.request import Asked, axis_title, named, unmeasured
from genrec_unlearn_bench.reporting.figures.scatter import Mark, draw_scatter
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.wording import listed

__all__ = ["Trade", "draw_pareto", "front", "trades"]

OTHERS = ("popularity", "sasrec")
"""Reference rows that are recommenders of another kind, which unlearn nothing: shown where they are named."""
HEADS = (
    *("row", "kind", "front", "seeds", "gap", "gap_low", "gap_high", "distance"),
    *("retain", "retain_low", "retain_high", "retain_sd"),
)
"""Of the CSV: ``gap`` is forget HR@10 minus the oracle's of the same seed, ``distance`` its absolute mean; low and high
are t intervals."""


@dataclass(frozen=True)
class Trade:
    """One row.

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
        """From the oracle."""
        return abs(self.gap.mean)

    @property
    def reach(self) -> tuple[float, float]:
        """The interval of the gap, folded at 0."""
        low, high = self.gap.low, self.gap.high
        if not self.gap.banded:
            return math.nan, math.nan
        ends = sorted((abs(low), abs(high)))
        return (0.0 if low <= 0.0 <= high else ends[0]), ends[1]


def draw_pareto(kind: str, block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure. Raises NotDrawn without an oracle, UsageError for measures that are no forget and retain pair."""
    forget, retain = _measures(asked)
    if block.oracle is None:
        raise unmeasured(block, f"the row {asked.protocol.oracle}", method=asked.protocol.oracle)
    found = trades(block, asked, forget, retain)
    if not any(not trade.reference for trade in found):
        raise unmeasured(block, f"{forget.title} and {retain.title} of a method")
    best = front(found)
    cast = asked.cast(block)
    marks = tuple(
        Mark(
            label=trade.label,
            x=trade.distance,
            y=trade.kept.mean,
            reach=trade.reach,
            span=(trade.kept.low, trade.kept.high),
            role=_role(trade, asked),
            front=trade.label in best,
            below=trade.gap.mean < 0.0,
        )
        for trade in found
    )
    titles = (
        f"|{forget.title} − {asked.protocol.oracle}'s| (0 = as retrained)",
        axis_title(retain.title, retain.metric, retain.group),
    )
    counts = sorted({trade.gap.seeds for trade in found})
    seeds = "–".join(str(number) for number in dict.fromkeys((counts[0], counts[-1])))
    caption = (
        f"{retain.title[:1].upper()}{retain.title[1:]} against the distance of {forget.title} from "
        f"{asked.protocol.oracle}, {block.key.title}, beam {forget.beam}: means over {seeds} seeds, gaps taken seed "
        "by seed; whiskers: 95 % t intervals.",
        "Filled: no other method is better on both (by the means; this is no test). Triangles that point down: "
        f"less is recommended than {asked.protocol.oracle} does, which is over-forgetting.",
        *cast.notes,
    )
    return (
        Figure(
            name=named(kind, block),
            kind=kind,
            block=block.key,
            paint=partial(draw_scatter, marks, titles),
            caption=caption,
            heads=HEADS,
            rows=tuple(_row(trade, best) for trade in found),
        ),
    )


def trades(block: Block, asked: Asked, forget: Measure, retain: Measure) -> tuple[Trade, ...]:
    """Every row that is shown and has both measures; references first."""
    cast = asked.cast(block)
    shown = {cast.original, cast.oracle, *(row.label for row in cast.rows)}
    gaps = block.values(forget._replace(metric=f"gap.{forget.metric}"))
    kept = block.values(retain)
    out = []
    for place, row in enumerate(block.rows):
        gap, value = (mean_of(values[place], asked.protocol) for values in (gaps, kept))
        if row.label in shown and gap.seeds and value.seeds and (asked.methods or row.method not in OTHERS):
            finite = kept[place][np.isfinite(kept[place])]
            spread = float(np.std(finite, ddof=1)) if finite.size > 1 else math.nan
            out.append(Trade(row.label, row.kind == "reference", gap, value, spread))
    return tuple(out)


def front(found: Sequence[Trade]) -> frozenset[str]:
    """Labels of the methods that no other method beats: none is as near and keeps as much, and one of both more."""
    methods = [trade for trade in found if not trade.reference]

    def beaten(trade: Trade) -> bool:
        here = (trade.distance, -trade.kept.mean)
        others = ((other.distance, -other.kept.mean) for other in methods)
        return any(all(a <= b for a, b in zip(there, here, strict=True)) and there != here for there in others)

    return frozenset(trade.label for trade in methods if not beaten(trade))


def _measures(asked: Asked) -> tuple[Measure, Measure]:
    """The forget measure and the retain measure: the protocol's primary ones, or those that were named."""
    texts = asked.metrics or asked.protocol.primary
    chosen = [Measure.parse(text, beam=asked.width) for text in texts]
    forget = [measure for measure in chosen if measure.side == "forget"]
    retain = [measure for measure in chosen if measure.side == "retain" and measure.better is Better.HIGHER]
    if not forget or not retain:
        raise UsageError(
            f"{listed(texts)}: the Pareto figure needs a forget measure and a retain measure of which more is better",
            hint="--metric forget:hr@10,retain:ndcg@10",
        )
    return forget[0], retain[0]


def _role(trade: Trade, asked: Asked) -> str:
    if not trade.reference:
        return "method"
    return {asked.protocol.baseline: "original", asked.protocol.oracle: "oracle"}.get(trade.label, "reference")


def _row(trade: Trade, best: frozenset[str]) -> tuple[object, ...]:
    gap, kept = trade.gap, trade.kept
    kind = "reference" if trade.reference else "method"
    numbers = (gap.mean, gap.low, gap.high, trade.distance, kept.mean, kept.low, kept.high, trade.spread)
    return trade.label, kind, int(trade.label in best), gap.seeds, *numbers
