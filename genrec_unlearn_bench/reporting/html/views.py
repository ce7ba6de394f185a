"""The page's views: every layout at every beam, with the statistics of each block as the tables of other formats have
them.

Marks, ranks and corrected p-values depend on the family that a layout declares, so they belong to a view and not to a
measure. They come from ``make_tables``, block by block, which is what LaTeX and markdown are made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Cell, Mark, Verdict
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.formats.notes import legend, notes
from genrec_unlearn_bench.reporting.html.blocks import Table, packed, uniform
from genrec_unlearn_bench.reporting.html.payload_model import BlockView, Code
from genrec_unlearn_bench.reporting.layouts import Layout, layouts
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Equivalent
from genrec_unlearn_bench.reporting.tables import Table as MadeTable
from genrec_unlearn_bench.reporting.tables import make_tables

__all__ = ["EVERYTHING", "View", "block_view", "made_table", "plan_views"]

EVERYTHING = Layout.model_validate(
    {
        "name": "all",
        "title": "Every measurement",
        "caption": "All that was measured, as means with intervals. These columns belong to no family, so nothing is "
        "tested or ranked here.",
        "columns": [{"head": "All", "measures": ["*"]}],
    }
)
_SIDES = {"forget": "Forget", "retain": "Retain", "neighbours": "Collateral", "rest": "Collateral", "": "Model"}
_FAMILIES = {"overlap": "Tokens", "overlap-change": "Tokens", "cost": "Cost"}
_FIRST = ("main", "efficiency", "full")
"""Layouts that are given room first."""

_VERDICTS = {
    Verdict.BETTER: "b",
    Verdict.WORSE: "w",
    Verdict.NOT_SEPARABLE: "n",
    Verdict.UNDERPOWERED: "u",
}
_EQUIVALENCE = {
    Equivalent.EQUIVALENT: "e",
    Equivalent.IDENTICAL: "i",
    Equivalent.DIFFERENT: "d",
    Equivalent.NOT_SHOWN: "n",
    Equivalent.UNDERPOWERED: "u",
}
_MARKS = {Mark.BEST: "b", Mark.SECOND: "s", Mark.PLAIN: ""}


@dataclass(frozen=True)
class View:
    """A layout at a beam, with its columns over the whole board.

    Attributes:
        beam: None where it makes no difference.
        width: The beam that statistics are made with.
    """

    layout: Layout
    beam: int | None
    width: int
    groups: tuple[tuple[str, tuple[Measure, ...]], ...]
    primary: tuple[Measure, ...]

    @property
    def tested(self) -> bool:
        """Whether its measures belong to a family."""
        return self.layout is not EVERYTHING

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Its measures, each once, in the order of the columns."""
        return tuple(dict.fromkeys(measure for _, members in self.groups for measure in members))


def plan_views(present: Sequence[Measure], protocol: StatisticsProtocol, kinds: Iterable[str]) -> list[View]:
    """Every view that has a column: the protocol's beam before the others, the layouts that come first in papers first.

    Args:
        kinds: Kinds of request on the board.
    """
    given = {measure.beam for measure in present if measure.beam is not None} or {protocol.beam}
    beams = sorted(given, key=lambda beam: (beam != protocol.beam, beam))
    chosen = [layout for layout in layouts().values() if not layout.kinds or set(layout.kinds) & set(kinds)]
    chosen.sort(key=lambda layout: _FIRST.index(layout.name) if layout.name in _FIRST else len(_FIRST))
    out: list[View] = []
    for beam in beams:
        for layout in chosen:
            try:
                groups = layout.groups(present, beam=beam)
            except DataMissing:
                continue
            primary = layout.primary_measures(present, beam=beam) or protocol.primary_measures(beam)
            twin = next((view for view in out if view.layout is layout and view.groups == groups), None)
            if twin is not None:
                out[out.index(twin)] = View(layout, None, twin.width, groups, twin.primary)
            else:
                out.append(View(layout, beam, beam, groups, primary))
    return [*out, *(View(EVERYTHING, beam, beam, _by_side(present, beam), ()) for beam in beams)]


def made_table(
    block: Block,
    view: View,
    protocol: StatisticsProtocol,
    *,
    left_out: tuple[str, ...] = (),
    kinds: Mapping[str, str],
    baseline: str | None,
    variant_of: Mapping[str, str],
) -> MadeTable | None:
    """The table of one block alone; None where the view has nothing to show there."""
    try:
        made = make_tables(
            Board((block,), left_out),
            view.layout,
            protocol,
            kinds=kinds,
            beam=view.width,
            baseline=baseline,
            variant_of=variant_of,
        )
    except DataMissing:
        return None
    return made[0] if made else None


def block_view(
    table: MadeTable, view: View, *, codes: Table[Code], strings: Table[str], numbers: Mapping[Measure, int]
) -> BlockView:
    """The statistics of a view in the one block of a table."""
    block = table.blocks[0]
    known = set(block.measures)
    # The page has a legend of its own, as it draws marks in its own way.
    marks = set(legend(table, best="Bold", second="underlined"))
    columns = [
        [block.cell(row, measure) for row in block.block.rows] if measure in known else [] for measure in view.measures
    ]
    return BlockView(
        notes=tuple(
            strings.number(sentence) for sentence in notes(table, second="underlined") if sentence not in marks
        ),
        codes=tuple(uniform([codes.number(_code(cell)) for cell in column]) for column in columns),
        p=tuple(packed(_corrected(cell) for cell in column) for column in columns),
        raw=_raw(block, numbers),
        margins=tuple(block.margins.get(measure) for measure in view.measures),
    )


def _by_side(present: Sequence[Measure], beam: int) -> tuple[tuple[str, tuple[Measure, ...]], ...]:
    out: dict[str, list[Measure]] = {head: [] for head in (*_SIDES.values(), *_FAMILIES.values())}
    for measure in present:
        if measure.beam in (None, beam):
            family = measure.metric.partition(".")[0]
            out[_FAMILIES.get(family, _SIDES[measure.side])].append(measure)
    return tuple((head, tuple(members)) for head, members in out.items() if members)


def _code(cell: Cell) -> Code:
    first, last = cell.rank or (0, 0)
    verdict = ""
    if cell.difference is not None:
        verdict = _VERDICTS[cell.difference.verdict]
        verdict = verdict.upper() if cell.difference.exact else verdict
    equivalence = _EQUIVALENCE[cell.equivalence.verdict] if cell.equivalence is not None else ""
    return _MARKS[cell.mark], first, last, cell.letters, verdict, equivalence


def _corrected(cell: Cell) -> float | None:
    return cell.difference.p_holm if cell.difference is not None else None


def _raw(block: BlockAnalysis, numbers: Mapping[Measure, int]) -> dict[int, tuple[str, str]]:
    out = {}
    for measure in block.primary:
        if measure not in numbers:
            continue
        found = [block.cell(row, measure).difference for row in block.block.rows]
        out[numbers[measure]] = (
            packed(one.p if one is not None else None for one in found),
            packed(one.p_sign_flip if one is not None else None for one in found),
        )
    return out
