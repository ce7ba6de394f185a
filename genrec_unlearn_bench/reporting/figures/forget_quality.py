"""Whether an unlearned model treats forgotten interactions as a retrained one does: the truth ratio's distribution."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import Estimate, Figure, Panel, Series
from genrec_unlearn_bench.reporting.figures.style import Look
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "forget-quality"
_TITLES = {Group.FORGET.value: "Forget", Group.RETAIN.value: "Retain"}


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(
            block, "truth ratios (measurements/forget-quality.csv)", "--suite full --measure forget-quality"
        )
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        panels = _panels(tables, labels, cast, asked.protocol)
        if panels:
            caption = (
                f"Truth ratio on {block.key.title}: the share of examples below a value, quantiles averaged over "
                f"seeds. Forgotten is what lies on {cast.oracle}'s curve.",
            )
            out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark))
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    by_group: dict[str, list[Series]] = {}
    for label in labels:
        found = estimates(tables.of(label), ("group", "quantile"), "truth_ratio", protocol)
        curves: dict[str, list[tuple[float, float]]] = {}
        for (group, quantile), estimate in found.items():
            if estimate.seeds and quantile:
                curves.setdefault(group, []).append((estimate.mean, float(quantile)))
        for group, places in curves.items():
            places.sort(key=lambda place: place[1])
            seeds = max(estimate.seeds for estimate in found.values())
            heights = tuple(Estimate(quantile, seeds=seeds) for _, quantile in places)
            by_group.setdefault(group, []).append(
                Series(label, _plain(cast, label), tuple(x for x, _ in places), heights)
            )
    return [
        Panel(
            title=_TITLES.get(group, group or "Forget"),
            xlabel="truth ratio",
            ylabel="share of examples",
            series=tuple(series),
            ylim=(0.0, 1.0),
            symlog=_symlog(series),
        )
        for group, series in by_group.items()
    ]


def _plain(cast: Cast, label: str) -> Look:
    """A distribution has a hundred points: no mark at each of them, but dashes of its own for a print in grey."""
    look = cast.looks[label]
    place = list(cast.looks).index(label)
    dashes = ((), (4.0, 1.5), (1.5, 1.2), (5.0, 1.2, 1.2, 1.2), (3.0, 1.0), (6.0, 2.0))
    dash = () if label in (cast.original, cast.oracle) else dashes[place % len(dashes)]
    return Look(look.colour, "", look.width, dash, look.order)


def _symlog(series: list[Series]) -> float:
    """Ratios go over decades where a model is sure of what is wrong."""
    values = [x for each in series for x in each.x if x > 0.0]
    return 0.1 if values and max(values) > 20.0 else 0.0
