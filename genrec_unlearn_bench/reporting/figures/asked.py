"""What a call asks of every kind of figure, and the words that all kinds share: names, axes, captions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.curves import FLOOR_LABEL, Cast, cast_of
from genrec_unlearn_bench.reporting.figures.figure import COLUMNS, Figure, NotDrawn, Panel, sheet
from genrec_unlearn_bench.reporting.figures.lines import draw_lines
from genrec_unlearn_bench.reporting.figures.style import ROWS
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.wording import listed

__all__ = ["Asked", "arrow", "lined", "named", "parts", "reading", "unmeasured"]

_ARROWS = {Better.LOWER: "↓", Better.HIGHER: "↑", Better.ORACLE: "→ retrain", Better.NONE: ""}


@dataclass(frozen=True)
class Asked:
    """What a call asks for.

    Attributes:
        methods: Names or globs; all where there are none.
        field: Swept field of a configuration, for ablations; every field that was swept where it is empty.
        metrics: Measures to show in an ablation; the protocol's primary ones where there are none.
        beam: Of list metrics.
    """

    protocol: StatisticsProtocol
    methods: tuple[str, ...] = ()
    field: str = ""
    metrics: tuple[str, ...] = ()
    beam: int | None = None

    @property
    def width(self) -> int:
        """The beam of list metrics."""
        return self.beam or self.protocol.beam

    def cast(self, block: Block) -> Cast:
        """Whom figures of the block show."""
        return cast_of(block, self.protocol, self.methods)


def unmeasured(block: Block, what: str, options: str = "", *, method: str = "") -> NotDrawn:
    """That no run of a block has what a figure needs, with the run that would.

    Args:
        options: Of ``bench run``, beside those that say which block it is.
        method: To be run; the block's first where none is named.
    """
    key = block.key
    name = method or next((row for row in block.rows if row.kind == "method"), block.rows[0]).method
    call = f"bench run --task {key.task} --backbone {key.backbone} --scale {key.scale} --method {name} {options}"
    return NotDrawn(f"{key.title}: no run has {what}", hint=call.strip())


def parts(cast: Cast) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """The rows of each figure of a block with a mark for its name, at most so many as can be told apart."""
    found = cast.parts(ROWS)
    for number, rows in enumerate(found, start=1):
        yield (f"-{number}" if len(found) > 1 else ""), rows


def named(kind: str, block: Block, mark: str = "") -> str:
    """A name for the files of a figure: letters, digits and hyphens, unlike that of any other block."""
    key = block.key
    parts_of = (kind, key.task, key.backbone, key.scale, key.ruleset, key.variant)
    plain = [re.sub(r"[^A-Za-z0-9+._]+", "-", part).strip("-.") for part in parts_of if part]
    digest = ""
    if any(re.search(r"[^A-Za-z0-9+._ -]", part) for part in parts_of):
        digest = "-" + hashlib.blake2b("\0".join(parts_of).encode(), digest_size=3).hexdigest()
    return "-".join(part for part in plain if part) + digest + mark


def arrow(metric: str, group: Group) -> str:
    """Which way a metric is better, as an axis says it; nothing for a metric that this version does not declare."""
    spec = metric_specs().get(metric)
    return _ARROWS[spec.better.get(group, Better.NONE)] if spec is not None else ""


def lined(
    kind: str,
    block: Block,
    panels: Sequence[Panel],
    caption: Iterable[str],
    *,
    cast: Cast,
    mark: str = "",
    variants: tuple[str, str] = ("", ""),
) -> Figure:
    """A figure of panels of lines."""
    found = tuple(panels)
    return Figure(
        name=named(kind, block, mark),
        kind=kind,
        block=block.key,
        paint=partial(draw_lines, found, variants=variants),
        caption=(*caption, *reading(found), *cast.notes),
        heads=COLUMNS,
        rows=sheet(found),
    )


def reading(panels: Sequence[Panel]) -> Iterator[str]:
    """What bands and whiskers are, and over how many seeds."""
    series = [each for panel in panels for each in panel.series]
    estimates = [each for one in series for each in one.y if each.seeds]
    kinds = {each.interval for each in estimates if each.banded}
    if "t over seeds" in kinds:
        yield "Bands and whiskers: 95 % t intervals over training seeds."
    if "of the measurement" in kinds:
        rows = "of rows with a single seed" if "t over seeds" in kinds else "of a single seed"
        yield f"Bands and whiskers {rows}: 95 % intervals of the measurement, over its examples."
    by_number: dict[int, list[str]] = {}
    for label in dict.fromkeys(each.label for each in series):
        most = max((e.seeds for one in series if one.label == label for e in one.y), default=0)
        if most:
            by_number.setdefault(most, []).append(label)
    if len(by_number) == 1:
        number = next(iter(by_number))
        yield f"{number} {'seed' if number == 1 else 'seeds'}."
    elif by_number:
        said = (f"{n} ({listed(_short(labels))})" for n, labels in sorted(by_number.items(), reverse=True))
        yield f"Seeds: {', '.join(said)}."


def _short(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if label != FLOOR_LABEL] or list(labels)
