"""The tables of ``bench run``: every number in its place, narrow enough, honest about what is missing."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from genrec_unlearn_bench.cli.run import COLUMNS, FULL_COLUMNS, full_table, number, run_table
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import RunRecord


def drawn(records: list[RunRecord], width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(run_table(records, beam=10))
    return out.getvalue()


def test_every_column_is_a_declared_metric_of_its_group() -> None:
    specs = metric_specs()
    for column in (*COLUMNS, *FULL_COLUMNS):
        assert column.group in specs[column.metric].better


def test_numbers_stand_under_their_heads(record_of: Callable[..., RunRecord]) -> None:
    numbers = {(column.metric, column.group): (index + 1) / 100 for index, column in enumerate(COLUMNS)}
    text = drawn([record_of("random-reassign", numbers)])
    [row] = [line for line in text.splitlines() if "random-reassign" in line]
    expected = [f"{(index + 1) / 100:.4f}"[1:] for index in range(len(COLUMNS))]
    expected[-2:] = [f"+{cell}" for cell in expected[-2:]]
    assert row.split() == ["random-reassign", *expected, "12.3"]
    assert "…" not in text, "nothing is cut off at 120 columns"
    assert max(len(line) for line in text.splitlines()) <= 120


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_gets_parts_that_repeat_the_names(record_of: Callable[..., RunRecord], width: int) -> None:
    numbers = {(column.metric, column.group): (index + 1) / 100 for index, column in enumerate(COLUMNS)}
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


VALUES = (
    MetricValue(metric="probing.auroc.pooled", group=Group.ALL, value=0.625),
    MetricValue(metric="membership.auc.loss", group=Group.FORGET, value=0.5),
    MetricValue(metric="membership.auc.loss", group=Group.RETAIN, value=0.75),
    MetricValue(metric="membership.tpr.loss", group=Group.FORGET, value=None, note="93 non-members cannot resolve 1 %"),
    MetricValue(metric="relearning.recovery.mixed", group=Group.FORGET, value=-0.05),
)


Make = Callable[..., RunRecord]


@pytest.fixture
def full(record_of: Make) -> Make:
    def make(method: str, *values: MetricValue, seed: int = 0) -> RunRecord:
        found = record_of(method, seed=seed, measuring={"probing": {}})
        return found.model_copy(update={"metrics": values})

    return make


def printed(*records: RunRecord) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120, color_system=None)
    console.print(full_table(records))
    return out.getvalue()


def test_records_of_the_core_have_no_such_table(record_of: Make) -> None:
    assert full_table([record_of("npo")]) is None


def test_numbers_gaps_and_reasons(record_of: Make, full: Make) -> None:
    text = printed(record_of("filter"), full("npo", *VALUES), full("tracer", *VALUES[:2]))
    lines = {words[0]: words[1:] for line in text.splitlines() if (words := line.split())}
    assert lines["npo"] == [".6250", ".5000", "–", "-.0500"]
    assert lines["tracer"] == [".6250", ".5000", "–", "–"]
    assert "filter" not in text
    assert "KS p" not in text.split("probing: AUROC")[0], "a column that nobody has is left out"
    assert "membership: 93 non-members cannot resolve 1 % (npo)" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_seeds_stand_beside_each_other(full: Make) -> None:
    text = printed(full("npo", *VALUES), full("npo", *VALUES, seed=1))
    assert [line.split()[:2] for line in text.splitlines() if line.split()[:1] == ["npo"]] == [
        ["npo", "0"],
        ["npo", "1"],
    ]
    assert text.count("cannot resolve") == 1
