"""Whether an unlearned model treats forgotten interactions as a retrained one does: the truth ratio's distribution."""

from __future__ import annotations

from functools import partial

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, named, parts, reading, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, mean_of, read_tables
from genrec_unlearn_bench.reporting.figures.figure import COLUMNS, Estimate, Figure, Panel, Series, sheet
from genrec_unlearn_bench.reporting.figures.forest import draw_forest
from genrec_unlearn_bench.reporting.figures.style import Look
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "forget-quality"
KS_D = "forget-quality.ks.d"
_CEILING = Measure("forget-quality.ceiling.d", Group.FORGET)
_SINGLE = (
    (Measure(KS_D, Group.FORGET), "KS distance D"),
    (Measure("forget-quality.truth-ratio", Group.FORGET), "truth ratio"),
    (Measure("forget-quality.tow", Group.ALL), "ToW-rel"),
)
_TITLES = {Group.FORGET.value: "Forget", Group.RETAIN.value: "Retain"}


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows: distributions where results have them, else their distances.

    Raises NotDrawn.
    """
    tables = read_tables(block, KIND, asked.protocol)
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        if tables.own:
            panels = _panels(tables, labels, cast, asked.protocol)
            caption = (
                f"Truth ratio on {block.key.title}: the share of examples below a value, quantiles averaged over "
                f"seeds. Forgotten is what lies on {cast.oracle}'s curve.",
            )
            out += [lined(KIND, block, panels, caption, cast=cast, mark=mark)] if panels else []
        else:
            found = _distances(block, labels, cast, asked.protocol)
            out += [_forest(block, found, labels, cast, mark)] if found else []
    if not out:
        raise unmeasured(block, "truth ratios", "--suite full --measure forget-quality")
    return tuple(out)


def _forest(block: Block, panels: tuple[Panel, ...], labels: tuple[str, ...], cast: Cast, mark: str) -> Figure:
    return Figure(
        name=named(KIND, block, mark),
        kind=KIND,
        block=block.key,
        paint=partial(draw_forest, panels, labels, shared=False),
        caption=(
            f"Forget quality on {block.key.title}: how far the truth ratios of forgotten interactions are from those "
            f"of {cast.oracle}.",
            "Dotted: the distance between two retrained models.",
            *reading(panels),
            *cast.notes,
        ),
        heads=COLUMNS,
        rows=sheet(panels),
    )


def _distances(block: Block, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> tuple[Panel, ...]:
    place = {row.label: number for number, row in enumerate(block.rows)}
    ceiling = mean_of(block.values(_CEILING).ravel(), protocol)
    ticks = tuple((float(number), label) for number, label in enumerate(labels))
    out = []
    for measure, title in _SINGLE:
        values = block.values(measure)
        found = [(label, mean_of(values[place[label]], protocol)) for label in labels if label in place]
        series = tuple(
            Series(label, cast.looks[label], (float(labels.index(label)),), (each,))
            for label, each in found
            if each.seeds
        )
        if series:
            line = ceiling.mean if measure.metric == KS_D and ceiling.seeds else None
            axis = f"{title} {arrow(measure.metric, measure.group)}".strip()
            out.append(Panel("", axis, "", series, ticks, line=line))
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
