"""What an attacker gets back by fine-tuning: held-out forget HR@10 against the attack's step, one panel an attack."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.asked import Asked, arrow, lined, parts, unmeasured
from genrec_unlearn_bench.reporting.figures.curves import Cast, Tables, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.figure import Figure, Panel, Series
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["KIND", "draw"]

KIND = "relearning"
SERVED, ORIGINAL = "served", "original"
"""Spaces of semantic IDs that an attack trains and is scored in: the model's own, and that before unlearning."""
VARIANTS = ("served SIDs", "original SIDs")
_ATTACKS = {
    "mixed": "20 % concept targets",
    "forget-1": "1 % of the forget set",
    "forget-5": "5 % of the forget set",
    "forget-10": "10 % of the forget set",
    "forget-100": "All of the forget set",
    "benign": "Retain data alone",
}
"""As panels call them (methods sec. 11.2)."""


SCORED = "train"
"""The held-out forgotten interactions, of which the metrics are; ``test`` is the held-out users' future."""


def draw(block: Block, asked: Asked) -> tuple[Figure, ...]:
    """One figure, or more where there are many rows. Raises NotDrawn."""
    tables = read_tables(block, KIND, asked.protocol)
    if not tables.own:
        raise unmeasured(block, "relearning attacks (measurements/relearning.csv)", "--suite full --measure relearning")
    cast = asked.cast(block)
    out = []
    for mark, rows in parts(cast):
        labels = (cast.original, cast.oracle, *(row.label for row in rows))
        panels = _panels(tables, labels, cast, asked.protocol)
        if panels:
            caption = (
                f"Relearning attacks on {block.key.title}: forget HR@10 on concept interactions whose users and items "
                "the attack never saw, by steps of fine-tuning.",
                f"{cast.oracle} is under the same attack: what it regains is what the attack teaches and not what was "
                "left.",
            )
            out.append(lined(KIND, block, panels, caption, cast=cast, mark=mark, variants=VARIANTS))
    return tuple(out)


def _panels(tables: Tables, labels: tuple[str, ...], cast: Cast, protocol: StatisticsProtocol) -> list[Panel]:
    by_attack: dict[str, list[Series]] = {}
    for label in labels:
        found = estimates(
            tables.of(label),
            ("attack", "space", "step"),
            "hr@10",
            protocol,
            interval=("low", "high"),
            where={"part": SCORED},
        )
        curves: dict[tuple[str, str], list[tuple[float, tuple[str, ...]]]] = {}
        for place in found:
            attack, space, step = place
            if found[place].seeds:
                curves.setdefault((attack, space), []).append((float(step), place))
        for (attack, space), places in curves.items():
            ordered = sorted(places)
            second = space == ORIGINAL
            series = Series(
                label,
                cast.looks[label],
                tuple(x for x, _ in ordered),
                tuple(found[place] for _, place in ordered),
                variant=VARIANTS[second],
                second=second,
            )
            by_attack.setdefault(attack, []).append(series)
    order = [name for name in _ATTACKS if name in by_attack] + [name for name in by_attack if name not in _ATTACKS]
    return [_panel(attack, tuple(_distinct(by_attack[attack]))) for attack in order]


def _distinct(series: list[Series]) -> list[Series]:
    """Without the second space of rows that never changed it: it would be the same line twice."""
    served = {each.label: [y.mean for y in each.y] for each in series if not each.second}
    return [each for each in series if not each.second or [y.mean for y in each.y] != served.get(each.label)]


def _panel(attack: str, series: tuple[Series, ...]) -> Panel:
    steps = sorted({x for each in series for x in each.x})
    first = next((step for step in steps if step > 0), 1.0)
    way = arrow(f"relearning.hr@10.{attack}", Group.FORGET)
    return Panel(
        title=_ATTACKS.get(attack, attack),
        xlabel="attack step",
        ylabel=f"held-out HR@10 {way}".strip(),
        series=series,
        ticks=tuple((step, f"{step:g}") for step in steps),
        symlog=first,
        ylim=(0.0, None),
    )
