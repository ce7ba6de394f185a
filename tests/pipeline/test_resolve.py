"""Resolved requests: defaults by task and scale, and every fault of a call before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.errors import ConfigError, UnknownName, UsageError
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve


def test_the_demo_is_smoke_and_real_data_is_small() -> None:
    assert resolve(RunRequest(task="demo-brand", method="original")).scale is Scale.SMOKE
    assert resolve(RunRequest(task="steam-price", method="original")).scale is Scale.SMALL
    chosen = resolve(RunRequest(task="demo-brand", method="original", scale="small"))
    assert chosen.scale is Scale.SMALL
    assert chosen.request.scale == "small", "the record names the scale that was run"


def test_the_encoder_follows_the_scale_and_the_demo_always_takes_tfidf() -> None:
    assert resolve(RunRequest(task="steam-price", method="original")).encoder.kind == "tfidf"
    assert resolve(RunRequest(task="demo-brand", method="original", scale="paper")).encoder.kind == "tfidf"
    paper = resolve(RunRequest(task="steam-price", method="original", scale="paper")).encoder
    assert paper.model == "sentence-transformers/sentence-t5-base"
    own = resolve(RunRequest(task="steam-price", method="original", scale="paper", encoder="tfidf:64")).encoder
    assert own.key == "tfidf:64"


def test_presets_follow_the_scale_and_the_overrides() -> None:
    small = resolve(RunRequest(task="steam-price", method="tracer", backbone_set={"training.epochs": 3}))
    preset = small.backbone.presets[Scale.SMALL].model_dump()
    assert small.backbone_config.model_dump() == {**preset, "training": {**preset["training"], "epochs": 3}}
    assert small.sid_config == small.backbone.sid_presets[Scale.SMALL]
    assert small.method is not None
    assert small.method_config is small.method.config


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"task": "demo-brnd"}, UnknownName),
        ({"method": "tracre"}, UnknownName),
        ({"backbone": "tigr"}, UnknownName),
        ({"scale": "smal"}, UnknownName),
        ({"suite": "cor"}, UnknownName),
        ({"encoder": "tfidff"}, UnknownName),
        ({"device": "abacus"}, UsageError),
        ({"method_set": {"learning_rat": 1}}, ConfigError),
        ({"method": "retrain", "method_set": {"lr": 1}}, ConfigError),
        ({"backbone_set": {"training.epoch": 1}}, ConfigError),
        ({"sid_set": {"codes": 1}}, ConfigError),
    ],
    ids=str,
)
def test_whatever_is_wrong_is_a_usage_error(
    changes: dict[str, object], fault: type[UsageError], tmp_path: Path
) -> None:
    request = RunRequest(**{"task": "demo-brand", "method": "tracer", "data_dir": tmp_path, **changes})
    with pytest.raises(fault) as told:
        resolve(request)
    assert told.value.exit_code == 2


def test_a_measurement_that_the_run_does_not_make_cannot_be_set() -> None:
    for suite, measure in (("core", ()), ("full", ("probing",))):
        request = RunRequest(
            task="demo-brand", method="original", suite=suite, measure=measure, measure_set={"relearning.lr": 3e-4}
        )
        with pytest.raises(UsageError, match="does not make the measurement 'relearning'") as fault:
            resolve(request)
        assert "--suite full" in str(fault.value)
    with pytest.raises(UnknownName, match="relearnin"):
        resolve(RunRequest(task="demo-brand", method="original", measure_set={"relearnin.lr": 3e-4}))
