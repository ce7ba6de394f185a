"""Token overlap before and after."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.catalogue import draw_kind
from genrec_unlearn_bench.reporting.figures.model import FigureRequest, NotDrawn
from genrec_unlearn_bench.reporting.results import Result
from tests.reporting.planting import board_of, plant

BEFORE = {
    "overlap.level1": 0.03,
    "overlap.level2": 0.01,
    "overlap.lift": 0.95,
    "overlap.shared-prefix": 0.3,
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
    (figure,) = draw_kind("overlap", block, asked)
    shown = {(row[0], row[1], row[3]): row[4] for row in figure.rows}
    assert shown["By level", "original", "1"] == 0.03
    assert shown["By level", "tracer", "1"] == 0.005
    assert {label for _, label, _ in shown} == {"original", "tracer"}
    assert [panel.title for panel in figure.panels] == ["By level", "Lift", "Prefixes"]


def test_nobody_moved_or_nothing_measured(asked: FigureRequest) -> None:
    with pytest.raises(NotDrawn, match="changes semantic IDs"):
        draw_kind("overlap", block_of(row("original", BEFORE, 0.0), row("npo", BEFORE, 0.0)), asked)
    with pytest.raises(NotDrawn, match="changes semantic IDs"):
        draw_kind("overlap", block_of(plant("npo", {"forget:hr@10": [0.1, 0.1]})), asked)
