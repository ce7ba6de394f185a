"""How well a linear probe finds the concept in a model's hidden states: AUROC by layer, one panel a site."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import FLOOR_LABEL, Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import Figure, Panel, Series
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "probing"
_SITES = {
    "prompt": "Prompt: next-item state",
    "pooled": "Pooled: mean of input",
    "history": "History: concept items",
    "embedding": "Embedding: items",
}
"""As panels call the places where hidden states are taken, after the site in the metric's name."""


MOST_APART = 4
"""Layers up to which marks stand beside each other."""


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(block, "probed layers (measurements/probing.csv)", "--suite full --measure probing")
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows), FLOOR_LABEL)
        panels = _panels(tables, labels, cast, asked.protocol)
        if panels:
            caption = (
                f"Linear probes for the concept on {block.key.title}: AUROC on users and items that the probe never "
                "saw, by layer and place.",
                f"The dotted line is chance; {FLOOR_LABEL}: the same probe on an untrained model of the same shape.",
            )
            out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark))
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    by_site: dict[str, list[Series]] = {}
    for label in labels:
        found = estimates(tables.of(label), ("site", "layer"), "auroc", protocol, interval=("auroc_low", "auroc_high"))
        curves: dict[str, list[tuple[float, tuple[str, str]]]] = {}
        for site, layer in found:
            curves.setdefault(site, []).append((float(layer or 0), (site, layer)))
        for site, places in curves.items():
            ordered = [place for place in sorted(places) if found[place[1]].seeds]
            if ordered:
                x, y = tuple(x for x, _ in ordered), tuple(found[place] for _, place in ordered)
                by_site.setdefault(site, []).append(Series(label, cast.looks[label], x, y))
    order = [site for site in _SITES if site in by_site] + [site for site in by_site if site not in _SITES]
    return [_panel(site, tuple(by_site[site])) for site in order]


def _panel(site: str, series: tuple[Series, ...]) -> Panel:
    layers = sorted({x for each in series for x in each.x})
    step = max(1, round(len(layers) / 7))
    way = arrow(f"probing.auroc.{site}", Group.ALL)
    return Panel(
        title=_SITES.get(site, site),
        xlabel="layer",
        ylabel=f"probe AUROC {way}".strip(),
        series=series,
        ticks=tuple((layer, f"{layer:g}") for layer in layers[::step]),
        line=0.5,
        # Bands of many rows over each other are one grey; whiskers beside each other have room for a few layers.
        apart=len(layers) <= MOST_APART,
    )
