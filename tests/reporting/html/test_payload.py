"""The data block says what the tables of other formats say, and stays within its budget."""

from __future__ import annotations

import math
from typing import Any

import pytest

from genrec_unlearn_bench.reporting.analysis import Mark
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.html.blocks import pattern_of
from genrec_unlearn_bench.reporting.html.payload import BUDGET, build_payload
from genrec_unlearn_bench.reporting.html.payload_model import Payload
from genrec_unlearn_bench.reporting.html.render import data_block
from genrec_unlearn_bench.reporting.layouts import find_layout
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.tables import make_tables
from genrec_unlearn_bench.reporting.wording import six
from tests.reporting.boards import VARIANTS, kinds_of, make_records, make_results, make_synthetic_board
from tests.reporting.html.sites import many_results, unpacked


@pytest.fixture(scope="module")
def payload() -> Payload:
    return build_payload(make_synthetic_board(), statistics_protocol(), title="t").payload


def each(column: Any, place: int) -> Any:
    return column[place] if isinstance(column, tuple) else column


def test_marks_ranks_and_p_are_those_of_the_tables(payload: Payload) -> None:
    board = make_synthetic_board()
    layout = find_layout("main")
    tables = make_tables(board, layout, statistics_protocol(), kinds=kinds_of(board), variant_of=VARIANTS)
    blocks = {block.block.key: block for table in tables for block in table.blocks}
    number = next(n for n, view in enumerate(payload.views) if view.layout == "main")
    measures = [m for _, members in payload.views[number].groups for m in members]
    seen = 0
    for block in payload.blocks:
        analysis = next(b for key, b in blocks.items() if (key.task, key.backbone) == (block.task, block.backbone))
        statistics = block.views[number]
        for place, m in enumerate(measures):
            measure = Measure.parse(payload.measures[m].id, beam=10)
            corrected = unpacked(statistics.p[place]) if statistics.p[place] else [None] * len(block.label)
            for row, label in enumerate(block.label):
                cell = analysis.cells[label, measure]
                mark, first, last, letters, verdict, _ = payload.codes[each(statistics.codes[place], row)]
                assert mark == {Mark.BEST: "b", Mark.SECOND: "s", Mark.PLAIN: ""}[cell.mark]
                assert (first, last) == (cell.rank or (0, 0))
                assert letters == cell.letters
                assert (verdict == "") == (cell.difference is None)
                assert corrected[row] == (six(cell.difference.p_holm) if cell.difference else None)
                seen += 1
    assert seen == 4 * 8 * 14 - 2 * 8


def test_values_are_those_of_the_board(payload: Payload) -> None:
    board = make_synthetic_board()
    for block, made in zip(payload.blocks, board.blocks, strict=True):
        for m, text in block.values.items():
            measure = Measure.parse(payload.measures[m].id, beam=10)
            assert unpacked(text) == [six(float(value)) for value in made.values(measure).ravel()]


def test_quantiles_are_students(payload: Payload) -> None:
    # Student's table: two-sided 95 % and 90 %, one to four degrees of freedom.
    assert [round(t, 3) for t in payload.protocol.t] == [0, 0, 12.706, 4.303, 3.182, 2.776]
    assert [round(t, 3) for t in payload.protocol.t90] == [0, 0, 6.314, 2.920, 2.353, 2.132]
    # Hedges' J for 2, 3 and 4 degrees of freedom, by its gamma functions.
    wanted = [math.gamma(m / 2) / (math.sqrt(m / 2) * math.gamma((m - 1) / 2)) for m in (2, 3, 4)]
    assert payload.protocol.hedges[3:] == pytest.approx(wanted)


def test_runs_keep_their_provenance(payload: Payload) -> None:
    records = {(r.cell.task, r.cell.backbone, r.cell.method, r.cell.seed): r for r in make_records()}
    for block in payload.blocks:
        place = 0
        for row, method in enumerate(block.method):
            for at, seed in enumerate(block.seeds):
                if block.runs.have[row * len(block.seeds) + at] == "0":
                    assert (block.task, block.backbone, method, seed) not in records
                    continue
                record = records[block.task, block.backbone, method, seed]
                assert block.runs.key[16 * place : 16 * place + 16] == record.key[:16]
                pattern = payload.strings[each(block.runs.command, place)]
                filled = pattern.replace("{task}", block.task).replace("{method}", method)
                assert filled.replace("{backbone}", block.backbone).replace("{seed}", str(seed)) == record.command
                place += 1
        assert len(block.runs.key) == 16 * place


def test_commands_differ_in_names_alone(payload: Payload) -> None:
    commands = {payload.strings[each(block.runs.command, 0)] for block in payload.blocks}
    assert commands == {"bench run --task {task} --method {method} --backbone {backbone} --seed {seed}"}


def test_a_command_with_braces_is_left_alone() -> None:
    record = make_records(tasks=("a-brand",), backbones=("tiger",), methods={})[0]
    odd = record.model_copy(update={"command": "bench run --seed 0 --set x={seed}"})
    assert pattern_of(make_results([odd])[0]) == "bench run --seed 0 --set x={seed}"


def test_diverged_rows_are_named_and_not_ranked(payload: Payload) -> None:
    block = next(b for b in payload.blocks if b.diverged)
    assert [(block.label[row], seeds) for row, seeds in block.diverged.items()] == [("grad-ascent", (1,))]
    row = next(iter(block.diverged))
    codes = block.views[0].codes
    assert all(payload.codes[each(column, row)][1] == 0 for column in codes)


def test_rulesets_share_results_and_count_them_once() -> None:
    fixed = [record for record in make_records(ruleset="fixed") if record.cell.ruleset == "fixed"]
    records = [*make_records(), *fixed]
    payload = build_payload(make_synthetic_board(records), statistics_protocol(), title="t").payload
    assert {block.ruleset for block in payload.blocks} == {"fixed", "tuned"}
    assert payload.results == len({record.key for record in records})


def test_a_budget_leaves_views_out_and_says_which() -> None:
    board = make_synthetic_board()
    whole = build_payload(board, statistics_protocol(), title="t")
    small = build_payload(board, statistics_protocol(), title="t", budget=80_000)
    size = len(small.payload.model_dump_json().encode())
    assert size < 80_000 < len(whole.payload.model_dump_json().encode())
    assert small.payload.views[0].layout == "main"
    assert small.payload.dropped
    assert not whole.payload.dropped


def test_five_thousand_results_fit_into_two_megabytes() -> None:
    results = many_results(tasks=5, methods=42, seeds=range(12))
    assert len(results) == 5040
    built = build_payload(make_board(results, statistics_protocol()), statistics_protocol(), title="t")
    assert len(data_block(built.payload).encode()) < BUDGET + 20_000
    assert {view.layout for view in built.payload.views} >= {"main", "full", "efficiency", "ablation", "attack"}


def test_an_empty_board_has_a_payload() -> None:
    built = build_payload(make_board([], statistics_protocol()), statistics_protocol(), title="t")
    assert built.first is None
    assert built.payload.blocks == ()
