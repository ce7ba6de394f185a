"""The table model that every format draws: columns, sections of lines, entries, and the text of each cell.

Two rulesets are two tables, and so are two scales, suites and numbers of requests. Tasks are columns,
backbones sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from genrec_unlearn_bench.config import read_json
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, tasks
from genrec_unlearn_bench.evaluation.metric import MetricSpec
from genrec_unlearn_bench.pipeline.results import MANIFEST
from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis, Cell, Mark, Verdict, analyse
from genrec_unlearn_bench.reporting.board import Block, BlockKey, Board, Row
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS, Measure
from genrec_unlearn_bench.reporting.protocol import Layout, StatisticsProtocol, matching
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Equivalent
from genrec_unlearn_bench.reporting.wording import fixed, variants

DIVERGED = "‡"
_shipped = cache(tasks)
UNITS = {"seconds": "(s)", "MiB": "(MiB)"}
"""Of what is neither a share nor a count."""


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

    @property
    def full_title(self) -> str:
        """Title, unit and direction; without what the head says already."""
        title = self.title if self.title != self.head else ""
        unit = UNITS.get(self.measure.spec.unit, "")
        return " ".join(part for part in (title, unit, self.measure.arrow) if part)


@dataclass(frozen=True, eq=False)
class Entry:
    """The entry of a line and a column; ``cell`` is None where the method was not run on that task."""

    column: Column
    cell: Cell | None
    row: Row | None


@dataclass(frozen=True, eq=False)
class Line:
    """One row of a table."""

    label: str
    kind: Literal["reference", "method"]
    entries: tuple[Entry, ...]

    @property
    def diverged(self) -> tuple[str, ...]:
        """Tasks on which a run diverged, with the number of seeds: ``sports-brand (1 of 5)``."""
        found = {entry.column.top: entry.row for entry in self.entries if entry.row and entry.row.diverged}
        return tuple(f"{task} ({len(row.diverged)} of {len(row.results)})" for task, row in found.items())

    @property
    def name(self) -> str:
        """The label, not escaped; rows with a diverged run carry a dagger."""
        return f"{self.label} {DIVERGED}" if self.diverged else self.label


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
        blocks: The blocks behind it, for the paragraph, the footnotes and the bibliography.
    """

    name: str
    layout: Layout
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]
    blocks: tuple[BlockAnalysis, ...]
    analysis: Analysis

    @property
    def key(self) -> BlockKey:
        """Of any of its blocks: their regime, ruleset and scale are one."""
        return self.blocks[0].block.key

    @property
    def title(self) -> str:
        return f"{self.layout.title}: scale {self.key.scale}, ruleset {self.key.ruleset}"

    @property
    def protocol(self) -> StatisticsProtocol:
        return self.analysis.protocol

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks in it, as their columns are headed."""
        return tuple(dict.fromkeys(column.top for column in self.columns))


@lru_cache(maxsize=1)  # The page begins with the tables of the call that it is made for.
def make_tables(
    board: Board, layout: Layout, protocol: StatisticsProtocol, *, beam: int | None = None, baseline: str | None = None
) -> tuple[Table, ...]:
    """The tables of a layout.

    Args:
        beam: Of the list metrics; the protocol's where none is given.
        baseline: Row to test against; the layout's or the protocol's where none is given.

    Returns:
        A table for every regime, ruleset, scale and ``side_by_side`` tasks that have the same backbones; empty where
        no task is of the layout's kinds.

    Raises:
        DataMissing: No result has anything that the layout shows.
    """
    chosen = tuple(block for block in board.blocks if not layout.kinds or _kind(block) in layout.kinds)
    if not chosen:
        return ()
    width = beam or protocol.beam
    present = _present(chosen)
    groups = layout.groups(present, beam=width)
    untested = [text for group in layout.columns if not group.tested for text in group.measures]
    analysis = analyse(
        Board(chosen, board.left_out),
        protocol,
        measures=[measure for _, members in groups for measure in members],
        primary=matching(layout.primary, present, width) or protocol.measures(protocol.primary, width),
        baseline=baseline or layout.baseline,
        untested=frozenset(matching(untested, present, width)),
    )
    out: list[Table] = []
    for blocks in analysis.by_table():
        # What only another regime has measured is no column here.
        here = _present([block.block for block in blocks])
        shown = [(head, measure) for head, members in groups for measure in members if measure.base in here]
        if shown:
            out.extend(_tables(blocks, shown, layout, analysis))
    return tuple(out)


def _kind(block: Block) -> str:
    """Kind of a task's request: of a task that ships, by the end of its name, or by the manifest beside a result."""
    task = block.key.task
    ending = task.rpartition("-")[2]
    if task in _shipped():
        return _shipped()[task].concept.kind
    if ending in DEFAULT_CONCEPTS:
        return ending
    runs = (result for row in block.rows for result in row.results.values())
    return next((found.kind for run in runs if (found := read_json(TaskManifest, run.folder / MANIFEST))), "")


def _present(blocks: Iterable[Block]) -> tuple[Measure, ...]:
    """The measures of all blocks, in order of first appearance."""
    return tuple(dict.fromkeys(measure for block in blocks for measure in block.measures))


def _tables(
    blocks: Sequence[BlockAnalysis], shown: Sequence[tuple[str, Measure]], layout: Layout, analysis: Analysis
) -> Iterator[Table]:
    """The tables of one regime, ruleset and scale; tasks with the same backbones stand side by side."""
    alike: dict[frozenset[str], list[str]] = {}
    for task in dict.fromkeys(_task(block) for block in blocks):
        alike.setdefault(frozenset(one.block.key.backbone for one in blocks if _task(one) == task), []).append(task)
    width = layout.side_by_side
    chunks = [tasks[at : at + width] for tasks in alike.values() for at in range(0, len(tasks), width)]
    for number, here in enumerate(chunks, 1):
        members = tuple(block for block in blocks if _task(block) in here)
        columns = tuple(
            Column(task, head, measure, decimals(measure.spec), measure in members[0].primary)
            for task in here
            for head, measure in shown
        )
        sections = tuple(_sections(members, columns, layout))
        if sections:
            name = "-".join((layout.name, *members[0].block.key.table, *([str(number)] if len(chunks) > 1 else [])))
            yield Table(name, layout, columns, sections, members, analysis)


def _task(block: BlockAnalysis) -> str:
    """The task as a column is headed, with the setup's name where there are several."""
    key = block.block.key
    return f"{key.task} ({key.variant})" if key.variant else key.task


def _sections(blocks: Sequence[BlockAnalysis], columns: Sequence[Column], layout: Layout) -> Iterator[Section]:
    for backbone in dict.fromkeys(block.block.key.backbone for block in blocks):
        members = {_task(block): block for block in blocks if block.block.key.backbone == backbone}
        rows: dict[str, Row] = {}
        for row in (row for block in members.values() for row in block.block.rows):
            rows.setdefault(row.label, row)
        lines = [
            Line(row.label, row.kind, tuple(_entry(column, row.label, members.get(column.top)) for column in columns))
            for row in _shown(list(rows.values()), layout)
        ]
        if lines:
            yield Section(backbone, tuple(lines))


def _entry(column: Column, label: str, block: BlockAnalysis | None) -> Entry:
    row = block.block.by_label.get(label) if block else None
    return Entry(column, block.cell(row, column.measure) if block and row else None, row)


def _shown(rows: Sequence[Row], layout: Layout) -> list[Row]:
    references = [row for row in rows if row.kind == "reference"]
    methods = sorted((row for row in rows if row.kind == "method"), key=lambda row: row.label)
    if layout.rows == "all":
        return [*references, *methods]
    parent = variants()
    families = {parent[row.method] for row in rows if row.method in parent}
    kept = [row for row in methods if parent.get(row.method, row.method) in families]
    # Each method above its own variants.
    kept.sort(key=lambda row: (parent.get(row.method, row.method), row.method in parent, row.label))
    return [*references, *kept] if kept else []


def decimals(spec: MetricSpec) -> int:
    """Decimal places that a metric is shown with: as many as a test set of some thousand users can carry."""
    places = {"seconds": 1, "MiB": 0, "count": 0, "ratio": 2, "spreads": 1, "nats": 3, "%": 1}
    return places.get(spec.unit, 3 if spec.unit in ("AUC", "probability") else 4)


SIGNS = {Verdict.BETTER: "▲", Verdict.WORSE: "▼", Verdict.NOT_SEPARABLE: "", Verdict.UNDERPOWERED: "?"}
"""Against the baseline."""
EQUIVALENCE = {
    Equivalent.EQUIVALENT: "≈",
    Equivalent.IDENTICAL: "=",
    Equivalent.DIFFERENT: "≠",
    **dict.fromkeys((Equivalent.NOT_SHOWN, Equivalent.UNDERPOWERED), ""),
}
"""To the oracle."""


@dataclass(frozen=True)
class Shown:
    """The parts of one cell, empty where there is none."""

    number: str
    """The mean, or why there is none: – (not run, or not recorded), n/a (not measured), diverged."""
    spread: str = ""
    """Standard deviation over the seeds, or the number of seeds where there is only one."""
    sign: str = ""
    """Test against the baseline, and equivalence to the oracle."""
    rank: str = ""
    """Interval of ranks and letters, for primary measures."""
    mark: Mark = Mark.PLAIN

    @property
    def tail(self) -> str:
        """All but the number, with single spaces."""
        return " ".join(part for part in (self.spread, self.sign, self.rank) if part)


def show(entry: Entry) -> Shown:
    cell, column = entry.cell, entry.column
    if cell is None or entry.row is None:
        return Shown("–")
    if entry.row.diverged:
        # The runs that are left would flatter it.
        return Shown("diverged", f"{len(entry.row.diverged)} of {len(entry.row.results)}")
    if cell.mean is None:
        return Shown("–" if column.measure in RECORDED_COSTS else "n/a")
    difference, equivalence = cell.difference, cell.equivalence
    rank = ""
    if column.primary and cell.rank is not None:
        first, last = cell.rank
        rank = f"({first if first == last else f'{first}–{last}'}{f', {cell.letters}' if cell.letters else ''})"
    spread = f"± {fixed(cell.sd, column.decimals)}" if cell.sd is not None else f"n={cell.n}"
    sign = SIGNS[difference.verdict] if difference is not None else ""
    sign += EQUIVALENCE[equivalence.verdict] if equivalence is not None else ""
    return Shown(fixed(cell.mean, column.decimals), spread, sign, rank, cell.mark)
