"""The trade of forgetting and keeping: distances seed by seed, the front, and the suite's own published records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.board import Block, Board, make_board
from genrec_unlearn_bench.reporting.figures.model import Estimate, FigureRequest, NotDrawn, SelectedRows
from genrec_unlearn_bench.reporting.figures.pareto import OTHERS, Trade, draw_pareto, front, trades
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import load_results
from tests.reporting.planting import FORGET, RETAIN, board_of, plant

PROTOCOL = statistics_protocol(1)
PUBLISHED = Path(__file__).parents[3] / "leaderboard" / "results"


def planted(**methods: tuple[list[float], list[float]]) -> Board:
    groups = [plant(name, {"forget:hr@10": forget, "retain:ndcg@10": keep}) for name, (forget, keep) in methods.items()]
    return board_of(*groups)


def traded(block: Block, asked: FigureRequest) -> tuple[Trade, ...]:
    return trades(block, asked, SelectedRows.of(block, asked), FORGET, RETAIN)


def trade(label: str, gap: float, kept: float, *, reference: bool = False) -> Trade:
    return Trade(label, reference, Estimate(gap), Estimate(kept))


def test_the_distance_is_that_of_the_mean_gap_taken_seed_by_seed(asked: FigureRequest) -> None:
    board = planted(retrain=([0.1, 0.3], [0.5, 0.5]), npo=([0.05, 0.2], [0.4, 0.42]))
    found = {one.label: one for one in traded(board.blocks[0], asked)}
    npo = found["npo"]
    assert npo.gap.mean == pytest.approx(-0.075)
    assert npo.distance == pytest.approx(0.075)
    assert npo.kept.mean == pytest.approx(0.41)
    assert found["retrain"].distance == 0.0


@pytest.mark.parametrize(
    ("low", "high", "reach"), [(-0.1, 0.3, (0.0, 0.3)), (-0.3, -0.1, (0.1, 0.3)), (0.1, 0.2, (0.1, 0.2))]
)
def test_the_interval_of_a_gap_is_folded_at_zero(low: float, high: float, reach: tuple[float, float]) -> None:
    one = replace(trade("npo", (low + high) / 2, 0.1), gap=Estimate((low + high) / 2, low, high, 3, "t over seeds"))
    assert one.reach == pytest.approx(reach)


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 4)), min_size=1, max_size=9))
@settings(max_examples=150, deadline=None)
def test_the_front_is_what_nobody_beats(points: list[tuple[int, int]]) -> None:
    found = [trade(f"m{place}", float(gap), float(kept)) for place, (gap, kept) in enumerate(points)]
    expected = set()
    for place, (gap, kept) in enumerate(points):
        others = [(abs(g), k) for g, k in points]
        beaten = any(g <= abs(gap) and k >= kept and (g, k) != (abs(gap), kept) for g, k in others)
        expected |= set() if beaten else {f"m{place}"}
    assert front(found) == expected
    assert expected


def test_reference_rows_beat_nobody() -> None:
    assert front([trade("filter", 0.0, 1.0, reference=True), trade("npo", 0.3, 0.1)]) == {"npo"}


def test_over_forgetting_is_told_from_remembering(asked: FigureRequest) -> None:
    board = planted(retrain=([0.1, 0.1], [0.5, 0.5]), less=([0.0, 0.0], [0.4, 0.4]), more=([0.2, 0.2], [0.3, 0.3]))
    figure = draw_pareto(board.blocks[0], asked)
    marks = {mark.label: mark for mark in figure.panels[0].series}
    assert (marks["less"].look.marker, marks["more"].look.marker) == ("v", "^")
    assert (marks["less"].best, marks["more"].best) == (True, False)
    assert "over-forgetting" in " ".join(figure.caption)


def test_without_an_oracle_or_a_method_there_is_no_figure(asked: FigureRequest) -> None:
    with pytest.raises(NotDrawn) as fault:
        draw_pareto(planted(npo=([0.1], [0.1])).blocks[0], asked)
    assert "--method retrain" in str(fault.value.hint)
    with pytest.raises(NotDrawn):
        draw_pareto(planted(retrain=([0.1], [0.1]), original=([0.1], [0.1])).blocks[0], asked)


@pytest.mark.parametrize("metrics", [("forget:hr@10",), ("retain:ndcg@10",), ("cost.steps", "retain:hr@10")])
def test_measures_that_make_no_trade_are_refused(metrics: tuple[str, ...], asked: FigureRequest) -> None:
    board = planted(retrain=([0.1], [0.1]), npo=([0.1], [0.1]))
    with pytest.raises(UsageError, match="forget measure and a retain measure"):
        draw_pareto(board.blocks[0], replace(asked, metrics=metrics))


def test_other_measures_may_be_named(asked: FigureRequest) -> None:
    board = planted(retrain=([0.1], [0.1]), npo=([0.1], [0.1]))
    with pytest.raises(NotDrawn, match="retain HR@10"):
        draw_pareto(board.blocks[0], replace(asked, metrics=("forget:hr@10", "retain:hr@10")))


def test_the_published_records_give_one_point_a_row() -> None:
    protocol = statistics_protocol()
    (forget, _) = protocol.measures(protocol.primary)
    board = make_board(load_results([PUBLISHED]).results, protocol)
    assert {block.key.task for block in board.blocks} >= {"demo-brand", "industrial-brand"}
    for block in board.blocks:
        figure = draw_pareto(block, FigureRequest(protocol))
        shown = {row[0]: dict(zip(figure.heads, row, strict=True)) for row in figure.rows}
        assert set(shown) == {row.label for row in block.rows if not row.diverged} - set(OTHERS)
        assert any(row["front"] for row in shown.values())
        for row in block.rows:
            if row.label in shown and block.oracle is not None:
                gaps = [
                    float(result.values[forget] or 0.0) - float(block.oracle.results[seed].values[forget] or 0.0)
                    for seed, result in row.results.items()
                    if seed in block.oracle.results
                ]
                assert shown[row.label]["distance"] == pytest.approx(abs(np.mean(gaps)), abs=1e-12)


def test_recommenders_of_another_kind_are_shown_where_they_are_named(asked: FigureRequest) -> None:
    board = planted(retrain=([0.1], [0.5]), popularity=([0.0], [0.1]), npo=([0.1], [0.4]))
    block = board.blocks[0]
    assert "popularity" not in [one.label for one in traded(block, asked)]
    told = replace(asked, methods=("popularity", "npo"))
    assert "popularity" in [one.label for one in traded(block, told)]
