"""CSV: golden files; the long table holds every number; text cannot become a formula and our numbers stay numbers."""

from __future__ import annotations

import csv
import io
import math

import pytest

from genrec_unlearn_bench.reporting.formats.csv_tables import LONG_COLUMNS, long_csv
from genrec_unlearn_bench.reporting.wording import csv_text
from tests.reporting.boards import METHODS, make_records, make_synthetic_tables
from tests.reporting.golden_files import golden
from tests.reporting.odd_names import FORMULAS, odd_tables
from tests.reporting.planting import measure


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_golden_files() -> None:
    tables = make_synthetic_tables("main", make_records(tasks=("industrial-brand",), backbones=("letter",)))
    text = long_csv(tables)
    assert text == golden(text, "csv-main-long.csv")


def test_the_long_table_is_the_analysis_cell_by_cell() -> None:
    tables = make_synthetic_tables("main")
    rows = read(long_csv(tables))
    blocks = tables[0].analysis.blocks
    assert len(rows) == sum(len(block.block.rows) * len(block.measures) for block in blocks)
    assert tuple(rows[0]) == LONG_COLUMNS
    found = {(row["task"], row["backbone"], row["row"], row["measure"]): row for row in rows}
    for block in blocks:
        for row in block.block.rows:
            for each in block.measures:
                cell = block.cell(row, each)
                line = found[block.block.key.task, block.block.key.backbone, row.label, each.text]
                if cell.mean is None:
                    assert line["mean"] == ""
                else:
                    assert float(line["mean"]) == pytest.approx(cell.mean, rel=1e-5)
                assert int(line["n"]) == cell.n
                assert line["mark"] == cell.mark.value
                expected = "" if cell.difference is None else cell.difference.verdict.value
                assert line["verdict"] == expected
                keys = dict(part.split("=") for part in line["keys"].split())
                assert keys == {str(seed): run.key for seed, run in row.results.items()}
                values = dict(part.split("=") for part in line["values"].split())
                assert set(values) == set(keys)
                assert sum(value != "na" for value in values.values()) == cell.n


def test_a_row_that_only_another_tasks_table_shows_is_left_out() -> None:
    variants = make_records(tasks=("a-brand",))
    none = make_records(tasks=("b-brand",), backbones=("letter",), methods={"tracer": METHODS["tracer"]})
    rows = {(row["task"], row["row"]) for row in read(long_csv(make_synthetic_tables("ablation", [*variants, *none])))}
    assert ("a-brand", "tracer") in rows
    assert not any(task == "b-brand" for task, _ in rows)


def test_every_numeric_column_reads_as_numbers() -> None:
    for row in read(long_csv(make_synthetic_tables("main"))):
        for name in ("mean", "sd", "low", "high", "difference", "difference_low", "effect", "p", "p_holm", "margin"):
            if row[name]:
                assert math.isfinite(float(row[name]))
    # A negative difference is a number, not a text with an apostrophe.
    assert any(row["difference"].startswith("-") for row in read(long_csv(make_synthetic_tables("main"))))


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_text(text: str) -> None:
    assert csv_text(text).startswith("'")


@pytest.mark.parametrize("text", ["tracer", "flat+", "a-b", "5", "a=b", "ours (lr=1)"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert csv_text(text) == text


def test_no_cell_of_an_odd_board_computes_and_every_line_has_its_columns() -> None:
    tables = odd_tables()
    lines = list(csv.reader(io.StringIO(long_csv(tables))))
    assert {len(line) for line in lines} == {len(lines[0])}
    for line in lines[1:]:
        for cell in line:
            if cell[:1] in tuple("=+-@\t\r"):
                float(cell)
            assert "\x1b" not in cell
            assert "\u202e" not in cell


def test_gaps_may_be_negative_numbers() -> None:
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.selection import chosen_layout
    from genrec_unlearn_bench.reporting.tables import make_tables
    from tests.reporting.planting import board_of, rows

    board = board_of(rows(retrain=[0.3, 0.31, 0.3], tracer=[0.1, 0.12, 0.11]))
    tables = make_tables(board, chosen_layout(["forget:gap.hr@10"], beam=10), statistics_protocol(1))
    gap = measure("forget:gap.hr@10").text
    (row,) = (row for row in read(long_csv(tables)) if (row["row"], row["measure"]) == ("tracer", gap))
    assert float(row["mean"]) == pytest.approx(-0.193333)
