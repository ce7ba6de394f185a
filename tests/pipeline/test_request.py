"""Requests: the command repeats them, presets change where they are told to and nowhere else."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, overrides, parse
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.pipeline.request import RunRequest, changed


class Shape(StrictModel):
    """The inner part."""

    layers: int = Field(default=2, ge=1)
    width: int = 64


class Preset(StrictModel):
    """The outer part."""

    shape: Shape = Shape()
    lr: float = 0.1
    steps: int | None = None


def test_a_preset_changes_where_told_and_nowhere_else() -> None:
    new = changed(Preset(), {"shape.layers": 4, "lr": 1, "steps": 10}, where="--set-backbone")
    assert new == Preset(shape=Shape(layers=4), lr=1.0, steps=10)
    assert changed(new, {"steps": None}, where="x").steps is None
    assert changed(Preset(), {}, where="x") == Preset()
    # A section is changed as its fields are: what is not named stays the preset's.
    tall = Preset(shape=Shape(layers=3))
    assert changed(tall, {"shape": {"width": 8}}, where="x") == changed(tall, {"shape.width": 8}, where="x")
    assert changed(tall, {"shape": {"width": 8}}, where="x").shape.layers == 3


def test_numbers_of_numpy_are_numbers_and_other_objects_are_refused() -> None:
    fields = {"epochs": np.int64(2), "lr": np.float32(0.5), "deep": {"codes": (np.int8(1), 2)}}
    asked = RunRequest(task="t", method="m", method_set=fields)
    assert asked.method_set == {"epochs": 2, "lr": 0.5, "deep": {"codes": [1, 2]}}
    assert type(asked.method_set["epochs"]) is int
    for odd in (object(), np.zeros(3), {1, 2}):
        with pytest.raises(ConfigError, match="method_set"):
            parse(RunRequest, {"task": "t", "method": "m", "method_set": {"lr": odd}}, where="run()")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"shape.layer": 4}, "shape.layer: unknown key; did you mean 'layers'"),
        ({"lr.deep": 4}, "lr.deep: unknown key"),
        ({"shap": 4}, "shap: unknown key; did you mean 'shape'"),
        ({"shape.layers": 0}, "shape.layers: "),
        ({"new.deep.down": 1}, "new: unknown key"),
    ],
)
def test_wrong_names_are_refused_under_the_name_that_was_given(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        changed(Preset(), fields, where="--set-backbone")
    assert words in str(told.value)
    assert told.value.where == "--set-backbone"


def test_the_command_repeats_the_request() -> None:
    request = RunRequest(
        task="steam-price",
        method="my methods/mine.py:Mine",
        seed=3,
        scale="small",
        data_dir=Path("data dir"),
        threads=2,
        method_set={"lr": 1e-5, "mask": "off", "dropout": True, "clip": None},
        backbone_set={"training.epochs": 3, "shape": {"layers": 2, "dropout": None, "lr": 1e-05}, "levels": [1, True]},
        results_dir=Path("elsewhere"),
    )
    words = shlex.split(request.command())
    assert words[:2] == ["bench", "run"]
    pairs = list(zip(words[2::2], words[3::2], strict=True))
    assert ("--method", "my methods/mine.py:Mine") in pairs
    assert ("--data-dir", "data dir") in pairs
    assert ("--seed", "3") in pairs
    assert ("--scale", "small") in pairs
    assert "--device" not in words, "defaults are left out"
    assert overrides([value for name, value in pairs if name == "--set"]) == request.method_set
    assert overrides([value for name, value in pairs if name == "--set-backbone"]) == request.backbone_set
