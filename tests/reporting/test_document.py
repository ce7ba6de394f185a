"""The JSON document: plain, with a version, without NaN, and with every number of the analysis."""

from __future__ import annotations

import json
from typing import Any

import pytest

from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.analysis import Mark
from genrec_unlearn_bench.reporting.board import Row
from genrec_unlearn_bench.reporting.document import SCHEMA_VERSION, document, render_json, role_of
from genrec_unlearn_bench.reporting.protocol import layouts
from genrec_unlearn_bench.reporting.reported import reported_comparisons
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import six
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.golden_files import golden
from tests.reporting.odd_names import ODD, odd_tables


def refuse(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


def every_number(content: object) -> list[float]:
    if isinstance(content, dict):
        return [number for value in content.values() for number in every_number(value)]
    if isinstance(content, list):
        return [number for value in content for number in every_number(value)]
    return [content] if isinstance(content, float) else []


def test_golden_file() -> None:
    tables = make_synthetic_tables("main", make_records(tasks=("industrial-brand",), backbones=("letter",)))
    text = render_json(tables, across=across(tables[0].analysis), reported=reported_comparisons(tables))
    assert text == golden(text, "json-main.json")


@pytest.mark.parametrize("layout", list(layouts(1)))
def test_it_is_plain_json_with_six_digits(layout: str) -> None:
    tables = make_synthetic_tables(layout)
    text = render_json(tables, across=across(tables[0].analysis), reported=reported_comparisons(tables))
    found = json.loads(text, parse_constant=refuse)
    assert found["schema_version"] == SCHEMA_VERSION == 2
    assert found == json.loads(
        json.dumps(document(tables, across=across(tables[0].analysis), reported=reported_comparisons(tables)))
    )
    assert all(number == six(number) for number in every_number(found))


def test_every_line_and_column_of_a_table_is_found_in_the_blocks() -> None:
    found = document(make_synthetic_tables("main"))
    for table in found["tables"]:
        for section in table["sections"]:
            blocks = [
                block
                for block in found["blocks"]
                if all(block[key] == table[key] for key in ("scale", "ruleset"))
                and block["backbone"] == section["backbone"]
            ]
            assert blocks
            assert set(section["rows"]) == {row["label"] for block in blocks for row in block["rows"]}
            tasks = {block["task"]: block for block in blocks}
            for column in table["columns"]:
                assert column["measure"] in tasks[column["task"]]["cells"]
                assert column["measure"] in found["measures"]


def cell_at(columns: dict[str, Any], name: str, place: int) -> Any:
    return columns[name][place] if name in columns else None


@pytest.fixture(scope="module")
def main() -> tuple[tuple[Table, ...], dict[str, Any]]:
    tables = make_synthetic_tables("main")
    return tables, document(tables)


def test_cells_and_families_are_those_of_the_analysis(main: tuple[tuple[Table, ...], dict[str, Any]]) -> None:
    tables, found = main
    seen = 0
    for analysis, block in zip(
        sorted(tables[0].analysis.blocks, key=lambda b: b.block.key), found["blocks"], strict=True
    ):
        family = block["layouts"]["main"]
        assert family["tests_against_baseline"] == analysis.against_baseline
        for measure in analysis.measures:
            columns, tested = block["cells"].get(measure.text, {}), family["columns"].get(measure.text, {})
            for place, row in enumerate(analysis.block.rows):
                cell = analysis.cell(row, measure)
                assert cell_at(columns, "mean", place) == six(cell.mean)
                assert cell_at(columns, "low", place) == six(cell.low)
                if columns:
                    assert columns["seeds"][place] == [six(value) for value in cell.seeds]
                likeness = cell_at(columns.get("equivalence", {}), "verdict", place)
                assert likeness == (cell.equivalence.verdict.value if cell.equivalence else None)
                if row.label not in family["rows"]:
                    assert cell.difference is None
                    continue
                ranked = family["rows"].index(row.label)
                assert cell_at(tested, "mark", ranked) == (cell.mark.value if cell.mark is not Mark.PLAIN else None)
                assert cell_at(tested, "rank", ranked) == cell.rank
                difference = tested.get("difference", {})
                assert cell_at(difference, "p_holm", ranked) == (
                    six(cell.difference.p_holm) if cell.difference else None
                )
                seen += 1
    assert seen > 100


def test_runs_keep_their_provenance(main: tuple[tuple[Table, ...], dict[str, Any]]) -> None:
    records = {record.key: record for record in make_records()}
    runs = [run for block in main[1]["blocks"] for row in block["rows"] for run in row["runs"]]
    assert len(runs) == len(records)
    for run in runs:
        assert run["command"] == records[run["key"]].command
        assert run["environment"] == "cpu (synthetic), fp32, 1 thread, Python 3.11"


def test_diverged_rows_are_named_and_not_ranked(main: tuple[tuple[Table, ...], dict[str, Any]]) -> None:
    block = next(b for b in main[1]["blocks"] if any("diverged" in row for row in b["rows"]))
    row = next(row for row in block["rows"] if "diverged" in row)
    assert (row["label"], row["diverged"]) == ("grad-ascent", [1])
    assert row["verdicts"]["forgets"]["verdict"] == "diverged"
    place = block["layouts"]["main"]["rows"].index("grad-ascent")
    assert all(cell_at(columns, "rank", place) is None for columns in block["layouts"]["main"]["columns"].values())


def test_variants_may_be_declared_to_be_controls() -> None:
    for name, role in (("tracer-zero-phi", "control"), ("tracer-no-mask", "method")):
        assert role_of(Row(name, name, "method", {})) == role


def test_references_and_controls_are_called_that(main: tuple[tuple[Table, ...], dict[str, Any]]) -> None:
    kinds = {row["label"]: row["kind"] for row in main[1]["blocks"][0]["rows"]}
    assert {name for name, kind in kinds.items() if kind == "reference"} == {"original", "retrain", "popularity"}
    assert {name for name, kind in kinds.items() if kind == "control"} == {
        "filter",
        "random-reassign",
        "tracer-no-reassignment",
    }
    assert "Controls that do both" in main[1]["blocks"][0]["summary"]


def test_one_seed_shows_nothing() -> None:
    found = document(make_synthetic_tables("main", make_records(seeds=(0,))))
    assert all("Too few seeds" in block["summary"] for block in found["blocks"])


def test_reference_rows_alone_show_nothing_either() -> None:
    found = document(
        make_synthetic_tables(
            "main", make_records(methods={}, references={"original": (0.05, 0.1), "retrain": (0.0, 0.1)})
        )
    )
    assert {block["summary"] for block in found["blocks"]} == {"There are reference rows alone: no method was run."}


def test_a_brief_document_has_the_decimals_of_a_table(main: tuple[tuple[Table, ...], dict[str, Any]]) -> None:
    tables, whole = main
    brief = document(tables, brief=True)
    assert len(json.dumps(brief)) < 0.6 * len(json.dumps(whole))
    for analysis, block in zip(
        sorted(tables[0].analysis.blocks, key=lambda b: b.block.key), brief["blocks"], strict=True
    ):
        for measure in analysis.measures:
            for place, row in enumerate(analysis.block.rows):
                mean = analysis.cell(row, measure).mean
                shown = cell_at(block["cells"].get(measure.text, {}), "mean", place)
                places = whole["measures"][measure.text]["decimals"]
                assert mean is shown is None or f"{mean:.{places}f}" == f"{shown:.{places}f}"


def test_odd_names_are_text() -> None:
    text = render_json(odd_tables())
    labels = {row["label"] for block in json.loads(text)["blocks"] for row in block["rows"]}
    assert set(ODD) <= labels
    assert "\x1b" not in text
