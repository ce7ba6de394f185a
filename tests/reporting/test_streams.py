"""Streams of requests in tables: never beside one request at a time, never ranked or tested with it."""

from __future__ import annotations

from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.analysis import analyse
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.reported import reported_comparisons
from tests.reporting.boards import make_records, make_results, make_synthetic_board, make_synthetic_tables
from tests.reporting.planting import FORGET

SMALL = {"tasks": ("industrial-brand",), "backbones": ("tiger",), "methods": {"npo": (0.5, 0.9)}}
ONCE = make_records(**SMALL)
TURNS = make_records(**SMALL, requests=4)


def test_a_stream_and_one_request_are_two_blocks_with_rows_and_references_of_their_own() -> None:
    one, two = make_synthetic_board([*ONCE, *TURNS]).blocks
    assert [block.key.regime for block in (one, two)] == ["", "4 requests"]
    assert two.key.title.endswith(" · 4 requests")
    assert [row.label for row in one.rows] == [row.label for row in two.rows]
    for block, requests in ((one, 1), (two, 4)):
        assert {result.requests for row in block.rows for result in row.results.values()} == {requests}
        assert block.oracle is not None
        assert block.oracle.first.requests == requests


def test_streams_of_different_length_are_not_pooled() -> None:
    board = make_synthetic_board([*TURNS, *make_records(**SMALL, requests=8)])
    assert [block.key.variant for block in board.blocks] == ["4 requests", "8 requests"]


def test_no_table_holds_both() -> None:
    tables = make_synthetic_tables("main", [*ONCE, *TURNS])
    assert len(tables) == 2
    assert len({table.name for table in tables}) == 2
    for table in tables:
        assert (
            len({result.requests for block in table.blocks for row in block.block.rows for result in [row.first]}) == 1
        )


def test_methods_are_not_compared_over_both() -> None:
    protocol = statistics_protocol(1)
    board = make_board(make_results([*ONCE, *TURNS]), protocol)
    found = [each for each in across(analyse(board, protocol, measures=(FORGET,))) if each.measure == FORGET]
    assert [each.blocks for each in found] == [1, 1]
    assert len({each.name for each in found}) == 2


def test_what_a_paper_reports_of_one_request_stands_beside_no_stream() -> None:
    once, both = (reported_comparisons(make_synthetic_tables("main", records)) for records in (ONCE, [*ONCE, *TURNS]))
    assert once
    assert [pair.block for pair in both] == [pair.block for pair in once]
