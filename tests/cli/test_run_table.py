"""The tables of ``bench run``: every number in its place, narrow enough, honest about what is missing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from genrec_unlearn_bench.cli.run import COLUMNS, _draw, number, run_table
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import FinishedRun


def drawn(records: list[RunRecord], width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(run_table(records))
    return out.getvalue()


def test_every_column_is_a_declared_metric_of_its_group() -> None:
    specs = metric_specs()
    for *_, metric, group in COLUMNS:
        assert group in specs[metric].better


def test_numbers_stand_under_their_heads(record_of: Callable[..., RunRecord]) -> None:
    numbers = {(metric, group): (index + 1) / 100 for index, (*_, metric, group) in enumerate(COLUMNS)}
    text = drawn([record_of("random-reassign", numbers)])
    [row] = [line for line in text.splitlines() if "random-reassign" in line]
    expected = [f"{(index + 1) / 100:.4f}"[1:] for index in range(len(COLUMNS))]
    expected[-2:] = [f"+{cell}" for cell in expected[-2:]]
    assert row.split() == ["random-reassign", *expected, "12.3"]
    assert "…" not in text, "nothing is cut off at 120 columns"
    assert max(len(line) for line in text.splitlines()) <= 120


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_gets_parts_that_repeat_the_names(record_of: Callable[..., RunRecord], width: int) -> None:
    numbers = {(metric, group): (index + 1) / 100 for index, (*_, metric, group) in enumerate(COLUMNS)}
    text = drawn([record_of("random-reassign", numbers)], width)
    assert max(len(line) for line in text.splitlines()) <= width
    rows = [line.split() for line in text.splitlines() if "random-reassign" in line]
    assert len(rows) > 1
    shown = [cell.lstrip("+") for row in rows for cell in row[1:]]
    assert shown == [*(f"{(index + 1) / 100:.4f}"[1:] for index in range(len(COLUMNS))), "12.3"]
    assert "…" not in text


def test_what_was_not_measured_is_a_dash_and_a_diverged_run_says_so(record_of: Callable[..., RunRecord]) -> None:
    text = drawn([record_of("original", {("hr@10", Group.FORGET): None}), record_of("mine", diverged=True)])
    assert "–" in text
    assert "mine (diverged)" in text


def test_what_max_hours_ended_is_said_below_the_table(record_of: Callable[..., RunRecord]) -> None:
    early = {"original": "after step 800 of 6000"}
    console = Console(width=200, record=True, file=io.StringIO())
    _draw([FinishedRun(record_of(name, ended_early=early), Path("results")) for name in ("original", "npo")], console)
    assert console.export_text().count("ended early: original after step 800 of 6000") == 1


def test_several_seeds_get_a_mean(record_of: Callable[..., RunRecord]) -> None:
    records = [record_of("tracer", {("hr@10", Group.FORGET): 0.1 * (seed + 1)}, seed=seed) for seed in range(3)]
    text = drawn(records)
    [mean] = [line for line in text.splitlines() if "mean" in line]
    assert mean.split()[2] == ".2000"
    records.append(record_of("tracer", {("hr@10", Group.FORGET): None}, seed=3))
    [mean] = [line for line in drawn(records).splitlines() if "mean" in line]
    assert mean.split()[2] == "–", "a mean over some of the seeds would be another number under the same name"


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (0.1234, False, ".1234"),
        (0.0, False, ".0000"),
        (1.0, False, "1.0000"),
        (-0.05, False, "-.0500"),
        (0.05, True, "+.0500"),
        (-0.05, True, "-.0500"),
        (-1.5, True, "-1.5000"),
        (0.99999, False, "1.0000"),
        (None, True, "–"),
    ],
)
def test_number(value: float | None, signed: bool, text: str) -> None:
    assert number(value, signed=signed) == text


def test_several_backbones_stand_under_their_names(record_of: Callable[..., RunRecord]) -> None:
    labels = ("tiger", "p5sid (from scratch)")
    text = drawn([record_of(method, backbone_label=label) for label in labels for method in ("original", "tracer")])
    words = [line.strip() for line in text.splitlines() if line.strip()]
    places = [words.index(label) for label in labels]
    assert words[places[0] + 1].startswith("original")
    assert words[places[1] + 1].startswith("original")
    assert "tiger" not in words[0], "the title names what all rows share"
