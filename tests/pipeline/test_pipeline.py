"""Whole runs on the demo: what is reused, what is repeated to the bit, what is refused, what is never half-written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, CorruptArtefact, ProtocolMismatch
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import read_per_user, recompute
from genrec_unlearn_bench.pipeline import run as running
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import FinishedRun, read_record
from genrec_unlearn_bench.pipeline.stages import unlearn
from genrec_unlearn_bench.store.manifest import content_key
from tests.pipeline.conftest import TINY, TINY_TRACER, Bench, value

METHOD = '''"""A method of one's own."""

import torch

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Does what it is told."""

    name = "mine"

    def unlearn(self, recommender, request, progress):
        {body}
'''


def mine(folder: Path, body: str, *, extra: str = "") -> str:
    path = folder / "mine.py"
    text = METHOD.replace("{body}", body.replace("\n", "\n        "))
    path.write_text(text.replace('    name = "mine"\n', f'    name = "mine"\n{extra}'))
    return f"{path}:Mine"


def measured(record: RunRecord) -> list[str]:
    """Everything that was measured, the clock aside."""
    return [v.model_dump_json() for v in record.metrics if not v.metric.startswith("cost.")]


def states(done: FinishedRun) -> dict[str, bool]:
    return {stage.name: stage.cached for stage in done.record.stages}


def test_a_result_is_whole_and_reads_back(trained: Bench) -> None:
    done = trained.run("tracer")
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "losses.jsonl",
        "manifest.json",
        "per_user.parquet",
        "result.json",
    ]
    record = read_record(done.folder)
    assert record == done.record
    assert done.folder == trained.results / "demo-brand/tiger/tracer" / f"smoke-seed0-{record.key[:10]}"
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert manifest["digest"] == record.task_digest
    lines = [json.loads(line) for line in (done.folder / "losses.jsonl").read_text().splitlines()]
    assert len(lines) == record.cost.steps > 0
    assert record.method_config["epochs"] == TINY_TRACER["epochs"]
    assert record.backbone_config["training"]["epochs"] == TINY["training.epochs"]
    assert record.cost.unlearn_seconds > 0
    assert record.cost.peak_memory_mib > 50
    assert record.cost.share_of_retraining is not None
    assert record.report, "the method's own report"
    assert "--set-backbone shape.layers=1" in record.command
    assert {"dataset", "features", "sids", "original", "retrain", "unlearned", "evaluation"} <= set(states(done))


def test_every_user_metric_follows_from_the_per_user_table(trained: Bench) -> None:
    done = trained.run("tracer")
    again = {(v.metric, v.group, v.beam): v for v in recompute(read_per_user(done.folder / "per_user.parquet"))}
    kept = {(v.metric, v.group, v.beam): v for v in done.record.metrics}
    assert again
    assert all(kept[key] == found for key, found in again.items())


def test_a_second_method_pays_for_itself_alone(trained: Bench) -> None:
    done = trained.run("filter")
    assert trained.told.computed == ["unlearned", "evaluation"]
    assert [name for name, cached in states(done).items() if not cached] == ["unlearned", "evaluation"]
    assert value(done.record, "hr@10", Group.FORGET) == 0
    assert value(done.record, "concept-rate@10", Group.RETAIN) == 0


def test_another_configuration_runs_the_method_again_and_nothing_else(trained: Bench) -> None:
    trained.run("tracer", method_set={**TINY_TRACER, "lr": 1e-5})
    assert trained.told.computed == ["unlearned", "evaluation"]


@pytest.mark.slow
def test_tasks_of_a_dataset_share_the_original(trained: Bench) -> None:
    done = trained.run("original", "demo-price")
    assert states(done)["sids"]
    assert states(done)["original"]
    assert {"task", "features-scrubbed", "retrain"} <= set(trained.told.computed)


@pytest.mark.slow
def test_another_seed_shares_the_data_and_nothing_that_is_trained(trained: Bench) -> None:
    done = trained.run("original", seed=1)
    assert states(done)["dataset"]
    assert states(done)["features"]
    assert not states(done)["original"]
    assert done.record.task_digest == trained.run("original").record.task_digest


@pytest.mark.slow
def test_same_seed_same_numbers_to_the_bit(trained: Bench, bench_at: Callable[[str], Bench]) -> None:
    other = bench_at("other")
    one, two = trained.run("tracer"), other.run("tracer")
    assert not any(states(two).values()), "nothing was shared"
    assert measured(one.record) == measured(two.record)
    assert one.record.per_user_digest == two.record.per_user_digest
    assert one.record.key == two.record.key
    assert {stage.name: stage.digest for stage in one.record.stages} == {
        stage.name: stage.digest for stage in two.record.stages
    }


def test_a_rerun_reads_the_result_and_another_results_folder_finds_every_stage(trained: Bench, tmp_path: Path) -> None:
    first = trained.run("tracer").record
    again = trained.run("tracer")
    assert again.cached
    assert again.record == first
    assert trained.told.lines == [f"result: from {again.folder}"]
    elsewhere = trained.run("tracer", results_dir=tmp_path)
    assert trained.told.computed == []
    assert not elsewhere.cached
    assert all(states(elsewhere).values())
    assert measured(elsewhere.record) == measured(first)
    assert elsewhere.record.cost.unlearn_seconds == first.cost.unlearn_seconds, "the time it took when it was computed"


@pytest.mark.parametrize("name", ["result.json", "per_user.parquet"])
@pytest.mark.parametrize("damage", ["empty", "missing", "cut"])
def test_a_damaged_result_does_not_count_as_done(trained: Bench, tmp_path: Path, name: str, damage: str) -> None:
    whole = trained.run("filter", results_dir=tmp_path)
    path = whole.folder / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -20])
    again = trained.run("filter", results_dir=tmp_path)
    assert not again.cached
    assert trained.told.computed == []
    assert measured(read_record(again.folder)) == measured(whole.record)


@pytest.mark.slow
def test_reference_rows(trained: Bench) -> None:
    retrain = trained.run("retrain").record
    gaps = [v.value for v in retrain.metrics if v.metric.startswith("gap.") and v.value is not None]
    assert gaps
    assert set(gaps) == {0.0}
    assert retrain.cost.share_of_retraining == 1.0
    assert retrain.cost.steps == retrain.report["train.steps"] > 0
    original = trained.run("original").record
    assert original.cost.unlearn_seconds == 0.0
    changes = [v.value for v in original.metrics if v.metric.startswith("collateral-change") and v.value is not None]
    assert changes
    assert set(changes) == {0.0}
    popularity = trained.run("popularity").record
    assert value(popularity, "hr@10", Group.RETAIN) > 0
    sasrec = trained.run("sasrec").record
    assert value(sasrec, "ndcg@10", Group.RETAIN) > 2 * value(popularity, "ndcg@10", Group.RETAIN)
    assert sasrec.cost.unlearn_seconds == 0.0
    full = trained.run("retrain-full")
    assert "sids-full" in states(full)
    assert value(full.record, "hr@10", Group.RETAIN) > 0


@pytest.mark.slow
def test_oracle_seeds_give_the_spread_or_no_gap_at_all(trained: Bench) -> None:
    with_spread = trained.run("original", oracle_seeds=2).record
    assert any(v.metric == "gapz.ndcg@10" and v.value is not None and v.n == 2 for v in with_spread.metrics)
    without = trained.run("original", oracle_seeds=0)
    assert not [v for v in without.record.metrics if v.metric.startswith("gap")]
    assert "retrain" not in states(without)
    assert without.record.cost.retrain_seconds is None
    assert without.record.key != with_spread.key


@pytest.mark.slow
def test_interactions_can_be_forgotten_too(trained: Bench) -> None:
    done = trained.run("tracer", "demo-interaction")
    assert value(done.record, "hr@10", Group.FORGET) >= 0
    assert not done.record.diverged


def test_a_method_of_ones_own_and_its_source_in_the_key(trained: Bench, tmp_path: Path) -> None:
    place = mine(tmp_path, "return recommender.clone()")
    done = trained.run(place)
    assert done.record.cell.method == "mine"
    assert measured(done.record)[:20] == measured(trained.run("original").record)[:20], "it changed nothing"
    trained.run(place)
    assert trained.told.computed == []
    mine(tmp_path, "progress.note('changed', 1)\nreturn recommender.clone()")
    again = trained.run(place)
    assert trained.told.computed == ["unlearned", "evaluation"]
    assert again.record.report == {"changed": 1}
    assert again.record.method_digest != done.record.method_digest


SPOIL = """
with torch.no_grad():
    for weight in recommender.module.parameters():
        weight.add_(torch.rand_like(weight))
return recommender
""".strip()


@pytest.mark.slow
def test_a_method_that_forgets_to_clone_spoils_nobody_and_is_repeatable(trained: Bench, tmp_path: Path) -> None:
    before = measured(trained.run("original").record)
    place = mine(tmp_path, SPOIL)
    first = trained.run(place).record
    mine(tmp_path, SPOIL.replace("return", "unused = 1\nreturn"))
    second = trained.run(place).record
    assert measured(first) == measured(second), "torch's global generator is seeded for every stage"
    assert measured(trained.run("original").record) == before


DIVERGE = """
model = recommender.clone()
with torch.no_grad():
    for weight in model.module.parameters():
        weight.mul_(float("nan"))
progress.log("hard", 0, {"loss": float("nan")})
return model
""".strip()


@pytest.mark.parametrize("reported", [True, False])
def test_a_diverged_run_is_recorded_as_diverged(trained: Bench, tmp_path: Path, reported: bool) -> None:
    body = DIVERGE if reported else DIVERGE.replace('progress.log("hard", 0, {"loss": float("nan")})\n', "")
    done = trained.run(mine(tmp_path, body))
    record = read_record(done.folder)
    assert record.diverged
    assert all(v.metric.startswith("cost.") for v in record.metrics)
    assert "not finite" in " ".join(record.notes)
    assert not (done.folder / "per_user.parquet").exists()


# A table with the original's version passes for the original one wherever IDs are told apart by version.
RELABEL_UNSEEN = """
from dataclasses import replace
table = recommender.sids
return recommender.clone().with_sids(replace(table, codes=table.codes[::-1].copy()))
""".strip()


@pytest.mark.parametrize(
    ("body", "fault", "words"),
    [
        ("return 3", BenchError, "returned int, not a recommender"),
        ("raise KeyboardInterrupt", KeyboardInterrupt, ""),
        (RELABEL_UNSEEN, BenchError, "other semantic IDs as version 0"),
        ("raise RuntimeError('broken')", BenchError, r"mine\.py:15 in unlearn: RuntimeError: broken"),
    ],
)
def test_a_method_that_fails_leaves_nothing(
    trained: Bench, tmp_path: Path, body: str, fault: type[BaseException], words: str
) -> None:
    kept = sorted(trained.results.rglob("*"))
    with pytest.raises(fault, match=words or None):
        trained.run(mine(tmp_path, body))
    assert sorted(trained.results.rglob("*")) == kept
    assert not list(trained.root.rglob(".draft-*"))
    trained.run("original")
    assert trained.told.computed == [], "what was finished is still there"


def test_capabilities_are_checked_before_any_work(bench_at: Callable[[str], Bench], tmp_path: Path) -> None:
    empty = bench_at("empty")
    place = mine(tmp_path, "return recommender", extra="    requires = frozenset({Capability.TEXT_TASKS})\n")
    with pytest.raises(CapabilityMissing, match="text_tasks"):
        empty.run(place)
    assert not empty.root.exists()


def test_a_damaged_recommender_is_trained_again_to_the_same_bits(
    trained: Bench, bench_at: Callable[[str], Bench], tmp_path: Path
) -> None:
    copy = bench_at("copy")
    shutil.copytree(trained.root, copy.root)
    before = copy.run("original").record
    [key] = [stage.key for stage in before.stages if stage.name == "original"]
    weights = max(copy.store.folder("original", key).rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    after = copy.run("original", results_dir=tmp_path)
    assert copy.told.computed == ["original"], "the evaluation of the same bits is still good"
    assert any("damaged" in line and "quarantine" in line for line in copy.told.lines)
    assert measured(after.record) == measured(before)


@pytest.mark.slow
def test_a_raised_version_runs_its_own_stages_again_and_what_is_made_from_them(
    trained: Bench, bench_at: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = bench_at("copy")
    shutil.copytree(trained.root, copy.root)
    monkeypatch.setattr(unlearn, "TOOLKIT_VERSION", unlearn.TOOLKIT_VERSION + 1)
    copy.run("tracer")
    assert copy.told.computed == ["unlearned", "evaluation"]


def test_the_recipe_beside_a_stage_explains_its_key(trained: Bench) -> None:
    record = trained.run("tracer").record
    keys = {stage.name: stage.key for stage in record.stages}
    recipe = dict(trained.store.recipes("unlearned")).get(keys["unlearned"])
    assert recipe is not None
    assert recipe["config"]["method"] == "tracer"
    assert recipe["config"]["config"] == record.method_config
    assert recipe["config"]["seed"] == 0
    assert recipe["files"] == {"method": record.method_digest}
    assert recipe["inputs"]["original"] == keys["original"]
    assert content_key(recipe) == keys["unlearned"]


TASK = """
name: own-brand
version: {version}
dataset: demo
seed: {seed}
concept: {{kind: brand}}
"""


@pytest.mark.slow
def test_a_task_that_changes_under_its_version_is_refused(trained: Bench, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(TASK.format(version=1, seed=0))
    trained.run("original", str(path), oracle_seeds=0)
    path.write_text(TASK.format(version=1, seed=5))
    with pytest.raises(ProtocolMismatch, match="something else"):
        trained.run("original", str(path), oracle_seeds=0)
    path.write_text(TASK.format(version=2, seed=5))
    trained.run("original", str(path), oracle_seeds=0)


def test_a_result_that_breaks_an_invariant_is_not_written(
    trained: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "check_invariants", lambda values: ["HR@5 <= HR@10 is broken by 0.1"])
    with pytest.raises(BenchError, match="was not written"):
        trained.run("original", results_dir=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_result_somebody_changed_is_refused(trained: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained.run("original").folder, folder)
    (folder / "per_user.parquet").write_bytes(b"something else")
    with pytest.raises(CorruptArtefact, match="per-user table"):
        read_record(folder)
    (folder / "result.json").write_text('{"schema_version": 1}')
    with pytest.raises(CorruptArtefact, match="schema"):
        read_record(folder)
    (folder / "result.json").unlink()
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        read_record(folder)
