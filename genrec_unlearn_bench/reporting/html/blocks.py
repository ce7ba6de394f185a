"""The blocks of the data block: rows, values by seed and provenance; and what a measure is, for the page's heads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.html.packing import Table, packed, uniform
from genrec_unlearn_bench.reporting.html.payload_model import BlockData, MeasureData, ProtocolData, SourceData
from genrec_unlearn_bench.reporting.html.runs import Ledger, run_columns
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Source
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.paired import paired_tests, t_interval
from genrec_unlearn_bench.reporting.tables import decimals

__all__ = ["block_data", "block_values", "measure_data", "protocol_data", "source_data"]

DIGEST_DIGITS = 12


def block_data(
    block: Block, ledger: Ledger, sources: Table[Source], *, since: int, baseline: str, dataset: str
) -> BlockData:
    """A block without its values and statistics."""
    rows = block.rows
    first = rows[0].first
    labels = [row.label for row in rows]
    return BlockData(
        task=block.key.task,
        backbone=block.key.backbone,
        scale=block.key.scale,
        ruleset=block.key.ruleset,
        regime=block.key.regime,
        variant=block.key.variant,
        dataset=dataset,
        seeds=block.seeds,
        oracle=rows.index(block.oracle) if block.oracle is not None else None,
        baseline=labels.index(baseline) if baseline in labels else None,
        encoder=first.encoder,
        backbone_config=ledger.configs.number(first.backbone_config),
        sid_config=ledger.configs.number(first.sid_config),
        dataset_digest=first.dataset_digest,
        task_digest=first.task_digest,
        label=tuple(labels),
        method=tuple(row.method for row in rows),
        kind="".join(row.kind[0] for row in rows),
        source=uniform([sources.number(row.first.source) for row in rows]),
        config=uniform([ledger.configs.number(row.first.method_config) for row in rows]),
        digest=tuple(row.first.method_digest[:DIGEST_DIGITS] for row in rows),
        diverged={place: row.diverged for place, row in enumerate(rows) if row.diverged},
        runs=run_columns(block, ledger, since=since),
        values={},
        views={},
    )


def block_values(block: Block, measures: Iterable[Measure], numbers: Mapping[Measure, int]) -> dict[int, str]:
    """Packed values by measure, [rows, seeds] row by row; measures without any are left out."""
    out = {}
    for measure in measures:
        column = packed(float(value) for value in block.values(measure).ravel())
        if column:
            out[numbers[measure]] = column
    return out


def measure_data(measure: Measure, protocol: StatisticsProtocol) -> MeasureData:
    """What the page says about a measure."""
    spec = measure.spec
    low, high = spec.range
    primary = measure in protocol.primary_measures(measure.beam)
    return MeasureData(
        id=measure.text,
        title=spec.title,
        side=measure.side,
        arrow=measure.arrow,
        better=measure.better.value,
        unit=spec.unit,
        decimals=decimals(spec),
        beam=measure.beam,
        about=spec.description,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        primary=primary,
    )


def protocol_data(protocol: StatisticsProtocol, *, baseline: str, most_seeds: int) -> ProtocolData:
    """The protocol, with the constants that turn values by seed into intervals and effect sizes."""
    counts = range(most_seeds + 1)
    return ProtocolData(
        name=protocol.name,
        alpha=protocol.alpha,
        confidence=protocol.confidence,
        seeds=protocol.seeds,
        baseline=baseline,
        oracle=protocol.oracle,
        beam=protocol.beam,
        equivalence_quantile=protocol.equivalence_quantile,
        t=tuple(_quantile(n, protocol.confidence) for n in counts),
        t90=tuple(_quantile(n, 1.0 - 2.0 * LEVEL) for n in counts),
        hedges=tuple(_correction(n) for n in counts),
    )


def source_data(source: Source) -> SourceData:
    """Whose results they are."""
    return SourceData(
        name=source.name,
        title=source.title,
        authors=source.authors,
        link=source.link,
        bibtex=source.bibtex,
        badge=source.badge.value,
    )


def _quantile(n: int, confidence: float) -> float:
    """Read off the interval of numbers whose standard error is known, so that there is one t in the suite."""
    if n < 2:
        return 0.0
    found = t_interval([_ladder(n)], confidence=confidence)
    return float((found.high[0] - found.mean[0]) / (found.sd[0] / math.sqrt(n)))


def _correction(n: int) -> float:
    if n < 3:
        return 0.0
    found = paired_tests([_ladder(n)])
    summary = t_interval([_ladder(n)])
    return float(found.effect[0] * summary.sd[0] / summary.mean[0])


def _ladder(n: int) -> list[float]:
    return [1.0 + step for step in range(n)]
