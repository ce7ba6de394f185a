"""The page's data from a board: everything the scripts show, as long as it fits into the page.

Views are given room in the order of ``plan_views``; one that would take the page beyond its budget is left out, and the
page says which. Pure: the same board gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.html.blocks import (
    Ledger,
    Table,
    block_data,
    block_values,
    measure_data,
    protocol_data,
    published_beside,
    seconds_of,
)
from genrec_unlearn_bench.reporting.html.method_pages import known_methods, method_pages
from genrec_unlearn_bench.reporting.html.payload_model import BlockData, BlockView, Code, Payload, SourceData, ViewData
from genrec_unlearn_bench.reporting.html.task_pages import task_pages
from genrec_unlearn_bench.reporting.html.views import View, block_view, made_table, plan_views
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.reported import ReportedCell
from genrec_unlearn_bench.reporting.results import Source, measures_of
from genrec_unlearn_bench.reporting.tables import Table as MadeTable

__all__ = ["BUDGET", "Built", "Extras", "build_payload"]

SCALES = ("smoke", "small", "official", "paper")
"""From the smallest."""
BUDGET = 1_850_000
"""Bytes of data; scripts, styles and the table that needs no scripts come on top, and the page stays below 2 MB."""


@dataclass(frozen=True)
class Extras:
    """Content of the page beside the board.

    Attributes:
        baseline: Label of the row that others are tested against; the protocol's where none is given.
        manifests: Folder with ``<task>.json``, for results that have no manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json`` from ``bench data sids --json``.
        reported: A paper's own numbers (``reported().cells``), shown beside ours where the reader asks for them.
        reported_notes: Sentences to show with them.
    """

    baseline: str | None = None
    manifests: Path | None = None
    health: Path | None = None
    reported: Sequence[ReportedCell] = ()
    reported_notes: Sequence[str] = ()


NOTHING = Extras()


@dataclass(frozen=True)
class Built:
    """The data, and the table that is shown where scripts do not run."""

    payload: Payload
    first: MadeTable | None


def build_payload(
    board: Board, protocol: StatisticsProtocol, *, title: str, extras: Extras = NOTHING, budget: int = BUDGET
) -> Built:
    """The page's data.

    Raises ProtocolMismatch and CorruptArtefact as ``make_board`` and ``analyse`` do.
    """
    return _Builder(board, protocol, extras).build(title, budget)


class _Builder:
    """One call's state: the tables that everything refers to by number."""

    def __init__(self, board: Board, protocol: StatisticsProtocol, extras: Extras) -> None:
        self.board, self.protocol, self.extras = board, protocol, extras
        self.baseline = extras.baseline or protocol.baseline
        self.results = [run for block in board.blocks for row in block.rows for run in row.results.values()]
        self.present = measures_of(self.results)
        self.numbers: dict[Measure, int] = {measure: number for number, measure in enumerate(self.present)}
        self.known = known_methods()
        self.variant_of = {name: entry.variant_of for name, entry in self.known.items() if entry.variant_of}
        self.tasks = task_pages(board.blocks, manifests=extras.manifests, health=extras.health)
        self.kinds = {name: page.kind for name, page in self.tasks.items()}
        self.ledger, self.codes = Ledger(), Table[Code]()
        self.sources: Table[Source] = Table()
        self.start = _first_block(board)
        self.first: MadeTable | None = None

    def build(self, title: str, budget: int) -> Built:
        """Base first, then view after view."""
        names = dict.fromkeys(row.method for block in self.board.blocks for row in block.rows)
        since = min((seconds_of(run.created) for run in self.results), default=0)
        blocks = [
            block_data(
                block,
                self.ledger,
                self.sources,
                since=since,
                baseline=self.baseline,
                dataset=self.tasks[block.key.task].dataset,
            )
            for block in self.board.blocks
        ]
        payload = Payload(
            title=title,
            protocol=protocol_data(
                self.protocol, baseline=self.baseline, most_seeds=max((len(b.seeds) for b in blocks), default=0)
            ),
            since=since,
            measures=tuple(measure_data(measure, self.protocol) for measure in self.present),
            views=(),
            blocks=tuple(blocks),
            codes=(),
            strings=self.ledger.strings.things,
            sources=tuple(SourceData.model_validate(source) for source in self.sources.things),
            configs=self.ledger.parsed(self.ledger.configs),
            environments=self.ledger.parsed(self.ledger.environments),
            methods=method_pages(list(names), known=self.known),
            tasks=self.tasks,
            reported=published_beside(self.extras.reported, blocks, self.numbers),
            reported_notes=tuple(self.extras.reported_notes),
            left_out=self.board.left_out,
            dropped=(),
            results=len({(run.key, run.source.name) for run in self.results}),
            start=self.start,
        )
        return self._with_views(payload, blocks, budget)

    def _with_views(self, payload: Payload, blocks: Sequence[BlockData], budget: int) -> Built:
        size = len(payload.model_dump_json().encode())
        held: set[Measure] = set()
        values: list[dict[int, str]] = [{} for _ in blocks]
        views: list[dict[int, BlockView]] = [{} for _ in blocks]
        kept: list[View] = []
        dropped: list[str] = []
        for view in plan_views(self.present, self.protocol, self.kinds.values()):
            fresh = [measure for measure in view.measures if measure not in held]
            columns = [block_values(block, fresh, self.numbers) for block in self.board.blocks]
            room = budget - size - sum(_size(column) for column in columns)
            if kept and room < self._least(view):
                dropped.append(_named(view))
                continue
            before = len(self.ledger.strings), len(self.codes)
            made = [self._statistics(block, view) for block in self.board.blocks]
            added = 400 + sum(len(text.encode()) + 3 for text in self.ledger.strings.things[before[0] :])
            added += sum(len(code[3]) + 32 for code in self.codes.things[before[1] :])
            added += sum(len(one.model_dump_json()) + 6 for one in made if one is not None)
            if kept and added > room:
                dropped.append(_named(view))
                self.ledger.strings.cut(before[0])
                self.codes.cut(before[1])
                continue
            size = budget - room + added
            held.update(fresh)
            for place, (column, one) in enumerate(zip(columns, made, strict=True)):
                values[place].update(column)
                if one is not None:
                    views[place][len(kept)] = one
            kept.append(view)
        done = payload.model_copy(
            update={
                "views": tuple(self._view(view) for view in kept),
                "codes": self.codes.things,
                "strings": self.ledger.strings.things,
                "dropped": tuple(dropped),
                "blocks": tuple(
                    block.model_copy(update={"values": columns, "views": statistics})
                    for block, columns, statistics in zip(blocks, values, views, strict=True)
                ),
            }
        )
        return Built(done, self.first)

    def _least(self, view: View) -> int:
        """Bytes that a view's statistics cannot do without: so nothing is tested that has no room anyway."""
        rows = sum(len(block.rows) for block in self.board.blocks if self.baseline in {row.label for row in block.rows})
        return 5 * rows * len(view.measures) if view.tested else 0

    def _statistics(self, block: Block, view: View) -> BlockView | None:
        if not view.tested:
            return None
        table = made_table(
            block, view, self.protocol, kinds=self.kinds, baseline=self.extras.baseline, variant_of=self.variant_of
        )
        if table is None:
            return None
        if self.first is None and block is self.board.blocks[self.start]:
            self.first = table
        return block_view(table, view, codes=self.codes, strings=self.ledger.strings, numbers=self.numbers)

    def _view(self, view: View) -> ViewData:
        return ViewData(
            layout=view.layout.name,
            title=view.layout.title,
            caption=" ".join(view.layout.caption.split()),
            beam=view.beam,
            groups=tuple((head, tuple(self.numbers[m] for m in members)) for head, members in view.groups),
            primary=tuple(self.numbers[measure] for measure in view.primary if measure in self.numbers),
            variants=view.layout.rows == "variants",
            tested=view.tested,
        )


def _named(view: View) -> str:
    return view.layout.title + (f" at beam {view.beam}" if view.beam is not None else "")


def _size(columns: Mapping[int, str]) -> int:
    return sum(len(text) + len(str(number)) + 6 for number, text in columns.items())


def _first_block(board: Board) -> int:
    """The block that a page opens on: the largest scale first, as small ones are for trying things, then most runs."""
    sizes = [
        (
            SCALES.index(block.key.scale) if block.key.scale in SCALES else -1,
            sum(len(row.results) for row in block.rows),
        )
        for block in board.blocks
    ]
    return sizes.index(max(sizes)) if sizes else 0
