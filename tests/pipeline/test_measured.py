"""Measurements beyond the core: measured once a model and part, stored, compared, published, refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import ConfigError, UnknownName, UsageError
from genrec_unlearn_bench.evaluation import invariants, suites
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    SharedPass,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec, MetricValue
from genrec_unlearn_bench.pipeline import resolve as resolving
from genrec_unlearn_bench.pipeline import run as running
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.pipeline.stages import evaluate
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce import repeat
from genrec_unlearn_bench.reproduce.repeat import repeat_record, request_of
from tests.pipeline.conftest import Bench

pytestmark = pytest.mark.slow

WEIGHT = MetricSpec(
    name="weighing.sum",
    title="Sum",
    better={Group.ALL: Better.LOWER},
    range=(0.0, 1e9),
    unit="count",
    level=Level.MODEL,
    description="Sum of the absolute weights, times a factor.",
    source="this test",
)
LACKING = WEIGHT.model_copy(update={"name": "weighing.lacking"})


class Weights(StrictModel):
    """What can be set."""

    factor: float = 1.0


def total(subject: Subject, progress: Progress) -> Mapping[str, Any]:
    weights = [float(weight.detach().abs().sum()) for weight in subject.recommender.module.parameters()]
    return {"sums": np.array(weights)}


class Weighing(Measurement):
    """Weighs a model in two parts; the second cannot be measured."""

    name = "weighing"
    specs = (WEIGHT, LACKING)
    modules = (__name__,)
    passes = (SharedPass("weights", f"{__name__}:total"),)
    asked: ClassVar[list[tuple[str, str]]] = []

    def config(self, scale: str) -> Weights:
        return Weights()

    def parts(self, subject: Subject) -> tuple[str, ...]:
        return ("whole", "lacking")

    def measure(self, subject: Subject, part: str, config: Weights, progress: Progress) -> Measured:
        self.asked.append((part, type(subject.recommender).__name__))
        if part == "lacking":
            raise NotMeasurable("there is nothing to weigh")
        sums = subject.pass_arrays["weights"]["sums"] * config.factor
        return Measured(curve=pd.DataFrame({"part": ["whole"], "sum": [sums.sum()]}), samples={"sums": sums})

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        if own.get("whole") is None:
            return unmeasured(self.specs, own[""].reason)
        mine = float(own["whole"].samples["sums"].sum())
        return (number(WEIGHT.name, Group.ALL, mine), *unmeasured([LACKING], own["lacking"].reason))


@pytest.fixture
def weighing(monkeypatch: pytest.MonkeyPatch) -> type[Weighing]:
    specs = {**metric_specs(), WEIGHT.name: WEIGHT, LACKING.name: LACKING}
    monkeypatch.setattr(suites, "_MEASUREMENTS", {"weighing": (f"{__name__}:Weighing", "")})
    monkeypatch.setattr(invariants, "metric_specs", lambda: specs)
    for module in (resolving, running, evaluate, repeat):
        monkeypatch.setattr(module, "find_measurement", lambda name: Weighing())
    Weighing.asked.clear()
    return Weighing


def full(bench: Bench, method: str, **fields: Any) -> Any:
    return bench.run(method, suite="full", measure=("weighing",), **fields)


def values(record: Any) -> dict[str, MetricValue]:
    return {value.metric: value for value in record.metrics if value.metric.startswith("weighing")}


def test_a_model_is_measured_once_and_references_are_shared(trained: Bench, weighing: type[Weighing]) -> None:
    own = {"weighing.factor": 3.0}  # of this test alone, as the cache is everybody's
    first = full(trained, "original", measure_set=own)
    assert [part for part, _ in weighing.asked] == ["whole", "lacking"] * 2, "the original and its oracle"
    assert {"weights: original", "weighing: original", "weighing: retrain"} <= set(trained.told.computed)
    full(trained, "filter", measure_set=own)
    assert len(weighing.asked) == 6, "the filtered model alone"
    again = full(trained, "filter", measure_set=own)
    assert len(weighing.asked) == 6
    assert read_record(again.folder) == again.record
    assert first.record.holdout == again.record.holdout != ""
    assert again.record.measuring == {"weighing": {"factor": 3.0}}
    assert any("never trained on" in note for note in again.record.notes)


def test_reasons_stand_in_place_of_numbers(trained: Bench, weighing: type[Weighing]) -> None:
    found = values(full(trained, "original").record)
    assert found["weighing.sum"].value is not None
    assert found["weighing.lacking"].value is None
    assert found["weighing.lacking"].note == "there is nothing to weigh"
    popular = values(full(trained, "popularity").record)
    assert popular["weighing.sum"].value is None
    assert "no generative recommender" in str(popular["weighing.sum"].note)


def test_curves_are_published_and_samples_are_not(trained: Bench, weighing: type[Weighing]) -> None:
    done = full(trained, "filter", oracle_seeds=2)
    table = pd.read_csv(done.folder / "measurements" / "weighing.csv")
    assert table["model"].tolist() == ["run", "original", "retrain"], "this measurement looks at the first oracle alone"
    assert table["sum"][0] == table["sum"][1] != table["sum"][2]
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "losses.jsonl",
        "manifest.json",
        "measurements",
        "per_user.parquet",
        "result.json",
    ]


def test_the_original_of_a_suite_with_a_holdout_is_another_one(trained: Bench, weighing: type[Weighing]) -> None:
    core, held = trained.run("original").record, full(trained, "original").record
    digests = [{stage.name: stage.digest for stage in record.stages} for record in (core, held)]
    assert digests[0]["sids"] == digests[1]["sids"], "texts are the same, so the tokens are shared"
    assert digests[0]["original"] != digests[1]["original"]
    assert core.holdout == ""
    assert core.key != held.key


def test_another_configuration_measures_again(trained: Bench, weighing: type[Weighing]) -> None:
    one = full(trained, "original")
    weighing.asked.clear()
    two = full(trained, "original", measure_set={"weighing.factor": 2.0})
    assert len(weighing.asked) == 4
    assert values(two.record)["weighing.sum"].value == 2 * float(values(one.record)["weighing.sum"].value or 0)
    assert one.record.key != two.record.key
    for option in ("--suite full", "--measure weighing", "--set-measure weighing.factor=2.0"):
        assert option in two.record.command


def test_wrong_calls(weighing: type[Weighing]) -> None:
    call = RunRequest(task="demo-brand", method="original", suite="full", measure=("weighing",))
    with pytest.raises(UnknownName, match="weighin"):
        resolve(call.model_copy(update={"measure": ("weighin",)}))
    with pytest.raises(UsageError, match="core measurements alone"):
        resolve(call.model_copy(update={"suite": "core"}))
    with pytest.raises(UnknownName, match="probing"):
        resolve(call.model_copy(update={"measure_set": {"probing.splits": 0}}))
    with pytest.raises(ConfigError, match="fact"):
        resolve(call.model_copy(update={"measure_set": {"weighing.fact": 1}}))


def test_a_record_with_measurements_can_be_repeated(trained: Bench, weighing: type[Weighing], tmp_path: Path) -> None:
    record = full(trained, "filter", measure_set={"weighing.factor": 5.0}).record
    asked = request_of(record, results_dir=tmp_path)
    assert asked.measure == ("weighing",)
    assert asked.measure_set == {"weighing.factor": 5.0}
    weighing.asked.clear()
    again = repeat_record(record, cache_dir=trained.store.root, progress=Progress())
    assert len(weighing.asked) == 6, "of the run, the original and the oracle, as nothing measured is taken over"
    assert again.matches
    assert not [name for name in again.reused if name.startswith("weigh")]
