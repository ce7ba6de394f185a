"""Forget quality: whether forgotten interactions are treated as by a retrained model, by their truth ratios."""

from __future__ import annotations

from functools import partial

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.curves import mean_of, read_tables
from genrec_unlearn_bench.reporting.figures.layout import draw_forest, draw_lines
from genrec_unlearn_bench.reporting.figures.measurements import Source, named_rows
from genrec_unlearn_bench.reporting.figures.model import Estimate, Figure, Look, Panel, Series
from genrec_unlearn_bench.reporting.figures.request import Asked, Cast, axis_title, panel_figure, unmeasured
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["draw_forget_quality"]

KS_D = "forget-quality.ks.d"
DISTANCES = (
    (Measure(KS_D, Group.FORGET), "KS distance D"),
    (Measure("forget-quality.truth-ratio", Group.FORGET), "truth ratio"),
    (Measure("forget-quality.tow", Group.ALL), "ToW-rel"),
)
CEILING = Measure("forget-quality.ceiling.d", Group.FORGET)


def draw_forget_quality(kind: str, block: Block, asked: Asked) -> tuple[Figure, ...]:
    """Distributions of truth ratios where results have them, else their distances. Raises NotDrawn."""
    tables = read_tables(block, kind, asked.protocol)
    cast = asked.cast(block)
    out = []
    for mark, labels in cast.figures():
        if tables.own:
            panels = _truth_ratios(Source(tables, labels, cast, asked.protocol))
            paint = partial(draw_lines, panels)
            caption: tuple[str, ...] = (
                f"Truth ratio on {block.key.title}: the share of examples below a value, quantiles averaged over "
                f"seeds. Forgotten is what lies on {cast.oracle}'s curve.",
            )
        else:
            panels = _distances(block, labels, cast, asked.protocol)
            paint = partial(draw_forest, panels, labels, shared=False)
            caption = (
                f"Forget quality on {block.key.title}: how far the truth ratios of forgotten interactions are from "
                f"those of {cast.oracle}.",
                "Dotted: the distance between two retrained models.",
            )
        if panels:
            out.append(panel_figure(kind, block, panels, paint, caption, cast=cast, mark=mark))
    if not out:
        raise unmeasured(block, "truth ratios", "--suite full --measure forget-quality")
    return tuple(out)


def _truth_ratios(source: Source) -> tuple[Panel, ...]:
    by_group: dict[str, list[Series]] = {}
    for label, found in source.read(("group", "quantile"), "truth_ratio"):
        curves: dict[str, list[tuple[float, float]]] = {}
        for (group, quantile), each in found.items():
            if quantile:
                curves.setdefault(group, []).append((float(quantile), each.mean))
        seeds = max((each.seeds for each in found.values()), default=0)
        for group, places in curves.items():
            places.sort(key=lambda place: place[0])
            heights = tuple(Estimate(quantile, seeds=seeds) for quantile, _ in places)
            series = Series(label, _without_marker(source.cast, label), tuple(x for _, x in places), heights)
            by_group.setdefault(group, []).append(series)
    out = []
    for group, found_series in by_group.items():
        values = [x for each in found_series for x in each.x if x > 0.0]
        out.append(
            Panel(
                title=group.capitalize() if group in ("forget", "retain") else group or "Forget",
                xlabel="truth ratio",
                ylabel="share of examples",
                series=tuple(found_series),
                ylim=(0.0, 1.0),
                # Ratios go over decades where a model is sure of what is wrong.
                symlog=0.1 if values and max(values) > 20.0 else 0.0,
            )
        )
    return tuple(out)


def _without_marker(cast: Cast, label: str) -> Look:
    """A distribution has a hundred points: no mark at each of them, but dashes of its own for a print in grey."""
    look = cast.looks[label]
    place = list(cast.looks).index(label)
    dashes = ((), (4.0, 1.5), (1.5, 1.2), (5.0, 1.2, 1.2, 1.2), (3.0, 1.0), (6.0, 2.0))
    dash = () if label in (cast.original, cast.oracle) else dashes[place % len(dashes)]
    return Look(look.colour, "", look.width, dash, look.order)


def _distances(block: Block, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> tuple[Panel, ...]:
    place = {row.label: number for number, row in enumerate(block.rows)}
    ceiling = mean_of(block.values(CEILING).ravel(), protocol)
    out = []
    for measure, title in DISTANCES:
        values = block.values(measure)
        found = [(label, mean_of(values[place[label]], protocol)) for label in labels if label in place]
        series = tuple(
            Series.of(label, cast.looks[label], [(float(labels.index(label)), each)])
            for label, each in found
            if each.seeds
        )
        if series:
            line = ceiling.mean if measure.metric == KS_D and ceiling.seeds else None
            axis = axis_title(title, measure.metric, measure.group)
            out.append(Panel("", axis, "", series, named_rows(labels), line=line))
    return tuple(out)
