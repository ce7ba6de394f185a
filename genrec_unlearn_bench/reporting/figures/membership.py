"""Whether an attacker can tell forgotten interactions from such as were never trained on: AUC by score."""

from __future__ import annotations

from functools import partial

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, named, parts, reading, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import COLUMNS, Figure, Panel, Series, sheet
from genrec_unlearn_bench.reporting.figures.forest import draw_forest
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "membership"
SERVED = "own"
"""The space in which a model is served, as the table calls it; the other one is the original's."""
VARIANTS = ("served SIDs", "original SIDs")
_SCORES = {"loss": "LOSS", "min-k": "Min-k %", "min-k++": "Min-k %++", "reference": "Calibrated"}
"""As panels call them (methods sec. 11.4)."""


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(
            block, "membership inference (measurements/membership.csv)", "--suite full --measure membership"
        )
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        panels = tuple(_panels(tables, labels, cast, asked.protocol))
        if panels:
            out.append(
                Figure(
                    name=named(KIND, block, mark),
                    kind=KIND,
                    block=block.key,
                    paint=partial(draw_forest, panels, labels, variants=VARIANTS),
                    caption=(
                        f"Membership inference on {block.key.title}: AUC of telling forgotten interactions from "
                        "interactions of the same concept that no model was trained on.",
                        "The dotted line is chance.",
                        *reading(panels),
                        *cast.notes,
                    ),
                    heads=COLUMNS,
                    rows=sheet(panels),
                )
            )
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    by_score: dict[str, list[Series]] = {}
    for place, label in enumerate(labels):
        found = estimates(
            tables.of(label),
            ("score", "space"),
            "auc",
            protocol,
            interval=("auc_low", "auc_high"),
            where={"group": Group.FORGET.value},
        )
        for (score, space), estimate in found.items():
            second = space != SERVED
            served = found.get((score, SERVED))
            if estimate.seeds and not (second and served is not None and served.mean == estimate.mean):
                look = cast.looks[label]
                series = Series(label, look, (float(place),), (estimate,), variant=VARIANTS[second], second=second)
                by_score.setdefault(score, []).append(series)
    order = [score for score in _SCORES if score in by_score] + [score for score in by_score if score not in _SCORES]
    ticks = tuple((float(place), label) for place, label in enumerate(labels))
    return [
        Panel(
            title=_SCORES.get(score, score),
            xlabel=f"AUC {arrow(f'membership.auc.{score}', Group.FORGET)}".strip(),
            ylabel="",
            series=tuple(by_score[score]),
            ticks=ticks,
            line=0.5,
        )
        for score in order
    ]
