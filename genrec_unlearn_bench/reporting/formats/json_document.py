"""The JSON form of a leaderboard: the schema that ``bench leaderboard --format json`` writes, with a version.

``tables`` say what stands where; ``blocks`` hold the numbers, each once. ``LeaderboardDocument.model_json_schema()`` is
the schema; ``schema_version`` rises when a field changes its meaning. Numbers have six significant digits; what does
not apply or was not measured is null.
"""

from __future__ import annotations

from typing import Literal

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = [
    "SCHEMA_VERSION",
    "AcrossEntry",
    "BlockEntry",
    "CellEntry",
    "ColumnEntry",
    "DifferenceEntry",
    "EquivalenceEntry",
    "LeaderboardDocument",
    "MeasureEntry",
    "ReportedEntry",
    "RowEntry",
    "RunEntry",
    "SectionEntry",
    "StandingEntry",
    "TableEntry",
]

SCHEMA_VERSION = 1

Number = float | None


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


class DifferenceEntry(StrictModel):
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


class EquivalenceEntry(StrictModel):
    """Row against the oracle's row, two one-sided tests."""

    estimate: Number
    low90: Number
    high90: Number
    p: Number
    n: int
    verdict: str


class CellEntry(StrictModel):
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


class RunEntry(StrictModel):
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
    """What may be compared: one task on one backbone at one scale under one ruleset."""

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
    """What stands where; numbers are found in ``blocks`` by task, backbone, scale, ruleset, row and measure."""

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


class ReportedEntry(StrictModel):
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
