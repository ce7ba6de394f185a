"""The smoke benchmark's claims: they hold for honest numbers, and each one fails when it should."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli import run_cells
from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.cli.smoke import FEW, METHODS
from genrec_unlearn_bench.cli.smoke_claims import CLAIMS, DESTRUCTIVE, judged, own_claims, violations
from genrec_unlearn_bench.errors import CapabilityMissing
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline import matrix
from genrec_unlearn_bench.pipeline.matrix import Tried
from genrec_unlearn_bench.pipeline.pipeline import Finished
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.registry import load_class, methods
from genrec_unlearn_bench.unlearning.method import UnlearningMethod

F, R = Group.FORGET, Group.RETAIN

Numbers = dict[tuple[str, Group], float | None]

HONEST: dict[str, Numbers] = {
    "original": {("hr@10", F): 0.30, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.10},
    "retrain": {("hr@10", F): 0.01, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "sasrec": {("hr@10", F): 0.60, ("concept-rate@10", F): 0.3, ("ndcg@10", R): 0.40},
    "popularity": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.03},
    "filter": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.10},
    "filter-history": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.09},
    "grad-ascent": {("hr@10", F): 0.0, ("concept-rate@10", F): 0.0, ("ndcg@10", R): 0.01},
    "random-reassign": {("hr@10", F): 0.05, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
    "tracer": {("hr@10", F): 0.04, ("concept-rate@10", F): 0.1, ("ndcg@10", R): 0.09},
}


@pytest.fixture
def records(record_of: Callable[..., RunRecord]) -> Callable[..., dict[str, RunRecord]]:
    def make(**wrong: Numbers) -> dict[str, RunRecord]:
        return {
            name: record_of(name, {**HONEST[name], **wrong.get(name.replace("-", "_"), {})}, report={MOVED: 5})
            for name in HONEST
        }

    return make


MOVED = "items_moved"


def test_the_methods_it_runs_exist() -> None:
    assert set(METHODS) <= set(methods())
    assert set(METHODS) == set(HONEST)


def test_the_destructive_rate_is_a_configuration_of_gradient_ascent() -> None:
    found: type[UnlearningMethod[Any]] = load_class(methods()["grad-ascent"], UnlearningMethod)  # type: ignore[type-abstract]
    config = found.Config.model_validate(DESTRUCTIVE)
    assert config.model_dump()["lr"] == 100 * found.Config().model_dump()["lr"]


def test_claims_about_methods_that_were_not_run_are_left_out(records: Callable[..., dict[str, RunRecord]]) -> None:
    few = {name: record for name, record in records().items() if name in FEW}
    assert violations(few) == []
    few["tracer"] = records(tracer={("hr@10", F): 0.31})["tracer"]
    assert violations(few) == [
        "TRACER lowers forget HR@10",
        "TRACER forgets: forget HR@10 below a third of the original's",
    ]


def test_honest_numbers_pass(records: Callable[..., dict[str, RunRecord]]) -> None:
    assert violations(records()) == []


@pytest.mark.parametrize(
    ("method", "metric", "group", "value", "words"),
    [
        ("original", "hr@10", F, 0.01, "the original has learned the concept"),
        ("popularity", "ndcg@10", R, 0.09, "the original beats popularity"),
        ("sasrec", "ndcg@10", R, 0.05, "SASRec beats popularity"),
        ("retrain", "hr@10", F, 0.2, "retraining forgets"),
        ("retrain", "ndcg@10", R, 0.01, "retraining keeps the rest"),
        ("filter", "hr@10", F, 0.01, "filter has no concept item"),
        ("filter", "concept-rate@10", F, 0.01, "filter lists no concept item"),
        ("filter_history", "hr@10", F, 0.01, "filter-history has no concept item"),
        ("original", "concept-rate@10", F, 0.0, "the original still recommends the concept"),
        ("grad_ascent", "ndcg@10", R, 0.06, "gradient ascent at a high rate destroys"),
        ("tracer", "hr@10", F, 0.15, "TRACER forgets"),
        ("tracer", "ndcg@10", R, 0.06, "TRACER keeps the rest"),
        ("filter_history", "concept-rate@10", F, 0.01, "filter-history lists no concept item"),
        ("tracer", "hr@10", F, 0.30, "TRACER lowers forget HR@10"),
        ("tracer", "hr@10", F, None, "TRACER lowers forget HR@10"),
        ("tracer", "concept-rate@10", F, 0.31, "TRACER lowers the concept rate"),
    ],
)
def test_each_claim_fails_when_it_should(
    records: Callable[..., dict[str, RunRecord]],
    method: str,
    metric: str,
    group: Group,
    value: float | None,
    words: str,
) -> None:
    broken = violations(records(**{method: {(metric, group): value}}))
    assert [line for line in broken if words in line]


def test_every_claim_is_made_to_fail_above() -> None:
    marks = test_each_claim_fails_when_it_should.pytestmark  # type: ignore[attr-defined]
    words = [case[4] for case in marks[0].args[1]] + ["random-reassign moves items", "TRACER moves items"]
    assert [claim.text for claim in CLAIMS if not any(part in claim.text for part in words)] == []


def test_a_claim_shows_its_numbers(records: Callable[..., dict[str, RunRecord]]) -> None:
    lines = [str(one) for one in judged(records(tracer={("hr@10", F): 0.31}))]
    assert "✗ TRACER lowers forget HR@10  (0.31 < 0.3)" in lines
    assert "✓ retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's  (0.1 ≥ 0.07)" in lines


def test_claims_about_tiger_are_not_made_about_another_backbone(
    records: Callable[..., dict[str, RunRecord]],
) -> None:
    def elsewhere(record: RunRecord) -> RunRecord:
        return record.model_copy(update={"cell": record.cell.model_copy(update={"backbone": "mor"})})

    weak = records(tracer={("hr@10", F): 0.2})
    assert violations(weak) == ["TRACER forgets: forget HR@10 below a third of the original's"]
    assert violations({name: elsewhere(record) for name, record in weak.items()}) == []


def test_ones_own_method_is_asked_what_anyones_is(
    records: Callable[..., dict[str, RunRecord]], record_of: Callable[..., RunRecord]
) -> None:
    numbers: Numbers = {("hr@10", F): 0.29, ("ndcg@10", R): 0.10}

    def told(record: RunRecord, *faults: str) -> list[str]:
        return [one.text for one in own_claims("mine", {**records(), "mine": record}, faults) if one.holds is False]

    assert told(record_of("mine", numbers)) == []
    assert told(record_of("mine", numbers), "the original was changed") == [
        "mine leaves the original as it is and returns a whole recommender"
    ]
    assert told(record_of("mine", numbers, diverged=True)) == ["mine did not diverge"]
    assert told(record_of("mine", HONEST["original"])) == ["mine changes what is recommended"]
    broken = {("hr@5", F): 0.30, **numbers}
    assert told(record_of("mine", broken)) == ["the record of mine keeps the invariants"]


def test_a_method_that_moves_nothing_or_diverges_is_caught(
    records: Callable[..., dict[str, RunRecord]], record_of: Callable[..., RunRecord]
) -> None:
    still = {**records(), "tracer": record_of("tracer", HONEST["tracer"], report={MOVED: 0})}
    assert violations(still) == ["TRACER moves items"]
    lost = {**records(), "tracer": record_of("tracer", HONEST["tracer"], report={MOVED: 3}, diverged=True)}
    assert violations(lost) == ["tracer did not diverge"]


MINE = '''"""Mine."""

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Mine."""

    name = "mine"
'''


@dataclass
class Played:
    """What stands in for the engine: which cells were asked for, and what comes of one's own method."""

    asked: list[RunRequest]
    numbers: Numbers
    faults: tuple[str, ...] = ()


@pytest.fixture
def played(
    records: Callable[..., dict[str, RunRecord]],
    record_of: Callable[..., RunRecord],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Played:
    """Honest rows everywhere; on mor one's own method is refused."""
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    play = Played([], {("hr@10", F): 0.2, ("ndcg@10", R): 0.1})

    def run_requests(requests: list[RunRequest], *given: object) -> tuple[list[Finished], list[Any]]:
        play.asked += requests
        finished, failed = [], []
        for request in requests:
            name = request.method.removesuffix(".py")
            if (name, request.backbone) == ("mine", "mor"):
                failed.append((request, CapabilityMissing("the method 'mine' needs what 'mor' does not have")))
                continue
            record = record_of("mine", play.numbers) if name == "mine" else records()[name]
            cell = record.cell.model_copy(update={"backbone": request.backbone})
            finished.append(Finished(record.model_copy(update={"cell": cell}), tmp_path))
        return finished, failed

    def run_matrix(names: list[str], backbones: list[str], tasks: list[str], *given: object) -> list[Tried]:
        return [
            Tried(method="mine", backbone=name, task=tasks[0], status="ok", seconds=1.0, faults=play.faults)
            for name in backbones
        ]

    monkeypatch.setattr(run_cells, "run_requests", run_requests)
    monkeypatch.setattr(matrix, "run_matrix", run_matrix)
    return play


def called(*words: str) -> Result:
    return CliRunner().invoke(app, ["smoke", *words, "--cache-dir", "cache"])


def test_the_report_has_the_table_and_every_claim(played: Played) -> None:
    done = called()
    assert done.exit_code == 0, done.output
    assert [request.method for request in played.asked] == list(METHODS)
    assert next(r for r in played.asked if r.method == "grad-ascent").method_set == DESTRUCTIVE
    assert f"{len(CLAIMS)} of {len(CLAIMS)} claims hold: all directions hold" in done.stdout
    assert done.stdout.count("✓") == len(CLAIMS)


def test_ones_own_method_runs_along_and_a_refusal_is_no_fault(played: Played) -> None:
    done = called("--method", "mine.py", "--backbone", "tiger,mor")
    assert done.exit_code == 0, done.output
    asked = [(request.backbone, request.method) for request in played.asked]
    assert asked == [("tiger", name) for name in (*METHODS, "mine.py")] + [("mor", name) for name in (*FEW, "mine.py")]
    assert "tiger: ✓ mine did not diverge" in done.stdout
    assert "tiger: · mine, forget HR@10  (0.2000; the original has 0.3000)" in done.stdout
    assert "– the method 'mine' needs what 'mor' does not have" in done.stdout
    assert "mor: ✓ mine" not in done.stdout


def test_what_does_not_hold_is_named_with_its_numbers(played: Played) -> None:
    played.faults = ("the original was changed",)
    done = called("--method", "mine.py")
    assert done.exit_code == 1
    told = "tiger: mine leaves the original as it is and returns a whole recommender (the original was changed)"
    assert told in done.stderr
    content = json.loads(called("--method", "mine.py", "--json").stdout)
    assert content["violations"] == [told]
    assert {"backbone", "text", "numbers", "holds"} == set(content["claims"][0])
