"""Token overlap before and after."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.model import FigureRequest, NotDrawn
from genrec_unlearn_bench.reporting.figures.records import draw_overlap
from genrec_unlearn_bench.reporting.results import Result
from tests.reporting.planting import board_of, plant

BEFORE = {
    "overlap.level1": 0.03,
    "overlap.level2": 0.01,
    "overlap.lift": 0.95,
    "overlap.shared-prefix": 0.3,
    "overlap.lift.null-low": 0.9,
    "overlap.lift.null-high": 1.1,
    "overlap.mean": 0.02,
}


def row(method: str, numbers: Mapping[str, float], change: float) -> list[Result]:
    return plant(method, {name: [value, value] for name, value in {**numbers, "overlap-change.mean": change}.items()})


def block_of(*groups: list[Result]) -> Block:
    (block,) = board_of(*groups).blocks
    return block


def test_the_original_stands_before_those_that_moved_items(asked: FigureRequest) -> None:
    after = {**BEFORE, "overlap.level1": 0.005, "overlap.shared-prefix": 0.1}
    block = block_of(row("original", BEFORE, 0.0), row("npo", BEFORE, 0.0), row("tracer", after, -0.01))
    (figure,) = draw_overlap(block, asked)
    shown = {(row[0], row[1], row[3]): row[4] for row in figure.rows}
    assert shown["By level", "original", "1"] == 0.03
    assert shown["By level", "tracer", "1"] == 0.005
    assert {label for _, label, _ in shown} == {"original", "tracer"}
    assert "Left as it was by npo." in figure.caption
    assert {panel.title: panel.band for panel in figure.panels}["Lift over chance"] == (0.9, 1.1)


def test_the_original_is_read_off_a_method_that_kept_its_table(asked: FigureRequest) -> None:
    block = block_of(row("npo", BEFORE, 0.0), row("tracer", {**BEFORE, "overlap.level1": 0.005}, -0.01))
    (figure,) = draw_overlap(block, asked)
    assert {row[1]: row[4] for row in figure.rows if row[0] == "By level" and row[3] == "1"}["original"] == 0.03


def test_nobody_moved_or_nothing_measured(asked: FigureRequest) -> None:
    with pytest.raises(NotDrawn, match="changes semantic IDs"):
        draw_overlap(block_of(row("original", BEFORE, 0.0), row("npo", BEFORE, 0.0)), asked)
    with pytest.raises(NotDrawn, match="token overlap of the row original"):
        draw_overlap(block_of(plant("npo", {"forget:hr@10": [0.1, 0.1]})), asked)
