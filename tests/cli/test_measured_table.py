"""The table of the measurements beyond the core: its numbers, its gaps and their reasons."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from genrec_unlearn_bench.cli.measured_table import COLUMNS, measured_table
from genrec_unlearn_bench.evaluation.catalogue import metric_spec
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import RunRecord

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
    console.print(measured_table(records))
    return out.getvalue()


def test_records_of_the_core_have_no_such_table(record_of: Make) -> None:
    assert measured_table([record_of("npo")]) is None


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


def test_its_columns_are_declared() -> None:
    for column in COLUMNS:
        assert column.group in metric_spec(column.metric).better, column.metric
