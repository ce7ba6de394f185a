"""Suites and streams stand apart: no row, block, table, comparison over blocks or family holds two of them."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.suites import SUITES
from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.board import CORE, Board
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.selection import selected_board
from genrec_unlearn_bench.reporting.sentences import latex_notes, notes
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.boards import make_records, make_results

PROTOCOL = statistics_protocol(1)
SMALL = {"tasks": ("industrial-brand",), "backbones": ("tiger",), "seeds": (0, 1, 2)}
METHODS = {"tracer": (0.3, 0.97), "npo": (0.4, 0.9)}


@pytest.fixture(scope="module")
def mixed() -> list[Result]:
    """The core, the full suite and a stream, all of one task, backbone, scale and ruleset."""
    return [
        result
        for changes in ({}, {"suite": "full"}, {"requests": 5}, {"suite": "full", "requests": 5})
        for result in make_results(make_records(methods=METHODS, **SMALL, **changes))  # type: ignore[arg-type]
    ]


def tables(board: Board, layout: str) -> tuple[Table, ...]:
    return make_tables(board, find_layout(layout, 1), PROTOCOL)


def test_the_core_is_a_suite() -> None:
    assert CORE in SUITES


def test_no_block_and_no_row_holds_two_suites_or_a_stream_with_single_requests(mixed: list[Result]) -> None:
    board = selected_board(mixed, PROTOCOL, {})
    assert [block.key.regime for block in board.blocks] == ["", "5 requests", "suite full", "suite full, 5 requests"]
    assert len({block.key for block in board.blocks}) == 4
    for block in board.blocks:
        runs = [run for row in block.rows for run in row.results.values()]
        assert len({(run.suite, run.requests) for run in runs}) == 1
        assert len(runs) == 3 * 7
    assert not board.left_out


def test_no_table_holds_two_and_each_says_which_it_is(mixed: list[Result]) -> None:
    found = tables(selected_board(mixed, PROTOCOL, {}), "main")
    assert [table.name for table in found] == [
        "main-tuned-small",
        "main-5-requests-tuned-small",
        "main-suite-full-tuned-small",
        "main-suite-full-5-requests-tuned-small",
    ]
    for table in found:
        assert len({block.block.key.regime for block in table.blocks}) == 1
    assert [table.tasks for table in found] == [
        ("industrial-brand",),
        ("industrial-brand (5 requests)",),
        ("industrial-brand (suite full)",),
        ("industrial-brand (suite full, 5 requests)",),
    ]


def test_a_table_of_a_suite_says_why_it_stands_alone(mixed: list[Result]) -> None:
    for table in tables(selected_board(mixed, PROTOCOL, {}), "main"):
        told = [any("not to be compared" in note for note in found) for found in (notes(table), latex_notes(table))]
        assert told == ["suite-full" in table.name] * 2


def test_what_another_suite_measured_is_no_column(mixed: list[Result]) -> None:
    found = {table.name: table for table in tables(selected_board(mixed, PROTOCOL, {}), "attack")}
    families = {
        name: {column.measure.metric.partition(".")[0] for column in table.columns} for name, table in found.items()
    }
    assert families["attack-tuned-small"] == {"original-sids", "influence"}
    assert {"relearning", "probing", "membership"} <= families["attack-suite-full-tuned-small"]
    assert {table.name for table in tables(selected_board(mixed, PROTOCOL, {}), "streams")} == {
        "streams-5-requests-tuned-small",
        "streams-suite-full-5-requests-tuned-small",
    }


def test_numbers_of_a_table_are_those_it_has_without_the_other_suite(mixed: list[Result]) -> None:
    alone = selected_board([run for run in mixed if run.suite == "core" and run.requests == 1], PROTOCOL, {})
    (first,) = tables(alone, "main")
    beside = tables(selected_board(mixed, PROTOCOL, {}), "main")[0]
    for mine, theirs in zip(first.sections[0].lines, beside.sections[0].lines, strict=True):
        assert mine.label == theirs.label
        assert [entry.cell for entry in mine.entries] == [entry.cell for entry in theirs.entries]


def test_ranks_over_blocks_are_of_one_suite(mixed: list[Result]) -> None:
    found = across(tables(selected_board(mixed, PROTOCOL, {}), "main")[0].analysis)
    assert len({each.name for each in found}) == len(found) == 8
    assert {each.blocks for each in found} == {1}


def test_a_suite_may_be_chosen(mixed: list[Result]) -> None:
    board = selected_board(mixed, PROTOCOL, {"suite": ("core",)})
    assert [block.key.regime for block in board.blocks] == ["", "5 requests"]
    with pytest.raises(UnknownName, match="ful"):
        selected_board(mixed, PROTOCOL, {"suite": ("ful",)})


def test_two_holdouts_are_two_grounds() -> None:
    records = make_records(methods=METHODS, suite="full", **SMALL)  # type: ignore[arg-type]
    other = [record.model_copy(update={"holdout": "i" * 32, "key": f"o{record.key[1:]}"}) for record in records]
    board = selected_board(make_results([*records, *other]), PROTOCOL, {})
    assert len(board.blocks) == 2
    assert all("setup" in block.key.variant for block in board.blocks)
