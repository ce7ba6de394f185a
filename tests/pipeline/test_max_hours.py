"""A limit in hours marks what it ended, and nothing made under it stands in for a whole training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.run import _ended_early
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, by_title
from genrec_unlearn_bench.pipeline.stages import unlearn
from genrec_unlearn_bench.reporting.results import result_of
from genrec_unlearn_bench.store.store import StageStore
from tests.pipeline.conftest import TINY, Bench

HURRIED = {**TINY, "training.epochs": 3, "max_hours": 1e-9}
PATIENT = {**TINY, "max_hours": 24}
FAR = "after step 1 of 57"


def run(bench: Bench, **changes: Any) -> FinishedRun:
    """The original, its results beside those of other tests."""
    return bench.run("original", results_dir=bench.root / "limited", **changes)


def test_what_the_hours_ended_is_marked_and_never_taken_for_whole(trained: Bench) -> None:
    done = run(trained, backbone_set=HURRIED)
    record = done.record
    assert {"original", "retrain"} <= set(trained.told.computed), "none of the whole models was taken"
    assert set(record.ended_early) == {"original", "retrain"}, "both by the same rule"
    assert record.ended_early["original"] == FAR
    assert f"max_hours ended the training of original {FAR}: its weights depend on the machine's speed" in record.notes
    assert "max_hours=1e-09" in record.command
    assert record.backbone_config["max_hours"] == 1e-9
    assert result_of(record, folder=done.folder, root=done.folder).ended_early == record.ended_early
    # The unhurried cell is as it was: its stages are there, and its record says nothing.
    whole = run(trained).record
    assert not {"original", "retrain"} & set(trained.told.computed)
    assert not whole.ended_early
    assert "max_hours" not in whole.backbone_config, "and its record and keys are those of before"


def test_a_limit_that_is_not_reached_marks_nothing_and_changes_no_number(trained: Bench) -> None:
    patient, whole = run(trained, backbone_set=PATIENT).record, run(trained).record
    assert not patient.ended_early
    clocks = ("cost.",)
    assert [v for v in patient.metrics if not v.metric.startswith(clocks)] == [
        v for v in whole.metrics if not v.metric.startswith(clocks)
    ]


def test_a_training_that_is_gone_is_not_called_whole(tmp_path: Path) -> None:
    gone = Stage("sasrec", 1, {"config": SasRecConfig(max_hours=1.0)})
    other = Stage("unlearned", 1, {"config": SasRecConfig()}, {"sasrec": gone})
    inputs = Inputs(Stage("result", 1, inputs={"row": other}), StageContext(StageStore(tmp_path)))
    assert dict(_ended_early(inputs)) == {"sasrec": "unknown: it is gone from the store"}


def test_trainings_under_a_limit_have_keys_of_their_own_and_all_others_keep_theirs(trained: Bench) -> None:
    whole, hurried = (
        by_title(build_result(resolve(trained.request("sasrec", backbone_set=fields)))) for fields in (TINY, HURRIED)
    )
    changed = {title for title in whole if whole[title].key != hurried[title].key}
    assert {"original", "retrain", "sasrec"} <= changed
    assert not {"dataset", "task", "features", "sids"} & changed
    assert "max_hours" not in str(whole["original"].recipe)


def test_at_smoke_scale_methods_are_given_no_more_examples_than_take_minutes(
    trained: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = trained.request("grad-ascent", method_set={"epochs": 1, "batch_size": 4})
    assert not resolve(request).bounded, "the demo is small by itself"
    monkeypatch.setattr(ResolvedRequest, "bounded", property(lambda resolved: True))
    monkeypatch.setitem(unlearn.SMOKE, "forget_examples", 10)
    record = trained.run("grad-ascent", method_set={"epochs": 1, "batch_size": 4}).record
    assert record.cost.steps == 3, "ten examples in fours"
    given = str(record.report["smoke"])
    assert re.fullmatch(r"the method was given 10 of [\d,]+ forget and [\d,]+ of [\d,]+ retain examples .*", given)
