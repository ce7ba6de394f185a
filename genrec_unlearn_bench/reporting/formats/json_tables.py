"""The JSON form of a leaderboard: the document that ``bench leaderboard --format json`` writes, with a version.

``tables`` say what stands where; ``blocks`` hold the numbers, each once. ``LeaderboardDocument.model_json_schema()`` is
the schema; ``schema_version`` rises when a field changes its meaning. Numbers have six significant digits; what does
not apply or was not measured is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis
from genrec_unlearn_bench.reporting.board import Row
from genrec_unlearn_bench.reporting.formats.notes import notes
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.reported import Beside, beside_notes
from genrec_unlearn_bench.reporting.selection import rows_shown
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import six

__all__ = ["BlockEntry", "CellEntry", "LeaderboardDocument", "document", "render_json"]

SCHEMA_VERSION = 1

Number = Annotated[float | None, AfterValidator(six)]
"""Six significant digits."""


class _FromResult(StrictModel):
    """Read off an object of the analysis by the names of its attributes."""

    model_config = ConfigDict(from_attributes=True)


class MeasureEntry(StrictModel):
    """A measure by its name in ``cells``: ``forget:hr@10/10`` is HR@10 on forget users at beam 10."""

    name: str
    metric: str
    group: str
    beam: int | None
    title: str
    unit: str
    better: str
    """higher, lower, oracle (the nearer to the retrained model) or none."""
    primary: bool
    separable: bool | None
    """Whether any method could be told from the best, so that best sets are marked; null where none are ranked."""
    margin: Number
    """Of equivalence to the oracle."""


class DifferenceEntry(_FromResult):
    """Row minus baseline, paired by seed."""

    estimate: Number
    low: Number
    high: Number
    n: int
    effect: Number
    """Hedges' g of the differences."""
    p: Number
    p_holm: Number
    p_sign_flip: Number
    exact: bool
    verdict: str


class EquivalenceEntry(_FromResult):
    """Row against the oracle's row, two one-sided tests."""

    estimate: Number
    low90: Number
    high90: Number
    p: Number
    n: int
    verdict: str


class CellEntry(_FromResult):
    """One row's measure over its seeds; ``seeds`` in the order of the block's seeds."""

    measure: str
    mean: Number
    sd: Number
    low: Number
    high: Number
    n: int
    seeds: tuple[Number, ...]
    mark: str
    rank: tuple[int, int] | None
    letters: str
    difference: DifferenceEntry | None
    equivalence: EquivalenceEntry | None


class RunEntry(_FromResult):
    """One run behind a row."""

    seed: int
    key: str
    diverged: bool
    place: str
    command: str


class RowEntry(StrictModel):
    """One method in a block."""

    label: str
    method: str
    kind: str
    source: str
    badge: str
    runs: tuple[RunEntry, ...]
    cells: tuple[CellEntry, ...]


class BlockEntry(StrictModel):
    """A block of comparable rows: one task on one backbone at one scale under one ruleset."""

    task: str
    backbone: str
    scale: str
    ruleset: str
    setup: str
    seeds: tuple[int, ...]
    baseline: str | None
    oracle: str | None
    tests_against_baseline: int
    tests_among_pairs: int
    measures: tuple[MeasureEntry, ...]
    rows: tuple[RowEntry, ...]


class ColumnEntry(StrictModel):
    """A column of a table."""

    task: str
    head: str
    measure: str
    decimals: int
    primary: bool


class SectionEntry(StrictModel):
    """Rows of one backbone, in order, by label."""

    backbone: str
    rows: tuple[str, ...]


class TableEntry(StrictModel):
    """Layout of one table; numbers are found in ``blocks`` by task, backbone, scale, ruleset, row and measure."""

    name: str
    layout: str
    title: str
    caption: str
    scale: str
    ruleset: str
    columns: tuple[ColumnEntry, ...]
    sections: tuple[SectionEntry, ...]
    notes: tuple[str, ...]


class StandingEntry(StrictModel):
    """A method over all blocks; methods that share a letter are not separable."""

    method: str
    mean_rank: Number
    letters: str


class AcrossEntry(StrictModel):
    """Friedman's test over blocks; without ``statistic`` where it was not made."""

    measure: str
    scale: str
    ruleset: str
    blocks: int
    statistic: Number
    p: Number
    standings: tuple[StandingEntry, ...]
    sentence: str
    notes: tuple[str, ...]


class ReportedEntry(_FromResult):
    """A published number beside ours."""

    task: str
    backbone: str
    method: str
    measure: str
    reported: Number
    reported_sd: Number
    ours: Number
    ours_sd: Number
    n: int
    broken: tuple[str, ...]
    """Bounds between metrics of the same lists that the published number breaks with its row."""


class LeaderboardDocument(StrictModel):
    """All that ``bench leaderboard --format json`` writes."""

    kind: Literal["genrec-unlearn-bench leaderboard"] = "genrec-unlearn-bench leaderboard"
    schema_version: int = SCHEMA_VERSION
    protocol: StatisticsProtocol
    tables: tuple[TableEntry, ...]
    blocks: tuple[BlockEntry, ...]
    across: tuple[AcrossEntry, ...]
    reported: tuple[ReportedEntry, ...] | None
    """null unless asked for."""
    reported_notes: tuple[str, ...]
    left_out: tuple[str, ...]


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
        reported=None if reported is None else tuple(ReportedEntry.model_validate(pair) for pair in reported),
        reported_notes=() if reported is None else beside_notes(reported),
        left_out=analysis.board.left_out,
    )


def _table(table: Table) -> TableEntry:
    return TableEntry(
        **{name: getattr(table, name) for name in ("name", "title", "caption", "scale", "ruleset")},
        layout=table.layout.name,
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
        **{name: getattr(key, name) for name in ("task", "backbone", "scale", "ruleset")},
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
        margin=block.margins.get(measure),
    )


def _row(block: BlockAnalysis, row: Row) -> RowEntry:
    source = row.first.source
    return RowEntry(
        label=row.label,
        method=row.method,
        kind=row.kind,
        source=source.name,
        badge=source.badge.value,
        runs=tuple(RunEntry.model_validate(run) for run in row.results.values()),
        cells=tuple(
            CellEntry.model_validate({"measure": measure.text, **vars(block.cell(row, measure))})
            for measure in block.measures
        ),
    )


def _across(each: Across) -> AcrossEntry:
    return AcrossEntry(
        **{name: getattr(each, name) for name in ("scale", "ruleset", "blocks", "sentence", "notes")},
        measure=each.measure.text,
        statistic=each.found.statistic if each.found is not None else None,
        p=each.found.p if each.found is not None else None,
        standings=tuple(
            StandingEntry(method=place.label, mean_rank=place.mean_rank, letters=place.letters)
            for place in each.standings
        ),
    )
