"""Tables for programs: one JSON document (``json_document``), made from the tables of one call.

The same numbers as in every other format, so that nobody has to read them back out of a page.
"""

from __future__ import annotations

from collections.abc import Sequence

from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis, Cell
from genrec_unlearn_bench.reporting.beside import Beside, beside_notes
from genrec_unlearn_bench.reporting.board import Row
from genrec_unlearn_bench.reporting.formats.json_document import (
    AcrossEntry,
    BlockEntry,
    CellEntry,
    ColumnEntry,
    DifferenceEntry,
    EquivalenceEntry,
    LeaderboardDocument,
    MeasureEntry,
    ReportedEntry,
    RowEntry,
    RunEntry,
    SectionEntry,
    StandingEntry,
    TableEntry,
)
from genrec_unlearn_bench.reporting.formats.notes import notes
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.numbers import six
from genrec_unlearn_bench.reporting.selection import rows_shown
from genrec_unlearn_bench.reporting.tables import Table

__all__ = ["document", "render_json"]


def render_json(
    tables: Sequence[Table], *, across: Sequence[Across] = (), reported: Sequence[Beside] | None = None
) -> str:
    """The document as text; ends with a line break. Infinities and NaN do not occur."""
    return document(tables, across=across, reported=reported).model_dump_json(indent=1) + "\n"


def document(
    tables: Sequence[Table], *, across: Sequence[Across] = (), reported: Sequence[Beside] | None = None
) -> LeaderboardDocument:
    """The tables of one call, which share one analysis."""
    analysis: Analysis = tables[0].analysis
    shown = rows_shown(tables)
    return LeaderboardDocument(
        protocol=analysis.protocol,
        tables=tuple(_table(table) for table in tables),
        blocks=tuple(_block(block, shown) for block in analysis.blocks),
        across=tuple(_across(each) for each in across),
        reported=None if reported is None else tuple(_reported(pair) for pair in reported),
        reported_notes=() if reported is None else beside_notes(reported),
        left_out=analysis.board.left_out,
    )


def _table(table: Table) -> TableEntry:
    return TableEntry(
        name=table.name,
        layout=table.layout.name,
        title=table.title,
        caption=table.caption,
        scale=table.scale,
        ruleset=table.ruleset,
        columns=tuple(
            ColumnEntry(task=c.top, head=c.head, measure=c.measure.text, decimals=c.decimals, primary=c.primary)
            for c in table.columns
        ),
        sections=tuple(
            SectionEntry(backbone=section.title, rows=tuple(line.label for line in section.lines))
            for section in table.sections
        ),
        notes=notes(table, best="best", second="second"),
    )


def _block(block: BlockAnalysis, shown: frozenset[tuple[str, str, str, str]]) -> BlockEntry:
    key = block.block.key
    return BlockEntry(
        task=key.task,
        backbone=key.backbone,
        scale=key.scale,
        ruleset=key.ruleset,
        setup=key.variant,
        seeds=block.block.seeds,
        baseline=block.baseline.label if block.baseline is not None else None,
        oracle=block.block.oracle.label if block.block.oracle is not None else None,
        tests_against_baseline=block.against_baseline,
        tests_among_pairs=block.pairs,
        measures=tuple(_measure(block, measure) for measure in block.measures),
        rows=tuple(
            _row(block, row) for row in block.block.rows if (key.backbone, key.scale, key.ruleset, row.label) in shown
        ),
    )


def _measure(block: BlockAnalysis, measure: Measure) -> MeasureEntry:
    return MeasureEntry(
        name=measure.text,
        metric=measure.metric,
        group=measure.group.value,
        beam=measure.beam,
        title=measure.title,
        unit=measure.spec.unit,
        better=measure.better.value,
        primary=measure in block.primary,
        separable=block.separable.get(measure),
        margin=six(block.margins.get(measure)),
    )


def _row(block: BlockAnalysis, row: Row) -> RowEntry:
    source = row.first.source
    return RowEntry(
        label=row.label,
        method=row.method,
        kind=row.kind,
        source=source.name,
        badge=source.badge.value,
        runs=tuple(
            RunEntry(seed=seed, key=run.key, diverged=run.diverged, place=run.place, command=run.command)
            for seed, run in row.results.items()
        ),
        cells=tuple(_cell(measure, block.cell(row, measure)) for measure in block.measures),
    )


def _cell(measure: Measure, cell: Cell) -> CellEntry:
    found, equal = cell.difference, cell.equivalence
    return CellEntry(
        measure=measure.text,
        mean=six(cell.mean),
        sd=six(cell.sd),
        low=six(cell.low),
        high=six(cell.high),
        n=cell.n,
        seeds=tuple(six(value) for value in cell.seeds),
        mark=cell.mark.value,
        rank=cell.rank,
        letters=cell.letters,
        difference=None
        if found is None
        else DifferenceEntry(
            estimate=six(found.estimate),
            low=six(found.low),
            high=six(found.high),
            n=found.n,
            effect=six(found.effect),
            p=six(found.p),
            p_holm=six(found.p_holm),
            p_sign_flip=six(found.p_sign_flip),
            exact=found.exact,
            verdict=found.verdict.value,
        ),
        equivalence=None
        if equal is None
        else EquivalenceEntry(
            estimate=six(equal.estimate),
            low90=six(equal.low90),
            high90=six(equal.high90),
            p=six(equal.p),
            n=equal.n,
            verdict=equal.verdict.value,
        ),
    )


def _across(each: Across) -> AcrossEntry:
    return AcrossEntry(
        measure=each.measure.text,
        scale=each.scale,
        ruleset=each.ruleset,
        blocks=each.blocks,
        statistic=six(each.found.statistic) if each.found is not None else None,
        p=six(each.found.p) if each.found is not None else None,
        standings=tuple(
            StandingEntry(method=place.label, mean_rank=six(place.mean_rank), letters=place.letters)
            for place in each.standings
        ),
        sentence=each.sentence,
        notes=each.notes,
    )


def _reported(pair: Beside) -> ReportedEntry:
    return ReportedEntry(
        task=pair.task,
        backbone=pair.backbone,
        method=pair.method,
        measure=pair.measure,
        reported=six(pair.reported),
        reported_sd=six(pair.reported_sd),
        ours=six(pair.ours),
        ours_sd=six(pair.ours_sd),
        n=pair.n,
        broken=pair.broken,
    )
