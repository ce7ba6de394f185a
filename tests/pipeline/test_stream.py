"""Streams in whole runs on the demo: records, tables, reference rows, and what must not change."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun, read_record, record_text
from genrec_unlearn_bench.reproduce.repeat import repeat_record, request_of
from genrec_unlearn_bench.tuning.choice import recommender_digest, write_choice
from tests.pipeline.conftest import Bench
from tests.pipeline.stream_world import COLUMNS
from tests.tuning.choices import choice_for, trial

PUBLISHED = Path(__file__).parents[2] / "leaderboard" / "results"


def stream_values(done: FinishedRun) -> dict[str, MetricValue]:
    return {value.metric: value for value in done.record.metrics if value.metric.startswith("stream.")}


def table(done: FinishedRun) -> pd.DataFrame:
    return pd.read_csv(done.folder / "measurements" / "stream.csv")


@pytest.mark.slow
def test_filtering_in_turn_comes_to_the_same_as_filtering_at_once(trained: Bench) -> None:
    once, turns = trained.run("filter"), trained.run("filter", requests=2)
    assert turns.record.per_user_digest == once.record.per_user_digest
    assert turns.record.key != once.record.key
    assert turns.folder != once.folder
    assert turns.folder.name == f"smoke-seed0-requests2-{turns.record.key[:10]}"
    found = stream_values(turns)
    assert list(found) == [spec.name for spec in family("stream.")]
    assert found["stream.resurfaced"].value == 0
    assert found["stream.forget-hr@10.last"].value == 0
    rows = table(turns)
    assert tuple(rows.columns) == COLUMNS
    assert rows["request"].tolist() == [1, 2]
    assert (
        rows["interactions"].sum() == json.loads((turns.folder / "manifest.json").read_text())["counts"]["train_forget"]
    )
    ordinary = [value for value in turns.record.metrics if not value.metric.startswith(("stream.", "cost."))]
    assert ordinary == [value for value in once.record.metrics if not value.metric.startswith("cost.")]
    assert turns.record.cost.unlearn_seconds == pytest.approx(rows["seconds"].sum())
    assert turns.record.cost.share_of_retraining == found["stream.share-of-retraining"].value
    assert not stream_values(once)
    assert not (once.folder / "measurements").exists()


@pytest.mark.slow
def test_a_stream_can_be_repeated_from_its_record(trained: Bench, tmp_path: Path) -> None:
    done = trained.run("filter", requests=2)
    record = read_record(done.folder)
    assert record.cell.requests == 2
    assert "--requests 2" in record.command
    assert request_of(record, results_dir=tmp_path).requests == 2
    again = repeat_record(record, cache_dir=trained.root / "cache", progress=trained.told)
    assert again.bitwise
    assert again.matches
    assert {"unlearned 1", "unlearned 2", "evaluation 1", "stream"} <= set(trained.told.computed), "made again"
    assert trained.run("filter", requests=2).record.key == record.key
    assert trained.told.computed == []


@pytest.mark.slow
def test_every_request_takes_the_tuned_configuration(trained: Bench, tmp_path: Path) -> None:
    resolved = resolve(trained.request("tracer", requests=2))
    chosen = {**resolved.method_config.model_dump(mode="json"), "lr": 2e-3}
    choice = choice_for(
        task_digest=trained.run("original").record.task_digest,
        backbone_digest=recommender_digest(resolved.backbone_config, resolved.sid_config),
        trials=(trial(resolved.method_config.model_dump(mode="json"), 0.4, 0.2), trial(chosen, 0.1, 0.2)),
    )
    write_choice(tmp_path, choice)
    done = trained.run("tracer", requests=2, ruleset="tuned", tuned_dir=tmp_path, method_set={})
    assert done.record.method_config == chosen
    assert done.record.cell.ruleset == "tuned"
    assert "tuned on the forget set as one request" in done.record.notes
    assert list(done.record.report) == ["request 1", "request 2"]
    assert stream_values(done)["stream.seconds"].value == pytest.approx(table(done)["seconds"].sum())


def test_one_request_is_an_ordinary_run(trained: Bench) -> None:
    one, ordinary = trained.run("filter", requests=1), trained.run("filter")
    assert one.record.key == ordinary.record.key
    assert one.folder == ordinary.folder
    assert "--requests" not in one.record.command
    assert "requests" not in json.loads(record_text(one.record))["cell"]


def test_reference_rows_are_one_model_and_a_retraining_is_paid_at_the_end(trained: Bench) -> None:
    original, retrain = trained.run("original", requests=2), trained.run("retrain", requests=2)
    assert trained.told.computed == [], "nothing is trained or measured for it"
    assert stream_values(original)["stream.retain-change"].value == 0
    assert stream_values(original)["stream.seconds"].value == 0
    assert table(retrain)["share_of_retraining"].tolist() == [0, 1]
    for done in (original, retrain):
        assert stream_values(done)["stream.resurfaced"].value is None
        assert done.record.per_user_digest == trained.run(done.record.cell.method).record.per_user_digest


def test_more_requests_than_brands_are_refused_before_anything_is_trained(trained: Bench) -> None:
    with pytest.raises(UsageError, match="has 2 brands with train interactions, so it cannot be asked in 3 requests"):
        trained.run("filter", requests=3, seed=17)
    assert not any("train" in line for line in trained.told.lines)


def test_published_records_keep_every_byte() -> None:
    found = sorted(PUBLISHED.rglob("result.json"))[::20]
    assert found
    for path in found:
        record = read_record(path.parent)
        assert record.cell.requests == 1
        assert record_text(record) == path.read_text(encoding="utf-8")
