"""Tables for spreadsheets and data frames: each table as it is seen (wide), and all cells one below the other (long).

The long one holds every number that any format shows, with the keys of the runs behind it, so that whoever wants
another table can make it. Text from outside cannot become a formula; our own numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.formats.json_tables import BlockEntry, CellEntry, document
from genrec_unlearn_bench.reporting.reported import Beside
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import csv_text, six

__all__ = ["LONG_COLUMNS", "across_csv", "long_csv", "reported_csv", "wide_csv"]

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
    several = len(table.tasks) > 1
    for column in table.columns:
        name = f"{column.top} {column.measure.text}" if several else column.measure.text
        heads += [csv_text(name), *(csv_text(f"{name} {part}") for part in ("sd", "n", "mark", "verdict"))]
    rows: list[list[object]] = []
    for section in table.sections:
        for line in section.lines:
            row: list[object] = [
                csv_text(section.title),
                csv_text(line.label),
                line.kind,
                csv_text("; ".join(line.diverged)),
            ]
            for entry in line.entries:
                cell = entry.cell
                if cell is None:
                    row += [None] * 5
                    continue
                verdict = cell.difference.verdict.value if cell.difference is not None else None
                row += [six(cell.mean), six(cell.sd), cell.n, cell.mark.value, verdict]
            rows.append(row)
    return _written(heads, rows)


def long_csv(tables: Sequence[Table]) -> str:
    """Every cell of the rows in the tables of one call; see ``LONG_COLUMNS``."""
    found = document(tables)
    protocol = (found.protocol.suite_protocol, found.protocol.version)
    return _written(LONG_COLUMNS, ([*row, *protocol] for block in found.blocks for row in _long_rows(block)))


def across_csv(found: Sequence[Across]) -> str:
    """Mean ranks over blocks; a comparison that was not made has one line that says why."""
    heads = ("measure", "scale", "ruleset", "blocks", "method", "mean_rank", "group", "chi_square", "p", "note")
    rows: list[list[object]] = []
    for each in found:
        place: list[object] = [each.measure.text, csv_text(each.scale), csv_text(each.ruleset), each.blocks]
        if each.found is None:
            rows.append([*place, *[None] * 5, csv_text(each.why_not)])
            continue
        test = [six(each.found.statistic), six(each.found.p)]
        note = csv_text(" ".join(each.notes))
        rows += [[*place, csv_text(p.label), six(p.mean_rank), p.letters, *test, note] for p in each.standings]
    return _written(heads, rows)


def reported_csv(found: Sequence[Beside]) -> str:
    """Published numbers beside ours; ``broken`` names the bounds that the published number breaks with its row."""
    heads = (
        *("block", "task", "backbone", "method", "measure"),
        *("reported", "reported_sd", "ours", "ours_sd", "n", "broken"),
    )
    rows = (
        [
            *(csv_text(part) for part in (pair.block, pair.task, pair.backbone, pair.method, pair.measure)),
            *(six(pair.reported), six(pair.reported_sd), six(pair.ours), six(pair.ours_sd), pair.n),
            csv_text("; ".join(pair.broken)),
        ]
        for pair in found
    )
    return _written(heads, rows)


def _long_rows(block: BlockEntry) -> Iterable[list[object]]:
    place = [csv_text(part) for part in (block.task, block.backbone, block.scale, block.ruleset, block.setup)]
    baseline = csv_text(block.baseline) if block.baseline is not None else None
    for row in block.rows:
        who = [csv_text(row.label), csv_text(row.method), row.kind, csv_text(row.source), row.badge]
        keys = csv_text(" ".join(f"{run.seed}={run.key}" for run in row.runs))
        diverged = " ".join(str(run.seed) for run in row.runs if run.diverged)
        seeds = {run.seed for run in row.runs}
        for measure, cell in zip(block.measures, row.cells, strict=True):
            # A metric's name is ours; it begins with a letter.
            what = (measure.name, measure.group, measure.metric, measure.beam, measure.unit, measure.better)
            values = [(seed, value) for seed, value in zip(block.seeds, cell.seeds, strict=True) if seed in seeds]
            by_seed = " ".join(f"{seed}={'na' if value is None else format(value, 'g')}" for seed, value in values)
            mean = (cell.mean, cell.sd, cell.low, cell.high, cell.n, by_seed, diverged)
            rank = (cell.mark, *(cell.rank or (None, None)), cell.letters)
            equal = cell.equivalence
            verdict = (equal.verdict, equal.p) if equal is not None else (None, None)
            tests = (*_difference(cell, baseline), *verdict, measure.margin)
            yield [*place, *who, *what, int(measure.primary), *mean, *rank, *tests, keys]


def _difference(cell: CellEntry, baseline: object) -> list[object]:
    found = cell.difference
    if found is None:
        return [None] * 11
    return [
        *(baseline, found.estimate, found.low, found.high, found.n, found.effect),
        *(found.p, found.p_holm, found.p_sign_flip, int(found.exact), found.verdict),
    ]


def _written(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue()
