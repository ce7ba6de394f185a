"""What becomes of a model that is asked to forget again and again: each measure by request."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import Figure, Panel, Series
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "stream"
_COLUMNS = (
    ("forget_hr@10", "This request", "forget HR@10", ("hr@10", Group.FORGET)),
    ("earlier_hr@10", "Earlier requests", "forget HR@10", ("hr@10", Group.FORGET)),
    ("so_far_hr@10", "All requests so far", "forget HR@10", ("hr@10", Group.FORGET)),
    ("retain_hr@10", "Retained users", "retain HR@10", ("hr@10", Group.RETAIN)),
    ("retain_ndcg@10", "Retained users", "retain NDCG@10", ("ndcg@10", Group.RETAIN)),
    ("share_of_retraining", "Cost so far", "retrainings", ("cost.share-of-retraining", Group.ALL)),
)
"""Columns of ``stream.csv``: title, axis, and the metric that declares which way is better."""


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(block, "a stream of requests (measurements/stream.csv)", "--requests 5")
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        panels = _panels(tables, labels, cast, asked.protocol)
        if panels:
            caption = (
                f"A stream of requests on {block.key.title}: the forget set is asked for in parts, each applied to "
                "the last one's model.",
            )
            out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark))
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    out = []
    for column, title, axis, (metric, group) in _COLUMNS:
        series = []
        for label in labels:
            found = estimates(tables.of(label), ("request",), column, protocol)
            measured = [(float(request), each) for (request,), each in found.items() if request and each.seeds]
            measured.sort(key=lambda pair: pair[0])
            if measured:
                x, y = tuple(x for x, _ in measured), tuple(each for _, each in measured)
                series.append(Series(label, cast.looks[label], x, y))
        if series:
            requests = sorted({x for each in series for x in each.x})
            step = max(1, round(len(requests) / 6))
            out.append(
                Panel(
                    title=title,
                    xlabel="request",
                    ylabel=f"{axis} {arrow(metric, group)}".strip(),
                    series=tuple(series),
                    ticks=tuple((x, f"{x:g}") for x in requests[::step]),
                    ylim=(0.0, None),
                )
            )
    return out
