"""Sweeps of one setting, found among a method's runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.catalogue import draw_ablation
from genrec_unlearn_bench.reporting.figures.model import FigureRequest, NotDrawn
from genrec_unlearn_bench.reporting.figures.tables import find_sweeps
from genrec_unlearn_bench.reporting.results import Result
from tests.reporting.planting import board_of, plant


def runs(method: str, *configs: dict[str, Any], scale: float = 1.0) -> list[Result]:
    """One row a configuration; forget HR@10 is the place, so that every value is known."""
    return [
        result
        for place, config in enumerate(configs, start=1)
        for result in plant(
            method,
            {"forget:hr@10": [0.1 * place * scale, 0.12 * place * scale], "retain:ndcg@10": [0.5, 0.5]},
            method_config=config,
            key=f"{method}-{sorted(config.items())}-{place}",
        )
    ]


def block_of(*groups: list[Result]) -> Block:
    references = plant("original", {"forget:hr@10": [0.9, 0.9], "retain:ndcg@10": [0.6, 0.6]})
    results = [replace(r, key=f"{r.key}-{r.seed}") for group in groups for r in group]
    (block,) = board_of(references, results).blocks
    return block


def methods(block: Block) -> tuple[Any, ...]:
    return tuple(row for row in block.rows if row.kind == "method")


def test_rows_that_differ_in_one_number_are_a_sweep() -> None:
    block = block_of(runs("tracer", *({"temperature": t, "lr": 0.1, "gate": True} for t in (2.0, 0.5, 1.0))))
    (sweep,) = find_sweeps(methods(block))
    assert (sweep.method, sweep.field, sweep.label) == ("tracer", "temperature", "tracer")
    assert list(sweep.values.values()) == [0.5, 1.0, 2.0]
    for label, value in sweep.values.items():
        assert f'"temperature":{value}' in block.by_label[label].first.method_config


def test_two_fields_at_once_and_switches_are_no_sweep() -> None:
    assert find_sweeps(methods(block_of(runs("tracer", {"a": 1, "b": 1}, {"a": 2, "b": 2})))) == []
    assert find_sweeps(methods(block_of(runs("tracer", {"gate": True}, {"gate": False})))) == []
    assert find_sweeps(methods(block_of(runs("tracer", {"mask": "on"}, {"mask": "off"})))) == []


def test_rows_of_different_methods_are_no_sweep() -> None:
    assert find_sweeps(methods(block_of(runs("npo", {"lr": 1}), runs("tracer", {"lr": 2})))) == []


def test_a_grid_is_one_line_for_every_value_of_the_other_field(asked: FigureRequest) -> None:
    grid = [{"k": k, "lr": lr} for k in (1, 2, 3) for lr in (0.1, 0.2)]
    block = block_of(runs("tracer", *grid))
    found = {(one.field, one.label): tuple(one.values.values()) for one in find_sweeps(methods(block))}
    assert found == {
        ("k", "tracer (lr=0.1)"): (1.0, 2.0, 3.0),
        ("k", "tracer (lr=0.2)"): (1.0, 2.0, 3.0),
        ("lr", "tracer (k=1)"): (0.1, 0.2),
        ("lr", "tracer (k=2)"): (0.1, 0.2),
        ("lr", "tracer (k=3)"): (0.1, 0.2),
    }
    (figure,) = draw_ablation(block, replace(asked, field="k"))
    assert {row[1] for row in figure.rows} == {"original", "tracer (lr=0.1)", "tracer (lr=0.2)"}


def test_the_figure_shows_both_sides_with_the_original_as_a_level_line(asked: FigureRequest) -> None:
    block = block_of(runs("tracer", {"lambda_forget": 0.1}, {"lambda_forget": 0.4}))
    (figure,) = draw_ablation(block, asked)
    rows = [dict(zip(figure.heads, row, strict=True)) for row in figure.rows]
    assert [row["panel"] for row in rows if row["series"] == "tracer"] == ["Forget", "Forget", "Retain", "Retain"]
    forget = [(row["x"], row["mean"]) for row in rows if row["series"] == "tracer" and row["panel"] == "Forget"]
    assert forget == [("0.1", pytest.approx(0.11)), ("0.4", pytest.approx(0.22))]
    level = [(row["x"], row["mean"]) for row in rows if row["series"] == "original" and row["panel"] == "Forget"]
    assert level == [("0.1", 0.9), ("0.4", 0.9)]
    assert figure.name.endswith("-tracer-lambda_forget")


def test_a_field_nobody_has_gets_the_nearest_and_one_nobody_swept_is_told(asked: FigureRequest) -> None:
    block = block_of(runs("tracer", {"lambda_forget": 0.1, "lr": 1}, {"lambda_forget": 0.4, "lr": 1}))
    with pytest.raises(UnknownName) as fault:
        draw_ablation(block, replace(asked, field="lamda_forget"))
    assert "lambda_forget" in str(fault.value.hint)
    with pytest.raises(NotDrawn, match="lr at two values"):
        draw_ablation(block, replace(asked, field="lr"))
