"""All parts of a measurement on one model: run, interrupted, stored, read back, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.measurement import (
    MODEL_COLUMN,
    Measured,
    Measurement,
    NotMeasurable,
    References,
    SharedPass,
    Subject,
    compare_measurements,
    independent_oracles,
    number,
    read_measured,
    read_parts,
    run_parts,
    write_measured,
    write_parts,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.progress import Progress


def offsets(subject: Subject, progress: Progress) -> Mapping[str, Any]:
    if subject.scale == "small":
        raise NotMeasurable("no offset at this scale")
    return {"offset": np.array([100.0])}


OFFSETS = SharedPass("offsets", f"{__name__}:offsets")


class Drawing(Measurement):
    """Draws a number with torch's global generator in every part; one part cannot be measured."""

    name = "drawing"
    specs = ()
    passes = (OFFSETS,)

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.killed_at = ""

    def config(self, scale: str) -> StrictModel:
        return StrictModel()

    def parts(self, subject: Subject) -> tuple[str, ...]:
        return ("a/first", "a/second", "lacking")

    def measure(self, subject: Subject, part: str, config: Any, progress: Progress) -> Measured:
        self.asked.append(part)
        if part == self.killed_at:
            raise KeyboardInterrupt
        if part == "lacking":
            raise NotMeasurable("nothing to draw")
        drawn = torch.rand(3).numpy() + subject.pass_arrays["offsets"]["offset"]
        return Measured(curve=pd.DataFrame({"part": [part], "sum": [drawn.sum()]}), samples={"drawn": drawn})

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        others = independent_oracles(own, references)
        return (number("drawing", Group.ALL, float(own["a/first"].samples["drawn"].sum()), n=len(others)),)


SUBJECT = Subject(cast(Recommender, None), *[cast(Any, None)] * 4, scale="smoke", seed=0)
PASSES = {"offsets": OFFSETS.run(SUBJECT, Progress())}


def run(measurement: Drawing, folder: Path, work: Path | None = None, passes: Mapping[str, Measured] = PASSES) -> None:
    run_parts(
        measurement,
        SUBJECT,
        None,
        Progress(),
        folder,
        passes=passes,
        work=work or folder / "work",
        reseed=lambda: cast(None, torch.manual_seed(7)),
    )


def test_every_part_is_stored_and_starts_from_the_same_seed(tmp_path: Path) -> None:
    run(Drawing(), tmp_path / "stage")
    parts = read_parts(tmp_path / "stage")
    assert list(parts) == ["a/first", "a/second", "lacking"]
    np.testing.assert_array_equal(parts["a/first"].samples["drawn"], parts["a/second"].samples["drawn"])
    assert parts["lacking"].reason == "nothing to draw"
    assert "whole" not in parts
    assert parts["a/first"].curve is not None


def test_an_interrupted_measurement_goes_on_with_the_next_part(tmp_path: Path) -> None:
    run(Drawing(), tmp_path / "whole", tmp_path / "other")
    measurement = Drawing()
    measurement.killed_at = "a/second"
    with pytest.raises(KeyboardInterrupt):
        run(measurement, tmp_path / "stage.draft", tmp_path / "work")
    again = Drawing()
    run(again, tmp_path / "stage", tmp_path / "work")
    assert again.asked == ["a/second", "lacking"]
    for path in sorted((tmp_path / "whole").rglob("*.*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "stage" / path.relative_to(tmp_path / "whole")).read_bytes()


def test_a_damaged_part_is_measured_again(tmp_path: Path) -> None:
    run(Drawing(), tmp_path / "stage", tmp_path / "work")
    (tmp_path / "work" / "a.first" / "samples.safetensors").write_bytes(b"")
    (tmp_path / "work" / "lacking" / "outcome.json").write_text("{")
    again = Drawing()
    run(again, tmp_path / "second", tmp_path / "work")
    assert again.asked == ["a/first", "lacking"]


def test_the_reason_of_a_pass_stands_for_the_whole_measurement(tmp_path: Path) -> None:
    lacking = OFFSETS.run(replace(SUBJECT, scale="small"), Progress())
    assert lacking.reason == "no offset at this scale"
    run(Drawing(), tmp_path / "stage", passes={"offsets": lacking})
    parts = read_parts(tmp_path / "stage")
    assert list(parts) == [""]
    assert parts[""].reason == "no offset at this scale"


def test_what_is_stored_reads_back(tmp_path: Path) -> None:
    curve = pd.DataFrame({"step": [0, 1], "hr@10": [0.1, 1 / 3], "attack": ["mixed", "mixed"]})
    samples = {"hits": np.array([[True, False]]), "scores": np.array([1.5, float("nan")])}
    write_measured(Measured(curve=curve, samples=samples), tmp_path)
    back = read_measured(tmp_path)
    pd.testing.assert_frame_equal(back.curve, curve)
    assert back.samples["hits"].dtype == np.bool_
    np.testing.assert_array_equal(back.samples["scores"], samples["scores"])
    assert back.reason == ""
    write_parts({"x/y": back, "": Measured(reason="no data")}, tmp_path / "parts")
    parts = read_parts(tmp_path / "parts")
    assert parts[""].reason == "no data"
    np.testing.assert_array_equal(parts["x/y"].samples["hits"], samples["hits"])


def test_models_are_compared_and_their_curves_joined(tmp_path: Path) -> None:
    for name in ("own", "original", "oracle"):
        run(Drawing(), tmp_path / name)
    own, original, oracle = (read_parts(tmp_path / name) for name in ("own", "original", "oracle"))
    references = References(original=original, oracles=[own, oracle])
    found = compare_measurements([(Drawing(), own, references)], oracles=3)
    assert [value.n for value in found.values] == [1], "the run is no oracle of its own"
    assert [len(values) for values in found.oracles] == [1, 1, 0]
    models = found.tables["drawing"][MODEL_COLUMN]
    assert list(dict.fromkeys(models)) == ["run", "original", "retrain", "retrain 1"]
    assert not compare_measurements([], oracles=1).values
