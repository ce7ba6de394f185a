"""The request for figures, the rows that a block's figures show, and names, axes and captions of figures."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.figures.model import (
    COLUMNS,
    FLOOR,
    ORACLE,
    ORIGINAL,
    ROWS,
    Figure,
    Look,
    NotDrawn,
    Panel,
    Width,
    looks,
    sheet,
)
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.wording import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

__all__ = ["FLOOR_LABEL", "Asked", "Cast", "axis_title", "cast_of", "named", "panel_figure", "unmeasured"]

FLOOR_LABEL = "random weights"
_ARROWS = {Better.LOWER: "↓", Better.HIGHER: "↑", Better.ORACLE: "→ retrain", Better.NONE: ""}


@dataclass(frozen=True, eq=False)
class Cast:
    """Rows that a block's figures show.

    Attributes:
        rows: Everybody but the original and the oracle, in the order of tables.
        looks: Of every label, the references' among them; the same in all figures of the block.
        original, oracle: Their labels.
        notes: Who is left out, as sentences.
    """

    rows: tuple[Row, ...]
    looks: Mapping[str, Look]
    original: str
    oracle: str
    notes: tuple[str, ...] = ()

    def of(self, rows: Sequence[Row]) -> Cast:
        """Some of the rows; they keep their looks unless two would share one."""
        labels = [row.label for row in rows]
        taken = [self.looks[label] for label in labels]
        fresh = looks(labels) if len(set(taken)) < len(taken) else {}
        return replace(self, rows=tuple(rows), looks={**self.looks, **fresh})

    def parts(self, most: int) -> list[tuple[Row, ...]]:
        """The rows in as few parts of about one size as have at most so many; one empty part where there are none."""
        number = max(1, math.ceil(len(self.rows) / most))
        size = math.ceil(len(self.rows) / number)
        return [self.rows[place : place + size] for place in range(0, len(self.rows), size or 1)] or [()]

    def figures(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A mark for the name of each figure of a block, and the labels in it: the references and as many rows as can
        be told apart."""
        found = self.parts(ROWS)
        for number, rows in enumerate(found, start=1):
            labels = (self.original, self.oracle, *(row.label for row in rows))
            yield (f"-{number}" if len(found) > 1 else ""), labels


@dataclass(frozen=True)
class Asked:
    """One request for figures.

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
        """Rows that figures of the block show."""
        return cast_of(block, self.protocol, self.methods)


def cast_of(block: Block, protocol: StatisticsProtocol, methods: Sequence[str] = ()) -> Cast:
    """Rows to show.

    Args:
        methods: Names or globs; where there are some, they choose among reference rows as well. The original and the
            oracle are always shown.
    """
    original, oracle = protocol.baseline, protocol.oracle
    others = [row for row in block.rows if row.label not in (original, oracle)]
    chosen = [
        row for row in others if not methods or any(row.method == p or fnmatchcase(row.method, p) for p in methods)
    ]
    diverged = [row for row in chosen if row.diverged]
    kept = tuple(row for row in chosen if not row.diverged)
    # Looks are given before anybody is hidden, so that a method looks the same in all figures of its block.
    look = looks([row.label for row in kept])
    notes = tuple(
        f"Left out: {row.label}, which diverged in {len(row.diverged)} of {len(row.results)} runs." for row in diverged
    )
    return Cast(kept, {**look, original: ORIGINAL, oracle: ORACLE, FLOOR_LABEL: FLOOR}, original, oracle, notes)


def unmeasured(block: Block, what: str, options: str = "", *, method: str = "") -> NotDrawn:
    """The fault that no run of a block has what a figure needs, with the run that would.

    Args:
        options: Of ``bench run``, beside those that say which block it is.
        method: To be run; the block's first where none is named.
    """
    key = block.key
    name = method or next((row for row in block.rows if row.kind == "method"), block.rows[0]).method
    call = f"bench run --task {key.task} --backbone {key.backbone} --scale {key.scale} --method {name} {options}"
    return NotDrawn(f"{key.title}: no run has {what}", hint=call.strip())


def named(kind: str, block: Block, mark: str = "") -> str:
    """A name for the files of a figure: letters, digits and hyphens, unlike that of any other block."""
    key = block.key
    parts_of = (kind, key.task, key.backbone, key.scale, key.ruleset, key.variant)
    plain = [re.sub(r"[^A-Za-z0-9+._]+", "-", part).strip("-.") for part in parts_of if part]
    digest = ""
    if any(re.search(r"[^A-Za-z0-9+._ -]", part) for part in parts_of):
        digest = "-" + hashlib.blake2b("\0".join(parts_of).encode(), digest_size=3).hexdigest()
    return "-".join(part for part in plain if part) + digest + mark


def axis_title(title: str, metric: str, group: Group) -> str:
    """A title with which way the metric is better; nothing for a metric that this version does not declare."""
    spec = metric_specs().get(metric)
    return f"{title} {_ARROWS[spec.better.get(group, Better.NONE)] if spec is not None else ''}".strip()


def panel_figure(
    kind: str,
    block: Block,
    panels: Sequence[Panel],
    paint: Callable[[Width], Canvas],
    caption: Iterable[str],
    *,
    cast: Cast,
    mark: str = "",
) -> Figure:
    """A figure of panels."""
    return Figure(
        name=named(kind, block, mark),
        kind=kind,
        block=block.key,
        paint=paint,
        caption=(*caption, *_reading(panels), *cast.notes),
        heads=COLUMNS,
        rows=sheet(panels),
    )


def _reading(panels: Sequence[Panel]) -> Iterator[str]:
    """Caption sentences: the meaning of bands and whiskers, and the number of seeds."""
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
        shown = {n: [label for label in labels if label != FLOOR_LABEL] or labels for n, labels in by_number.items()}
        yield f"Seeds: {', '.join(f'{n} ({listed(labels)})' for n, labels in sorted(shown.items(), reverse=True))}."
