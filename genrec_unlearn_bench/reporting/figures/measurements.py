"""Kinds of figures drawn from the tables of a measurement (``measurements/<name>.csv``): one panel a site, attack,
score or group, and every row of the block in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.curves import Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.layout import draw_forest, draw_lines
from genrec_unlearn_bench.reporting.figures.model import Estimate, Figure, Panel, Series
from genrec_unlearn_bench.reporting.figures.request import (
    FLOOR_LABEL,
    Asked,
    Cast,
    axis_title,
    panel_figure,
    unmeasured,
)
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KINDS", "Source", "draw_measured", "named_rows"]

SPACES = ("served SIDs", "original SIDs")
"""Semantic IDs that an attack trains and is scored in: the model's own, and those before unlearning."""
PROBED_SITES = {
    "prompt": "Prompt: next-item state",
    "pooled": "Pooled: mean of input",
    "history": "History: concept items",
    "embedding": "Embedding: items",
}
"""Panels by the site in the metric's name."""
ATTACKS = {
    "mixed": "20 % concept targets",
    "forget-1": "1 % of the forget set",
    "forget-5": "5 % of the forget set",
    "forget-10": "10 % of the forget set",
    "forget-100": "All of the forget set",
    "benign": "Retain data alone",
}
"""Panels by relearning attack (methods sec. 11.2)."""
MEMBERSHIP_SCORES = {"loss": "LOSS", "min-k": "Min-k %", "min-k++": "Min-k %++", "reference": "Calibrated"}
"""Panels by membership score (methods sec. 11.4)."""
STREAM_COLUMNS = (
    ("forget_hr@10", "This request", "forget HR@10", ("hr@10", Group.FORGET)),
    ("earlier_hr@10", "Earlier requests", "forget HR@10", ("hr@10", Group.FORGET)),
    ("so_far_hr@10", "All requests so far", "forget HR@10", ("hr@10", Group.FORGET)),
    ("retain_hr@10", "Retained users", "retain HR@10", ("hr@10", Group.RETAIN)),
    ("retain_ndcg@10", "Retained users", "retain NDCG@10", ("ndcg@10", Group.RETAIN)),
    ("share_of_retraining", "Cost so far", "retrainings", ("cost.share-of-retraining", Group.ALL)),
)
"""Columns of ``stream.csv``: title, axis, and the metric that declares which way is better."""
MOST_APART = 4
"""Layers up to which marks stand beside each other."""
K = TypeVar("K")
Points = list[tuple[float, Estimate]]


@dataclass(frozen=True, eq=False)
class Source:
    """The tables of one measurement for the rows of one figure."""

    tables: Tables
    labels: tuple[str, ...]
    cast: Cast
    protocol: StatisticsProtocol

    def read(
        self,
        key: Sequence[str],
        value: str,
        *,
        interval: tuple[str, str] | None = None,
        where: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[str, dict[tuple[str, ...], Estimate]]]:
        """Estimates of each row; see ``estimates``."""
        for label in self.labels:
            found = estimates(self.tables.of(label), key, value, self.protocol, interval=interval, where=where)
            yield label, {place: each for place, each in found.items() if each.seeds}

    def series(
        self, label: str, points: Points, *, second: bool = False, variants: tuple[str, str] = ("", "")
    ) -> Series:
        """The series of a row."""
        return Series.of(label, self.cast.looks[label], points, variants=variants, second=second)


@dataclass(frozen=True)
class _Kind:
    """One kind of figure.

    Attributes:
        missing, options: What no run of a block has, and options of ``bench run`` that would give it.
        caption: Sentences from the block's title and the oracle's label.
        forest: Whether panels have a mark a row, by name, in place of lines.
        floor: Whether an untrained model is shown as well.
    """

    missing: str
    options: str
    caption: Callable[[str, str], tuple[str, ...]]
    panels: Callable[[Source], Iterable[Panel]]
    variants: tuple[str, str] = ("", "")
    forest: bool = False
    floor: bool = False


def draw_measured(kind: str, block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure of a kind in ``KINDS``, or more where there are many rows. Raises NotDrawn."""
    spec = KINDS[kind]
    tables = read_tables(block, kind, asked.protocol)
    if not tables.own:
        raise unmeasured(block, spec.missing, spec.options)
    cast = asked.cast(block)
    out = []
    for mark, rows in cast.figures():
        labels = (*rows, FLOOR_LABEL) if spec.floor else rows
        panels = tuple(spec.panels(Source(tables, labels, cast, asked.protocol)))
        if panels:
            paint = (
                partial(draw_forest, panels, labels, variants=spec.variants)
                if spec.forest
                else partial(draw_lines, panels, variants=spec.variants)
            )
            caption = spec.caption(block.key.title, cast.oracle)
            out.append(panel_figure(kind, block, panels, paint, caption, cast=cast, mark=mark))
    return tuple(out)


def _probing(source: Source) -> Iterator[Panel]:
    by_site: dict[str, list[Series]] = {}
    for label, found in source.read(("site", "layer"), "auroc", interval=("auroc_low", "auroc_high")):
        for site, points in _grouped((site, float(layer or 0), each) for (site, layer), each in found.items()):
            by_site.setdefault(site, []).append(source.series(label, points))
    for site, series in _ordered(by_site, PROBED_SITES):
        layers = _positions(series)
        yield Panel(
            title=PROBED_SITES.get(site, site),
            xlabel="layer",
            ylabel=axis_title("probe AUROC", f"probing.auroc.{site}", Group.ALL),
            series=tuple(series),
            ticks=_ticks(layers, most=7),
            line=0.5,
            # Bands of many rows over each other are one grey; whiskers beside each other have room for a few layers.
            apart=len(layers) <= MOST_APART,
        )


def _relearning(source: Source) -> Iterator[Panel]:
    by_attack: dict[str, list[Series]] = {}
    # The part ``train`` is the held-out forgotten interactions; ``test`` is the held-out users' future.
    for label, found in source.read(
        ("attack", "space", "step"), "hr@10", interval=("low", "high"), where={"part": "train"}
    ):
        curves = _grouped(((attack, space), float(step), each) for (attack, space, step), each in found.items())
        for (attack, space), points in curves:
            series = source.series(label, points, second=space == "original", variants=SPACES)
            by_attack.setdefault(attack, []).append(series)
    for attack, found_series in _ordered(by_attack, ATTACKS):
        distinct = _distinct(found_series)
        steps = _positions(distinct)
        yield Panel(
            title=ATTACKS.get(attack, attack),
            xlabel="attack step",
            ylabel=axis_title("held-out HR@10", f"relearning.hr@10.{attack}", Group.FORGET),
            series=tuple(distinct),
            ticks=_ticks(steps),
            symlog=next((step for step in steps if step > 0), 1.0),
            ylim=(0.0, None),
        )


def _distinct(series: Sequence[Series]) -> list[Series]:
    """Without the second space of rows that never changed it: it would be the same line twice."""
    served = {each.label: [y.mean for y in each.y] for each in series if not each.second}
    return [each for each in series if not each.second or [y.mean for y in each.y] != served.get(each.label)]


def _membership(source: Source) -> Iterator[Panel]:
    by_score: dict[str, list[Series]] = {}
    read = source.read(("score", "space"), "auc", interval=("auc_low", "auc_high"), where={"group": Group.FORGET.value})
    for place, (label, found) in enumerate(read):
        for (score, space), each in found.items():
            second = space != "own"
            served = found.get((score, "own"))
            if not (second and served is not None and served.mean == each.mean):
                series = source.series(label, [(float(place), each)], second=second, variants=SPACES)
                by_score.setdefault(score, []).append(series)
    for score, found_series in _ordered(by_score, MEMBERSHIP_SCORES):
        yield Panel(
            title=MEMBERSHIP_SCORES.get(score, score),
            xlabel=axis_title("AUC", f"membership.auc.{score}", Group.FORGET),
            ylabel="",
            series=tuple(found_series),
            ticks=named_rows(source.labels),
            line=0.5,
        )


def _quantisation(source: Source) -> Iterator[Panel]:
    for group in (Group.FORGET, Group.RETAIN):
        where = {"metric": "hr@10", "group": group.value}
        measured = {
            # Two schemes may have the same number of bits: by their names, whole weights first.
            label: {(-float(bits), scheme): each for (bits, scheme), each in found.items()}
            for label, found in source.read(("bits", "scheme"), "value", interval=("low", "high"), where=where)
            if found
        }
        every = sorted({place for found in measured.values() for place in found})
        bits = [minus for minus, _ in every]
        if every:
            yield Panel(
                title=group.value.capitalize(),
                xlabel="bits of a weight",
                ylabel=axis_title(f"{group.value} HR@10", "hr@10", group),
                series=tuple(
                    source.series(label, [(float(every.index(place)), each) for place, each in found.items()])
                    for label, found in measured.items()
                ),
                ticks=tuple(
                    (float(place), scheme if scheme and bits.count(minus) > 1 else f"{-minus:g}")
                    for place, (minus, scheme) in enumerate(every)
                ),
                ylim=(0.0, None),
                apart=True,
            )


def _stream(source: Source) -> Iterator[Panel]:
    for column, title, axis, (metric, group) in STREAM_COLUMNS:
        series = []
        for label, found in source.read(("request",), column):
            points = [(float(request), each) for (request,), each in found.items() if request]
            series += [source.series(label, points)] if points else []
        if series:
            yield Panel(
                title=title,
                xlabel="request",
                ylabel=axis_title(axis, metric, group),
                series=tuple(series),
                ticks=_ticks(_positions(series), most=6),
                ylim=(0.0, None),
            )


def _grouped(points: Iterable[tuple[K, float, Estimate]]) -> Iterator[tuple[K, Points]]:
    out: dict[K, Points] = {}
    for key, x, each in points:
        out.setdefault(key, []).append((x, each))
    return iter(out.items())


def _ordered(by_key: Mapping[str, list[Series]], names: Mapping[str, str]) -> list[tuple[str, list[Series]]]:
    """Panels in the order of their names, then those that have none."""
    order = [key for key in names if key in by_key] + [key for key in by_key if key not in names]
    return [(key, by_key[key]) for key in order]


def _positions(series: Sequence[Series]) -> list[float]:
    return sorted({x for each in series for x in each.x})


def _ticks(positions: Sequence[float], *, most: int = 0) -> tuple[tuple[float, str], ...]:
    """Positions by their numbers; about ``most`` of them, or all."""
    step = max(1, round(len(positions) / most)) if most else 1
    return tuple((x, f"{x:g}") for x in positions[::step])


def named_rows(labels: Sequence[str]) -> tuple[tuple[float, str], ...]:
    return tuple((float(place), label) for place, label in enumerate(labels))


KINDS: Mapping[str, _Kind] = {
    "probing": _Kind(
        missing="probed layers (measurements/probing.csv)",
        options="--suite full --measure probing",
        caption=lambda title, oracle: (
            f"Linear probes for the concept on {title}: AUROC on users and items that the probe never saw, by layer "
            "and place.",
            f"The dotted line is chance; {FLOOR_LABEL}: the same probe on an untrained model of the same shape.",
        ),
        panels=_probing,
        floor=True,
    ),
    "relearning": _Kind(
        missing="relearning attacks (measurements/relearning.csv)",
        options="--suite full --measure relearning",
        caption=lambda title, oracle: (
            f"Relearning attacks on {title}: forget HR@10 on concept interactions whose users and items the attack "
            "never saw, by steps of fine-tuning.",
            f"{oracle} is under the same attack: what it regains is what the attack teaches and not what was left.",
        ),
        panels=_relearning,
        variants=SPACES,
    ),
    "membership": _Kind(
        missing="membership inference (measurements/membership.csv)",
        options="--suite full --measure membership",
        caption=lambda title, oracle: (
            f"Membership inference on {title}: AUC of telling forgotten interactions from interactions of the same "
            "concept that no model was trained on.",
            "The dotted line is chance.",
        ),
        panels=_membership,
        variants=SPACES,
        forest=True,
    ),
    "quantisation": _Kind(
        missing="quantised models (measurements/quantisation.csv)",
        options="--suite full --measure quantisation",
        caption=lambda title, oracle: (
            f"HR@10 on {title} after rounding weights to the nearest of 8 or 4 bits, one scale an output channel; 32: "
            "as unlearned.",
        ),
        panels=_quantisation,
    ),
    "stream": _Kind(
        missing="a stream of requests (measurements/stream.csv)",
        options="--requests 5",
        caption=lambda title, oracle: (
            f"A stream of requests on {title}: the forget set is asked for in parts, each applied to the last one's "
            "model.",
        ),
        panels=_stream,
    ),
}
