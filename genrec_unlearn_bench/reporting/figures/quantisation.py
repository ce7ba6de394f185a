"""What rounding of weights brings back on the forget side and costs on the retain side: HR@10 by bits."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import Figure, Panel, Series
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "quantisation"
METRIC = "hr@10"


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(
            block, "quantised models (measurements/quantisation.csv)", "--suite full --measure quantisation"
        )
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        panels = _panels(tables, labels, cast, asked.protocol)
        if panels:
            caption = (
                f"HR@10 on {block.key.title} after rounding weights to the nearest of 8 or 4 bits, one scale an output "
                "channel; 32: as unlearned.",
            )
            out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark))
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    out = []
    for group in (Group.FORGET, Group.RETAIN):
        series = []
        for label in labels:
            found = estimates(
                tables.of(label),
                ("bits", "scheme"),
                "value",
                protocol,
                interval=("low", "high"),
                where={"metric": METRIC, "group": group.value},
            )
            # Two schemes may have the same number of bits: by their names, whole weights first.
            measured = {(-float(bits), scheme): each for (bits, scheme), each in found.items() if each.seeds}
            if measured:
                series.append((label, measured))
        every = sorted({place for _, measured in series for place in measured})
        if every:
            drawn = tuple(
                Series(
                    label,
                    cast.looks[label],
                    tuple(float(every.index(place)) for place in sorted(measured)),
                    tuple(measured[place] for place in sorted(measured)),
                )
                for label, measured in series
            )
            bits = [minus for minus, _ in every]
            ticks = tuple(
                (float(place), scheme if scheme and bits.count(minus) > 1 else f"{-minus:g}")
                for place, (minus, scheme) in enumerate(every)
            )
            way = arrow(METRIC, group)
            out.append(
                Panel(
                    title=group.value.capitalize(),
                    xlabel="bits of a weight",
                    ylabel=f"{group.value} HR@10 {way}".strip(),
                    series=drawn,
                    ticks=ticks,
                    ylim=(0.0, None),
                    apart=True,
                )
            )
    return out
