"""What the suite full must show whatever the numbers are: it holds for honest records, and each claim can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.cli.smoke_full import CLAIMS, METHODS, full_claims, full_requests
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.suites import find_measurement, measurements
from genrec_unlearn_bench.pipeline.record import RunRecord

Make = Callable[..., RunRecord]
Numbers = dict[str, dict[str, float | None]]

FORGET = Group.FORGET
HONEST: Numbers = {
    "original": {
        "relearning.area.mixed": 0.2,
        "relearning.original-sids.area.mixed": 0.2,
        "relearning.recovery.mixed": 0.9,
        "relearning.peak.mixed": 1.0,
        "membership.auc.loss": 0.7,
        "forget-quality.ks.d": 0.8,
        "forget-quality.ceiling.d": 0.1,
        "probing.auroc.pooled": 0.6,
        "quantisation.hr@10.int4": 0.2,
    },
    "retrain": {
        "relearning.area.mixed": 0.01,
        "relearning.recovery.mixed": 0.0,
        "membership.auc.loss": 0.5,
        "forget-quality.ks.d": 0.1,
        "probing.auroc.pooled": 0.5,
    },
    "filter": {
        "relearning.area.mixed": 0.0,
        "relearning.original-sids.area.mixed": 0.2,
        "membership.auc.loss": 0.7,
        "forget-quality.ks.d": 0.8,
        "probing.auroc.pooled": 0.6,
        "quantisation.hr@10.int4": 0.0,
    },
}


def records(make: Make, changes: Numbers) -> dict[str, RunRecord]:
    found = {}
    for method, numbers in HONEST.items():
        filled = {spec.name: None for name in measurements() for spec in find_measurement(name).specs}
        filled |= numbers | changes.get(method, {})
        values = {
            (metric, Group.ALL if metric.startswith("probing") else FORGET): value for metric, value in filled.items()
        }
        found[method] = make(method, values)
    return found


def test_honest_records_hold(record_of: Make) -> None:
    found = list(full_claims(records(record_of, {})))
    assert len(found) == len(CLAIMS) + len(METHODS)
    assert [str(one) for one in found if not one.holds] == []


@pytest.mark.parametrize(
    ("method", "metric", "value", "words"),
    [
        ("filter", "relearning.area.mixed", 0.1, "serves nothing"),
        ("filter", "relearning.original-sids.area.mixed", 0.1, "without its rules"),
        ("retrain", "relearning.recovery.mixed", 0.1, "no faster than itself"),
        ("original", "relearning.peak.mixed", 0.9, "largest R"),
        ("original", "membership.auc.loss", 0.5, "gives its forget set away"),
        ("filter", "membership.auc.loss", 0.6, "hides no membership"),
        ("original", "forget-quality.ks.d", 0.1, "less like retrain"),
        ("filter", "forget-quality.ks.d", 0.7, "no answer's likelihood"),
        ("filter", "probing.auroc.pooled", 0.5, "no hidden state"),
        ("filter", "quantisation.hr@10.int4", 0.1, "holds at 4 bits"),
        ("filter", "quantisation.hr@10.int4", None, "holds at 4 bits"),
    ],
)
def test_each_claim_can_fail(record_of: Make, method: str, metric: str, value: float | None, words: str) -> None:
    failed = [one.text for one in full_claims(records(record_of, {method: {metric: value}})) if not one.holds]
    assert any(words in text for text in failed)


def test_a_metric_that_is_left_out_is_seen(record_of: Make) -> None:
    found = records(record_of, {})
    kept = tuple(value for value in found["filter"].metrics if value.metric != "probing.floor.prompt")
    found["filter"] = found["filter"].model_copy(update={"metrics": kept})
    failed = [str(one) for one in full_claims(found) if not one.holds]
    assert len(failed) == 1
    assert "missing: probing.floor.prompt" in failed[0]


def test_its_cells_and_wrong_calls(tmp_path: Path) -> None:
    cells = full_requests("tiger", tmp_path, 1)
    assert [cell.method for cell in cells] == list(METHODS)
    assert {(cell.suite, cell.oracle_seeds) for cell in cells} == {("full", 2)}
    done = CliRunner().invoke(app, ["smoke", "--full", "--method", "npo", "--cache-dir", str(tmp_path)])
    assert done.exit_code == 2
    assert "bench run --suite full" in done.output
