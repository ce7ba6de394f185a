"""Tables for spreadsheets and data frames: each table as it is seen (wide), and all cells one below the other (long).

The long one holds every number that any format shows, with the keys of the runs behind it, so that whoever wants
another table can make it. Text from outside cannot become a formula; our own numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from genrec_unlearn_bench.reporting.across import Across
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
``high``: the t interval of the mean. ``difference``: row minus baseline, paired by seed. ``values`` and ``keys``: one
part a seed, with spaces between, as in ``0=0.0525 1=na``."""


def wide_csv(table: Table) -> str:
    """One table, a line for each row; for every column mean, sd, n, mark and verdict."""
    heads = ["backbone", "method", "kind", "diverged"]
    for column in table.columns:
        name = f"{column.top} {column.measure.text}" if len(table.tasks) > 1 else column.measure.text
        heads += [name, *(f"{name} {part}" for part in ("sd", "n", "mark", "verdict"))]
    rows: list[list[object]] = []
    for section in table.sections:
        for line in section.lines:
            row: list[object] = [section.title, line.label, line.kind, "; ".join(line.diverged)]
            for cell in (entry.cell for entry in line.entries):
                if cell is None:
                    row += [None] * 5
                else:
                    verdict = cell.difference.verdict.value if cell.difference is not None else None
                    row += [six(cell.mean), six(cell.sd), cell.n, cell.mark.value, verdict]
            rows.append(row)
    return _written(heads, rows)


def long_csv(tables: Sequence[Table]) -> str:
    """Every cell of the rows in the tables of one call; see ``LONG_COLUMNS``."""
    return _written(LONG_COLUMNS, long_rows(tables))


def long_rows(tables: Sequence[Table]) -> Iterator[list[object]]:
    """The rows of the long table as plain values."""
    protocol = tables[0].protocol
    shown = {
        (section.title, table.key.scale, table.key.ruleset, line.label)
        for table in tables
        for section in table.sections
        for line in section.lines
    }
    for block in tables[0].analysis.blocks:
        key = block.block.key
        for row in block.block.rows:
            if (key.backbone, key.scale, key.ruleset, row.label) in shown:
                yield from ([*line, protocol.suite_protocol, protocol.version] for line in _long_rows(block, row))


def across_csv(found: Sequence[Across]) -> str:
    """Mean ranks over blocks; a comparison that was not made has one line that says why."""
    heads = ("measure", "scale", "ruleset", "blocks", "method", "mean_rank", "group", "chi_square", "p", "note")
    rows: list[list[object]] = []
    for each in found:
        place: list[object] = [each.measure.text, each.scale, each.ruleset, each.blocks]
        if each.found is None:
            rows.append([*place, *[None] * 5, each.sentence])
            continue
        test = [six(each.found.statistic), six(each.found.p), " ".join(each.notes)]
        rows += [[*place, p.label, six(p.mean_rank), p.letters, *test] for p in each.standings]
    return _written(heads, rows)


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


def _written(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, all text of which no spreadsheet computes."""
    out = io.StringIO()
    lines = ([csv_text(part) if isinstance(part, str) else part for part in row] for row in (heads, *rows))
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()
