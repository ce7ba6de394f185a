"""All cells of the tables one below the other, for spreadsheets and data frames.

With the keys of the runs behind every number, so that whoever wants another table can make it. Text from outside cannot
become a formula; our own numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis
from genrec_unlearn_bench.reporting.board import Row
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import csv_text, fields, six

LONG_COLUMNS = (
    *("task", "backbone", "scale", "ruleset", "setup", "row", "method", "kind", "source", "badge"),
    *("measure", "group", "metric", "beam", "unit", "better", "primary"),
    *("mean", "sd", "low", "high", "n", "values", "diverged_seeds", "mark", "rank_first", "rank_last", "letters"),
    *("baseline", "difference", "difference_low", "difference_high", "difference_n", "effect"),
    *("p", "p_holm", "p_sign_flip", "exact", "verdict"),
    *("equivalence", "equivalence_p", "margin", "keys", "protocol", "statistics"),
)
"""Columns of the long table. One row per block × row × measure; empty = does not apply or was not measured. ``low``,
``high``: the t interval of the mean. ``difference``: row minus baseline, paired by seed; of gaps, of their magnitudes.
``values`` and ``keys``: one part a seed, with spaces between, as in ``0=0.0525 1=na``."""


def long_csv(tables: Sequence[Table]) -> str:
    """Every cell of the rows in the tables of one call; see ``LONG_COLUMNS``."""
    out = io.StringIO()
    rows = ([csv_text(part) if isinstance(part, str) else part for part in row] for row in long_rows(tables))
    csv.writer(out, lineterminator="\n").writerows([LONG_COLUMNS, *rows])
    return out.getvalue()


def long_rows(tables: Sequence[Table]) -> Iterator[list[object]]:
    """The rows of the long table as plain values."""
    protocol = tables[0].protocol
    shown = {
        (block.block.key, line.label)
        for table in tables
        for block in table.blocks
        for section in table.sections
        if section.title == block.block.key.backbone
        for line in section.lines
    }
    for block in tables[0].analysis.blocks:
        for row in block.block.rows:
            if (block.block.key, row.label) in shown:
                yield from ([*line, protocol.suite_protocol, protocol.version] for line in _long_rows(block, row))


def _long_rows(block: BlockAnalysis, row: Row) -> Iterator[list[object]]:
    key, source = block.block.key, row.first.source
    place = [key.task, key.backbone, key.scale, key.ruleset, key.variant]
    who = [row.label, row.method, row.kind, source.name, source.badge_text]
    baseline = block.baseline.label if block.baseline is not None else None
    keys = " ".join(f"{seed}={result.key}" for seed, result in row.results.items())
    diverged = " ".join(map(str, row.diverged))
    for measure in block.measures:
        cell, spec = block.cell(row, measure), measure.spec
        what = (measure.text, measure.group.value, measure.metric, measure.beam, spec.unit, measure.better.value)
        values = [(seed, v) for seed, v in zip(block.block.seeds, cell.seeds, strict=True) if seed in row.results]
        by_seed = " ".join(f"{seed}={'na' if value is None else format(six(value), 'g')}" for seed, value in values)
        mean = (*fields(cell, "mean", "sd", "low", "high", "n").values(), by_seed, diverged)
        rank = (cell.mark.value, *(cell.rank or (None, None)), cell.letters)
        equal, found = cell.equivalence, cell.difference
        tests: list[object] = [None] * 11
        if found is not None:
            tests = [baseline, *fields(found, "estimate", "low", "high", "n", "effect").values()]
            tests += [*fields(found, "p", "p_holm", "p_sign_flip").values(), int(found.exact), found.verdict.value]
        tests += (equal.verdict.value, six(equal.p)) if equal is not None else (None, None)
        tests.append(six(block.margins.get(measure)))
        yield [*place, *who, *what, int(measure in block.primary), *mean, *rank, *tests, keys]
