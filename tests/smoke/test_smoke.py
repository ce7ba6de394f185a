"""``make smoke`` and ``make full``: whole runs on the demo show the directions that every honest run must show."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.evaluation.suites import find_measurement, measurements
from genrec_unlearn_bench.pipeline.record import RunRecord
from tests.smoke import claims
from tests.smoke.claims import Claim, Rows

Run = Callable[..., dict[str, RunRecord]]

BY_BACKBONE = [
    pytest.param(backbone, marks=pytest.mark.xdist_group(f"smoke {backbone}"), id=backbone) for backbone in backbones()
]
BY_CLAIM = [
    pytest.param(backbone, claim, marks=pytest.mark.xdist_group(f"smoke {backbone}"), id=f"{backbone}: {claim.text}")
    for backbone in backbones()
    for claim in claims.claims_about(backbone)
]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``bench run --task demo-brand … --json``; finished stages stay in the user's cache."""
    results = tmp_path_factory.mktemp("results")

    def run(*words: str) -> dict[str, RunRecord]:
        script = Path(sys.executable).with_name("bench")
        fixed = ["--task", claims.TASK, "--scale", "smoke", "--device", "cpu", "--threads", "1"]
        done = subprocess.run(
            [script, "run", *fixed, *words, "--results-dir", results, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        records = [RunRecord.model_validate(each["record"]) for each in json.loads(done.stdout or "[]")]
        assert done.returncode == any(record.diverged for record in records)
        return {record.cell.method: record for record in records}

    return run


@pytest.fixture(scope="session")
def rows_of(bench: Run) -> Callable[[str], Rows]:
    @cache
    def rows(backbone: str) -> Rows:
        if backbone != claims.FIRST:
            return Rows(bench("--backbone", backbone, "--method", ",".join(claims.FEW)))
        gentle = [method for method in claims.METHODS if method != "grad-ascent"]
        changes = [f"{name}={json.dumps(value)}" for name, value in claims.DESTRUCTIVE.items()]
        ascent = bench("--method", "grad-ascent", *(word for change in changes for word in ("--set", change)))
        return Rows({**bench("--method", ",".join(gentle)), **ascent})

    return rows


@pytest.mark.smoke
@pytest.mark.parametrize(("backbone", "claim"), BY_CLAIM)
def test_claim(rows_of: Callable[[str], Rows], backbone: str, claim: Claim) -> None:
    assert claim.violation(rows_of(backbone)) == ""


@pytest.mark.smoke
@pytest.mark.parametrize("backbone", BY_BACKBONE)
def test_nothing_diverges_but_ascent_at_a_high_rate(rows_of: Callable[[str], Rows], backbone: str) -> None:
    diverged = {name for name, record in rows_of(backbone).records.items() if record.diverged}
    assert diverged <= {"grad-ascent"}


@pytest.fixture(scope="session")
def full_rows(bench: Run) -> Rows:
    """Two oracles, so that retraining is compared with retraining; attacks of 0 and 20 steps, as what is claimed of
    them holds after any number."""
    words = ["--suite", "full", "--oracle-seeds", "2", "--set-measure", "relearning.steps=[0, 20]"]
    return Rows(bench("--method", ",".join(claims.FULL_METHODS), *words))


@pytest.mark.full
@pytest.mark.parametrize("claim", claims.FULL_CLAIMS, ids=lambda claim: claim.text)
def test_claim_of_the_full_suite(full_rows: Rows, claim: Claim) -> None:
    assert claim.violation(full_rows) == ""


@pytest.mark.full
@pytest.mark.parametrize("method", claims.FULL_METHODS)
def test_every_metric_of_the_full_suite_is_there_or_says_why_not(full_rows: Rows, method: str) -> None:
    wanted = {spec.name for name in measurements() for spec in find_measurement(name).specs}
    assert wanted - {value.metric for value in full_rows.records[method].metrics} == set()
