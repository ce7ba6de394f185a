"""Tables as every format draws them: columns, sections of lines, entries and what has to be said below.

Two rulesets are two tables, two scales, two suites and two numbers of requests. Beside each other stand
tasks, below each other backbones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from genrec_unlearn_bench.evaluation.metric import MetricSpec
from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis, Cell, analyse
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.layouts import Layout
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import measures_of

__all__ = ["Column", "Entry", "Line", "Section", "Table", "make_tables"]


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        top: The task that it belongs to.
        head: Heading over several columns: Forget, Retain …
        primary: Whether the measure is in the confirmatory family.
    """

    top: str
    head: str
    measure: Measure
    decimals: int
    primary: bool

    @property
    def title(self) -> str:
        """HR@10, without what the head above it says already: that it is of forget users, in the original SIDs …"""
        title, head = self.measure.spec.title, self.head.casefold()
        base, _, inside = title.partition(" (")
        if inside and head.endswith(inside.removesuffix(")").casefold()):
            return base
        if title.casefold().startswith(f"{head} "):
            rest = title[len(head) + 1 :]
            return rest[1:-1] if rest.startswith("(") and rest.endswith(")") else rest
        return title


@dataclass(frozen=True, eq=False)
class Entry:
    """The entry of a line and a column; ``cell`` is None where the method was not run on that task."""

    column: Column
    cell: Cell | None
    row: Row | None
    block: BlockAnalysis | None


@dataclass(frozen=True, eq=False)
class Line:
    """One row of a table."""

    label: str
    kind: Literal["reference", "method"]
    entries: tuple[Entry, ...]
    diverged: tuple[str, ...] = ()
    """Tasks on which a run diverged, with the number of seeds: ``sports-brand (1 of 5)``."""


@dataclass(frozen=True, eq=False)
class Section:
    """Lines of one backbone; references first."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """One table.

    Attributes:
        name: Unique among the tables of a call, for files and labels: ``main-tuned-small-1``.
        regime: As ``BlockKey`` has it.
        blocks: The blocks behind it, for the paragraph, the footnotes and the bibliography.
    """

    name: str
    layout: Layout
    title: str
    caption: str
    scale: str
    ruleset: str
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]
    blocks: tuple[BlockAnalysis, ...]
    analysis: Analysis
    regime: str = ""

    @property
    def protocol(self) -> StatisticsProtocol:
        """The statistics protocol behind the marks."""
        return self.analysis.protocol

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks in it, as their columns are headed."""
        return tuple(dict.fromkeys(column.top for column in self.columns))


def make_tables(
    board: Board,
    layout: Layout,
    protocol: StatisticsProtocol,
    *,
    kinds: Mapping[str, str],
    beam: int | None = None,
    baseline: str | None = None,
    variant_of: Mapping[str, str] | None = None,
) -> tuple[Table, ...]:
    """The tables of a layout.

    Args:
        kinds: Kind of request of every task (brand, price, item, interaction).
        beam: Of the list metrics; the protocol's where none is given.
        baseline: Row to test against; the layout's or the protocol's where none is given.
        variant_of: The method that each variant belongs to, for layouts of variants.

    Returns:
        A table for every regime, ruleset, scale and ``side_by_side`` tasks; empty where no task is of the layout's
        kinds.

    Raises:
        DataMissing: No result has anything that the layout shows.
    """
    chosen = [block for block in board.blocks if not layout.kinds or kinds.get(block.key.task, "") in layout.kinds]
    if not chosen:
        return ()
    width = beam or protocol.beam
    present = _present(chosen)
    groups = layout.groups(present, beam=width)
    analysis = analyse(
        Board(tuple(chosen), board.left_out),
        protocol,
        measures=[measure for _, members in groups for measure in members],
        primary=layout.primary_measures(present, beam=width) or protocol.primary_measures(width),
        baseline=baseline or layout.baseline,
        untested=layout.untested(present, beam=width),
    )
    places: dict[tuple[str, str, str], list[BlockAnalysis]] = {}
    for block in analysis.blocks:
        key = block.block.key
        places.setdefault((key.regime, key.ruleset, key.scale), []).append(block)
    out: list[Table] = []
    for blocks in places.values():
        # What only another regime has measured is no column here.
        here = frozenset(_present([block.block for block in blocks]))
        columns = [(head, kept) for head, members in groups if (kept := tuple(m for m in members if m.base in here))]
        if columns:
            out.extend(_tables(blocks, columns, layout, analysis, variant_of or {}))
    return tuple(out)


def _present(blocks: Iterable[Block]) -> tuple[Measure, ...]:
    return measures_of(result for block in blocks for row in block.rows for result in row.results.values())


def _tables(
    blocks: Sequence[BlockAnalysis],
    groups: Sequence[tuple[str, tuple[Measure, ...]]],
    layout: Layout,
    analysis: Analysis,
    variant_of: Mapping[str, str],
) -> Iterator[Table]:
    """The tables of one regime, ruleset and scale."""
    key = blocks[0].block.key
    tasks = list(dict.fromkeys(_task(block) for block in blocks))
    several = len(tasks) > layout.side_by_side
    regime = [part.replace(" ", "-") for part in key.regime.split(", ") if part]
    for number, start in enumerate(range(0, len(tasks), layout.side_by_side), start=1):
        here = tasks[start : start + layout.side_by_side]
        members = tuple(block for block in blocks if _task(block) in here)
        columns = tuple(
            Column(task, head, measure, decimals(measure.spec), measure in members[0].primary)
            for task in here
            for head, shown in groups
            for measure in shown
        )
        sections = _sections(members, columns, layout, variant_of)
        if sections:
            yield Table(
                name="-".join((layout.name, *regime, key.ruleset, key.scale, *([str(number)] if several else []))),
                layout=layout,
                title=layout.title,
                caption=layout.caption,
                scale=key.scale,
                ruleset=key.ruleset,
                columns=columns,
                sections=sections,
                blocks=members,
                analysis=analysis,
                regime=key.regime,
            )


def decimals(spec: MetricSpec) -> int:
    """Decimal places that a metric is shown with: as many as a test set of some thousand users can carry."""
    places = {"seconds": 1, "MiB": 0, "count": 0, "ratio": 2, "spreads": 1, "nats": 3, "%": 1}
    return places.get(spec.unit, 3 if spec.unit in ("AUC", "probability") else 4)


def _task(block: BlockAnalysis) -> str:
    """The task as a column is headed, with the setup's name where there are several."""
    key = block.block.key
    return f"{key.task} ({key.variant})" if key.variant else key.task


def _sections(
    blocks: Sequence[BlockAnalysis], columns: Sequence[Column], layout: Layout, variant_of: Mapping[str, str]
) -> tuple[Section, ...]:
    out = []
    for backbone in dict.fromkeys(block.block.key.backbone for block in blocks):
        members = {_task(block): block for block in blocks if block.block.key.backbone == backbone}
        rows: dict[str, Row] = {}
        for block in members.values():
            for row in block.block.rows:
                rows.setdefault(row.label, row)
        shown = _shown(list(rows.values()), layout, variant_of)
        lines = tuple(_line(row, columns, members) for row in shown)
        if lines:
            out.append(Section(backbone, lines))
    return tuple(out)


def _shown(rows: Sequence[Row], layout: Layout, variant_of: Mapping[str, str]) -> list[Row]:
    references = [row for row in rows if row.kind == "reference"]
    methods = sorted((row for row in rows if row.kind == "method"), key=lambda row: row.label)
    if layout.rows == "all":
        return [*references, *methods]
    families = {variant_of[row.method] for row in rows if row.method in variant_of}
    kept = [row for row in methods if variant_of.get(row.method, row.method) in families]
    # Each method above its own variants.
    kept.sort(key=lambda row: (variant_of.get(row.method, row.method), row.method in variant_of, row.label))
    return [*references, *kept] if kept else []


def _line(row: Row, columns: Sequence[Column], blocks: Mapping[str, BlockAnalysis]) -> Line:
    entries = []
    diverged: dict[str, str] = {}
    for column in columns:
        block = blocks.get(column.top)
        here = next((other for other in block.block.rows if other.label == row.label), None) if block else None
        cell = block.cell(here, column.measure) if block is not None and here is not None else None
        entries.append(Entry(column, cell, here, block))
        if here is not None and here.diverged:
            diverged[column.top] = f"{column.top} ({len(here.diverged)} of {len(here.results)})"
    return Line(row.label, row.kind, tuple(entries), tuple(diverged.values()))
