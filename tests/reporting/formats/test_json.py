"""JSON: one document with a version that reads back as its models, without NaN, with every number once."""

from __future__ import annotations

import json

import pytest

from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.formats.json_tables import (
    SCHEMA_VERSION,
    LeaderboardDocument,
    document,
    render_json,
)
from genrec_unlearn_bench.reporting.layouts import layouts
from genrec_unlearn_bench.reporting.reported import beside
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.golden_files import golden
from tests.reporting.odd_names import ODD, odd_tables


def refuse(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


def test_golden_file() -> None:
    tables = make_synthetic_tables("main", make_records(tasks=("industrial-brand",), backbones=("letter",)))
    text = render_json(tables, across=across(tables[0].analysis), reported=beside(tables))
    assert text == golden(text, "json-main.json")


@pytest.mark.parametrize("layout", list(layouts()))
def test_it_reads_back_as_its_models(layout: str) -> None:
    tables = make_synthetic_tables(layout)
    text = render_json(tables, across=across(tables[0].analysis), reported=beside(tables))
    json.loads(text, parse_constant=refuse)
    assert LeaderboardDocument.model_validate_json(text) == document(
        tables, across=across(tables[0].analysis), reported=beside(tables)
    )
    assert json.loads(text)["schema_version"] == SCHEMA_VERSION


def test_every_line_of_a_table_is_found_in_the_blocks() -> None:
    found = document(make_synthetic_tables("main"))
    rows = {
        (block.backbone, block.scale, block.ruleset, row.label): {cell.measure for cell in row.cells}
        for block in found.blocks
        for row in block.rows
    }
    for table in found.tables:
        for section in table.sections:
            for label in section.rows:
                cells = rows[section.backbone, table.scale, table.ruleset, label]
                assert {column.measure for column in table.columns} <= cells


def test_cells_hold_the_analysis_with_six_digits() -> None:
    tables = make_synthetic_tables("main")
    block, entry = tables[0].analysis.blocks[0], document(tables).blocks[0]
    for row, line in zip(block.block.rows, entry.rows, strict=True):
        assert [run.key for run in line.runs] == [result.key for result in row.results.values()]
        for each, cell in zip(block.measures, line.cells, strict=True):
            mean = block.cell(row, each).mean
            assert cell.mean == (None if mean is None else float(f"{mean:.6g}"))


def test_odd_names_are_text() -> None:
    text = render_json(odd_tables())
    labels = {row.label for block in LeaderboardDocument.model_validate_json(text).blocks for row in block.rows}
    assert set(ODD) <= labels
    assert "\x1b" not in text


def test_the_schema_describes_every_field_that_needs_it() -> None:
    schema = json.dumps(LeaderboardDocument.model_json_schema())
    assert "bench leaderboard" in schema
    assert "Hedges" in schema
